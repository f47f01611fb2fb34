package stories

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/retry"
)

// java is the index of the Java process among the clients of a group.
const java = clients

// guest is a Java process. A group has one at a time, or none.
type guest struct {
	*javapeer.Peer
	killed atomic.Bool // none of its holds counts any more
	stop   context.CancelFunc
	work   sync.WaitGroup
}

// expect prepares a group for its Java process.
func (g *group) expect(t *testing.T) {
	t.Helper()
	g.beside = true
	g.wire = kit.Plug(t, g.servers)
	g.watcher, _ = kit.Connected(t, g.servers.ConnectString(), framework.WithSessionTimeout(timeout),
		framework.WithRetry(retry.ExponentialBackoff{Base: 5 * time.Millisecond, Retries: 100}))
}

// invite starts a Java process, and its part in every workload that has one.
func (g *group) invite(t *testing.T) {
	t.Helper()
	p := &guest{}
	ctx, stop := context.WithCancel(g.ctx)
	p.stop = stop
	g.t.Cleanup(func() { p.stop(); p.work.Wait() })
	p.Peer = javapeer.Start(g.t)
	connecting, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	require.NoError(t, p.Connect(connecting, g.wire.ConnectString(), timeout))
	for _, s := range g.scenes {
		if s.java != nil {
			p.work.Go(func() { s.java(ctx, p) })
		}
	}
	g.guest = p
}

// killGuest ends the Java process as SIGKILL does.
func (g *group) killGuest() {
	g.guest.killed.Store(true)
	g.guest.Kill()
	g.guest.stop()
	g.guest.work.Wait()
}

// dismiss ends the Java process in order, and its session.
func (g *group) dismiss(t *testing.T) {
	t.Helper()
	g.guest.stop()
	g.guest.work.Wait()
	require.NoError(t, g.guest.Quit(kit.Context(t)))
	g.wire.Heal()
}

// stat reads a node's Stat, and retries until there is a reply. It is nil if there is no node.
func (g *group) stat(path string) *framework.Stat {
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	for ctx.Err() == nil {
		if stat, err := g.watcher.CheckExists().ForPath(ctx, path); err == nil {
			return stat
		}
		pause(ctx, 5*time.Millisecond)
	}
	return nil
}

// keeps is keep for a hold of Java's, which does not notice when it has lost one: the hold counts as long as its nodes
// exist. With one server no read is stale.
func (s *scene) keeps(ctx context.Context, p *guest, r *register, h *hold, nodes ...string) {
	h.who = java
	h.valid = func() bool {
		for _, node := range nodes {
			if s.g.stat(node) == nil {
				return false
			}
		}
		return !p.killed.Load()
	}
	s.keep(ctx, r, h)
}

// czxid returns the token of a node, 0 if there is none.
func (g *group) czxid(node string) int64 {
	if stat := g.stat(node); stat != nil {
		return stat.Czxid
	}
	return 0
}

// turns has Java take turns at a lock, whose nodes have a token.
func (s *scene) turns(
	ctx context.Context, p *guest, r *register, lock *javapeer.Lock, shared bool, token func(node string) int64,
) {
	for ctx.Err() == nil {
		node, err := lock.Acquire(context.Background(), 2*timeout) // a thread's wait has to end
		if err != nil {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		node = s.path + "/" + node
		s.keeps(ctx, p, r, &hold{shared: shared, token: token(node)}, node)
		if lock.Release(context.Background()) == nil {
			s.done(java)
		}
		think(ctx)
	}
}

// leads has Java lead once, if it still does: the first node of the line has its ID.
func (s *scene) leads(ctx context.Context, p *guest, r *register) bool {
	names, err := s.g.watcher.GetChildren().ForPath(ctx, s.path)
	if err != nil || len(names) == 0 {
		return false
	}
	first := names[0]
	number := func(name string) string { return name[max(0, len(name)-10):] }
	for _, name := range names[1:] {
		if number(name) < number(first) {
			first = name
		}
	}
	node := s.path + "/" + first
	id, err := s.g.watcher.GetData().ForPath(ctx, node)
	if err != nil || string(id) != "java" {
		return false
	}
	s.keeps(ctx, p, r, &hold{token: s.g.czxid(node)}, node)
	return true
}

// interop adds the recipes in which Java takes part to the report.
func interop(t *testing.T) {
	t.Helper()
	for recipe, directions := range map[string][]kit.Direction{
		"mutex":             {kit.GoToJava, kit.JavaToGo, kit.Mixed},
		"read-write lock":   {kit.GoToJava, kit.JavaToGo, kit.Mixed},
		"semaphore":         {kit.GoToJava, kit.JavaToGo, kit.Mixed},
		"leader latch":      {kit.GoToJava, kit.JavaToGo, kit.Mixed},
		"leader selector":   {kit.GoToJava, kit.JavaToGo, kit.Mixed},
		"queue":             {kit.Mixed},
		"persistent node":   {kit.Mixed},
		"group":             {kit.Mixed},
		"service discovery": {kit.Mixed},
	} {
		kit.Interop(t, recipe, directions...)
	}
}

// isJavas reports whether an item of a queue is Java's, which may have put it twice.
func isJavas(name string) bool { return strings.HasPrefix(name, "java") }
