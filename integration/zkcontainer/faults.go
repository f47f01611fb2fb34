package zkcontainer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// faultTimeout bounds what Docker has to do for a fault.
const faultTimeout = time.Minute

// toContainer is an action of the daemon on a container.
type toContainer func(ctx context.Context, id string) error

// do has the daemon change a member that is in one of the states given.
func (e *Ensemble) do(what string, i int, from []state, to state, change toContainer) error {
	m := e.members[i]
	m.mu.Lock()
	container, now := m.container, m.state
	m.mu.Unlock()
	fits := false
	for _, s := range from {
		fits = fits || s == now
	}
	if !fits {
		return fmt.Errorf("zkcontainer: %s member %d, which is %v", what, i, now)
	}
	id := ""
	if container != nil {
		id = container.ID
	}
	ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
	defer cancel()
	if err := change(ctx, id); err != nil {
		return fmt.Errorf("zkcontainer: %s member %d: %w", what, i, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = to
	return nil
}

func (s state) String() string { return [...]string{"down", "running", "paused"}[s] }

// Kill ends a member immediately, as SIGKILL does, paused or not. It returns when the member has ended.
func (e *Ensemble) Kill(i int) error {
	return e.do("kill", i, []state{running, paused}, down, func(ctx context.Context, id string) error {
		if _, err := e.docker.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
			return err
		}
		return e.awaitEnd(ctx, id)
	})
}

// Stop ends a member in order, as SIGTERM does. It returns when it is gone.
func (e *Ensemble) Stop(i int) error {
	return e.do("stop", i, []state{running, paused}, down, func(ctx context.Context, id string) error {
		if e.stateOf(i) == paused {
			if _, err := e.docker.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{}); err != nil {
				return err
			}
		}
		patience := int(faultTimeout.Seconds()) / 2
		if _, err := e.docker.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &patience}); err != nil {
			return err
		}
		return e.awaitEnd(ctx, id)
	})
}

func (e *Ensemble) awaitEnd(ctx context.Context, id string) error {
	for {
		found, err := e.docker.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if err != nil || !found.Container.State.Running {
			return err
		}
		if !pause(ctx) {
			return context.Cause(ctx)
		}
	}
}

// Start brings a member that is down back, with its addresses and its data. It returns when it is on its way:
// see AwaitServing.
func (e *Ensemble) Start(i int) error {
	return e.do("start", i, []state{down}, running, func(ctx context.Context, id string) error {
		for {
			err := e.tryStart(ctx, i, id)
			if err == nil || !portTaken.MatchString(err.Error()) {
				return err
			}
			// The address must stay, so wait until it is free again.
			if !pause(ctx) {
				return err
			}
		}
	})
}

func (e *Ensemble) tryStart(ctx context.Context, i int, id string) error {
	if id != "" {
		_, err := e.docker.ContainerStart(ctx, id, client.ContainerStartOptions{})
		return err
	}
	err := e.create(ctx, i)
	if err != nil {
		return errors.Join(err, e.discard(ctx, i))
	}
	return nil
}

// Pause stops a member with its connections: they stay, new ones are accepted by the system, and there are no
// replies.
func (e *Ensemble) Pause(i int) error {
	return e.do("pause", i, []state{running}, paused, func(ctx context.Context, id string) error {
		_, err := e.docker.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		return err
	})
}

// Resume continues a paused member.
func (e *Ensemble) Resume(i int) error {
	return e.do("resume", i, []state{paused}, running, func(ctx context.Context, id string) error {
		_, err := e.docker.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		return err
	})
}

// Wipe deletes the data of a member that is down, by removing its container: it comes back as a new one
// would.
func (e *Ensemble) Wipe(i int) error {
	return e.do("wipe", i, []state{down}, down, func(ctx context.Context,
		id string) error {
		return e.discard(ctx, i)
	})
}

func (e *Ensemble) discard(ctx context.Context, i int) error {
	m := e.members[i]
	m.mu.Lock()
	container := m.container
	m.mu.Unlock()
	if err := testcontainers.TerminateContainer(container, testcontainers.StopContext(ctx),
		testcontainers.StopTimeout(0)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.container = nil
	return nil
}

// Partition cuts a member off from all the others, both ways and silently, by taking it off the ensemble's
// network. Clients still reach it.
func (e *Ensemble) Partition(i int) error {
	return e.link("partition", i, true, func(ctx context.Context, id string) error {
		_, err := e.docker.NetworkDisconnect(ctx, e.networkID,
			client.NetworkDisconnectOptions{Container: id, Force: true})
		return err
	})
}

// CutLink is errors.ErrUnsupported: Docker cuts a member off from all the others or from none.
func (e *Ensemble) CutLink(from, to int) error {
	return fmt.Errorf("zkcontainer: cut the link from member %d to member %d: %w", from, to,
		errors.ErrUnsupported)
}

// HealPeers undoes all Partition. A member may come back with another address on the network, so that earlier
// connections do not survive.
func (e *Ensemble) HealPeers() error {
	var errs []error
	for i, m := range e.members {
		if !m.isPartitioned() {
			continue
		}
		errs = append(errs, e.link("heal", i, false, func(ctx context.Context, id string) error {
			settings := &network.EndpointSettings{Aliases: []string{alias(i)}} // which are lost with the connection
			_, err := e.docker.NetworkConnect(ctx, e.networkID,
				client.NetworkConnectOptions{Container: id, EndpointConfig: settings})
			return err
		}))
	}
	return errors.Join(errs...)
}

// link changes whether a member is partitioned; a container there is none of now is made accordingly later.
func (e *Ensemble) link(what string, i int, partitioned bool, change toContainer) error {
	m := e.members[i]
	if m.isPartitioned() == partitioned {
		return nil
	}
	if container := e.Container(i); container != nil {
		ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
		defer cancel()
		if err := change(ctx, container.ID); err != nil {
			return fmt.Errorf("zkcontainer: %s member %d: %w", what, i, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partitioned = partitioned
	return nil
}

func (m *member) isPartitioned() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.partitioned
}

func (e *Ensemble) stateOf(i int) state {
	m := e.members[i]
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

func portOf(addr string) (int, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}
