// Package zktestcluster runs zktest's ensemble as a [cluster.Cluster], over TCP and in real time: for stories
// that are told on real servers, too.
package zktestcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/zktest"
)

// Ensemble is an in-process one. Killing a member is the same as stopping it: it keeps all acknowledged writes.
type Ensemble struct {
	ensemble *zktest.Ensemble
	members  []*member
}

type member struct {
	server  *zktest.Server
	clients *proxy.Proxy
	state   atomic.Int32
}

const (
	running int32 = iota
	paused
	down
)

var _ cluster.Cluster = (*Ensemble)(nil)

// Start starts an ensemble and waits until all its members serve. Config.Listen is ignored. It ends with the test,
// and logs its requests if the test has failed.
func Start(t testing.TB, size int, config zktest.Config) *Ensemble {
	t.Helper()
	config.Listen = "127.0.0.1:0"
	e := &Ensemble{ensemble: zktest.RunEnsembleT(t, size, config)}
	for _, server := range e.ensemble.Members() {
		e.members = append(e.members, &member{server: server, clients: proxy.New(t, server.Addr())})
	}
	t.Logf("ran on: zktest, %d members", size) // for the report of ../run
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	return e
}

// Name implements [cluster.Cluster].
func (e *Ensemble) Name() string { return fmt.Sprintf("%d members of zktest", len(e.members)) }

// Size implements [cluster.Cluster].
func (e *Ensemble) Size() int { return len(e.members) }

// ConnectString implements [cluster.Cluster].
func (e *Ensemble) ConnectString() string {
	var addrs []string
	for i := range e.members {
		addrs = append(addrs, e.Addr(i))
	}
	return strings.Join(addrs, ",")
}

// Addr implements [cluster.Cluster].
func (e *Ensemble) Addr(i int) string { return e.members[i].clients.Addr() }

// Leader implements [cluster.Cluster].
func (e *Ensemble) Leader(ctx context.Context) (leader int, err error) {
	modes, err := e.await(ctx, func(modes []string) bool {
		leaders := 0
		for i, mode := range modes {
			if leads(mode) {
				leaders, leader = leaders+1, i
			}
		}
		return leaders == 1
	})
	if err != nil {
		return -1, fmt.Errorf("waiting for a leader, the members say %q: %w", modes, err)
	}
	return leader, nil
}

func leads(mode string) bool { return mode == "leader" || mode == "standalone" }

// AwaitServing implements [cluster.Cluster].
func (e *Ensemble) AwaitServing(ctx context.Context) error {
	modes, err := e.await(ctx, func(modes []string) bool {
		leaders := 0
		for i, mode := range modes {
			switch {
			case leads(mode):
				leaders++
			case mode != "follower" && e.members[i].state.Load() == running:
				return false
			}
		}
		return leaders == 1
	})
	if err != nil {
		return fmt.Errorf("waiting for members to serve, they say %q: %w", modes, err)
	}
	return nil
}

// await asks the members for their modes until good returns true.
func (e *Ensemble) await(ctx context.Context, good func(modes []string) bool) (modes []string, err error) {
	modes = make([]string, len(e.members))
	for {
		for i, m := range e.members {
			modes[i] = m.mode(ctx)
		}
		if good(modes) {
			return modes, nil
		}
		select {
		case <-ctx.Done():
			return modes, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// mode returns the mode that a member reports, past its proxy, "" if it does not serve.
func (m *member) mode(ctx context.Context) string {
	if m.state.Load() != running {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, _ := zkserver.FourLetter(ctx, m.server.Addr(), "srvr")
	_, rest, _ := strings.Cut(answer, "Mode: ")
	mode, _, _ := strings.Cut(rest, "\n")
	return mode
}

// change moves a member from one of some states to another, and does what that means.
func (e *Ensemble) change(what string, i int, to int32, do func(*member) error, from ...int32) error {
	m := e.members[i]
	for _, state := range from {
		if m.state.Load() == state {
			if err := do(m); err != nil {
				return err
			}
			m.state.Store(to)
			return nil
		}
	}
	return fmt.Errorf("%s member %d: it is %s", what, i,
		[...]string{"running", "paused", "down"}[m.state.Load()])
}

// Kill implements [cluster.Cluster].
func (e *Ensemble) Kill(i int) error { return e.stop("kill", i) }

// Stop implements [cluster.Cluster].
func (e *Ensemble) Stop(i int) error { return e.stop("stop", i) }

func (e *Ensemble) stop(what string, i int) error {
	return e.change(what, i, down, func(m *member) error {
		m.server.Stop()
		m.server.Resume() // the next one is not paused
		return nil
	}, running, paused)
}

// Start implements [cluster.Cluster].
func (e *Ensemble) Start(i int) error {
	return e.change("start", i, running, func(m *member) error { return m.server.Start() }, down)
}

// Pause implements [cluster.Cluster].
func (e *Ensemble) Pause(i int) error {
	return e.change("pause", i, paused, func(m *member) error { m.server.Pause(); return nil }, running)
}

// Resume implements [cluster.Cluster].
func (e *Ensemble) Resume(i int) error {
	return e.change("resume", i, running, func(m *member) error { m.server.Resume(); return nil }, paused)
}

// Wipe implements [cluster.Cluster].
func (e *Ensemble) Wipe(i int) error {
	return e.change("wipe", i, down, func(m *member) error { m.server.Wipe(); return nil }, down)
}

// Partition implements [cluster.Cluster].
func (e *Ensemble) Partition(i int) error {
	e.ensemble.Partition(i)
	return nil
}

// CutLink implements [cluster.Cluster].
func (e *Ensemble) CutLink(from, to int) error {
	if from == to {
		return errors.New("a member has no link to itself")
	}
	e.ensemble.CutLink(from, to)
	return nil
}

// HealPeers implements [cluster.Cluster].
func (e *Ensemble) HealPeers() error {
	e.ensemble.HealPeers()
	return nil
}

// CutClients implements [cluster.Cluster].
func (e *Ensemble) CutClients(i int) { e.members[i].clients.Cut() }

// HangClients implements [cluster.Cluster].
func (e *Ensemble) HangClients(i int, way proxy.Direction) { e.members[i].clients.Hang(way) }

// HealClients implements [cluster.Cluster].
func (e *Ensemble) HealClients(i int) { e.members[i].clients.Heal() }
