package zkcontainer

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
)

// lifePause is between two looks at whether a member has ended by itself.
const lifePause = 500 * time.Millisecond

// Leader waits until exactly one running member leads and more than half of all serve, and returns which. It
// ends with ctx.
func (e *Ensemble) Leader(ctx context.Context) (int, error) {
	for {
		modes := e.modes(ctx)
		if leader, serving := leaderOf(modes); leader >= 0 && serving > len(modes)/2 {
			return leader, nil
		}
		if !pause(ctx) {
			return -1, fmt.Errorf("zkcontainer: no leader: %w: the members say %q", context.Cause(ctx), modes)
		}
	}
}

// AwaitServing waits until every running member serves its clients and exactly one of them leads. It ends
// with ctx, or with an error if a member has ended by itself.
func (e *Ensemble) AwaitServing(ctx context.Context) error {
	looked := time.Now()
	for {
		modes := e.modes(ctx)
		if leader, serving := leaderOf(modes); leader >= 0 && serving == e.running() {
			return nil
		}
		if time.Since(looked) > lifePause {
			if err := e.alive(ctx); err != nil {
				return err
			}
			looked = time.Now()
		}
		if !pause(ctx) {
			return fmt.Errorf("zkcontainer: the ensemble does not serve: %w: the members say %q", context.Cause(ctx),
				modes)
		}
	}
}

// modes returns the modes that the members report; empty for members that do not serve or are paused.
func (e *Ensemble) modes(ctx context.Context) []string {
	modes := make([]string, len(e.members))
	var asking sync.WaitGroup
	for i, m := range e.members {
		m.mu.Lock()
		addr, state := m.addr, m.state
		m.mu.Unlock()
		if state == running {
			asking.Go(func() { modes[i] = mode(ctx, addr) })
		}
	}
	asking.Wait()
	return modes
}

// leaderOf is -1 unless there is exactly one.
func leaderOf(modes []string) (leader, serving int) {
	leader = -1
	leaders := 0
	for i, mode := range modes {
		if mode != "" {
			serving++
		}
		if mode == "leader" || mode == "standalone" {
			leader = i
			leaders++
		}
	}
	if leaders != 1 {
		leader = -1
	}
	return leader, serving
}

func (e *Ensemble) running() int {
	n := 0
	for i := range e.members {
		if e.stateOf(i) == running {
			n++
		}
	}
	return n
}

// alive returns an error with the end of its log if a member has ended by itself.
func (e *Ensemble) alive(ctx context.Context) error {
	for i := range e.members {
		container := e.Container(i)
		if container == nil || e.stateOf(i) == down {
			continue
		}
		found, err := e.docker.ContainerInspect(ctx, container.ID, client.ContainerInspectOptions{})
		if err != nil {
			return fmt.Errorf("zkcontainer: member %d: %w", i, err)
		}
		if !found.Container.State.Running {
			return fmt.Errorf("zkcontainer: member %d has ended by itself with status %d\n%s", i,
				found.Container.State.ExitCode, e.log(ctx, container.ID))
		}
	}
	return nil
}

// log is the end of a container's log.
func (e *Ensemble) log(ctx context.Context, id string) string {
	logs, err := e.docker.ContainerLogs(ctx, id,
		client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "50"})
	if err != nil {
		return err.Error()
	}
	defer logs.Close()
	var text bytes.Buffer
	if _, err := stdcopy.StdCopy(&text, &text, logs); err != nil {
		return err.Error()
	}
	return text.String()
}
