package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	lock = "/failover/manager"
	T    = 3 * time.Second
)

// place is an ensemble for the managers of these tests, with short ticks and a long session timeout, as fail-over
// managers use it.
type place struct {
	*zktest.Ensemble
	t *testing.T

	mu     sync.Mutex
	acting map[string]int // number of acting managers; guarded by mu
	two    bool           // guarded by mu
}

func managed(t *testing.T, test func(t *testing.T, p *place)) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, acting: map[string]int{}}
		p.Ensemble = zktest.RunEnsembleT(t, 3, zktest.Config{TickTime: time.Second, SyncLimit: 10})
		test(t, p)
		p.mu.Lock()
		defer p.mu.Unlock()
		assert.False(t, p.two, "two acted at once")
	})
}

// process is one manager, with its own client and machine.
type process struct {
	host   *zktest.Host
	client *framework.Client
	others chan Owner // the owners that were reported to it
	stop   func()     // asks it to stop, and waits
}

func (p *place) start(name, hostname string) *process {
	m := &process{host: p.NewHost(name), others: make(chan Owner, 1)}
	client, err := framework.New(p.ConnectString(), framework.WithDialer(m.host.Dial),
		framework.WithSessionTimeout(T))
	require.NoError(p.t, err)
	m.client = client
	ctx, cancel := context.WithCancel(p.t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		manager := &Manager{
			Client: client, Path: lock, Self: Owner{Host: hostname, PID: 1},
			Act: func(ctx context.Context, _ int64, valid func() bool) error {
				p.note(name, +1)
				defer p.note(name, -1)
				<-ctx.Done()
				return nil
			},
			Other: func(o Owner) {
				select {
				case m.others <- o:
				default: // the test has received one already
				}
			},
		}
		assert.NoError(p.t, manager.Run(ctx))
	})
	m.stop = sync.OnceFunc(func() { cancel(); work.Wait(); _ = client.Close() })
	p.t.Cleanup(m.stop)
	return m
}

func (p *place) note(name string, change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acting[name] += change
	sum := 0
	for _, n := range p.acting {
		sum += n
	}
	p.two = p.two || sum > 1
}

func (p *place) acts(name string) bool {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acting[name] > 0
}

func (p *place) owner() (o Owner) {
	data, _, err := p.Member(p.Leader()).Get(lock)
	require.NoError(p.t, err)
	require.NoError(p.t, json.Unmarshal(data, &o))
	return o
}

func TestOneActsAndTheNodeSaysWhich(t *testing.T) {
	managed(t, func(t *testing.T, p *place) {
		a := p.start("a", "db-1")
		time.Sleep(time.Second)
		b := p.start("b", "db-2")
		time.Sleep(time.Second)
		assert.True(t, p.acts("a"))
		assert.Equal(t, "db-1", p.owner().Host)
		assert.Equal(t, p.owner().Host, (<-b.others).Host)
		a.stop()
		time.Sleep(time.Second)
		assert.True(t, p.acts("b"), "who stops gives the lock back")
	})
}

// A restarted container has the host name, and even the process id, of its predecessor.
func TestTheSameHostIsRefusedUntilItsOldSessionEnds(t *testing.T) {
	managed(t, func(t *testing.T, p *place) {
		old := p.start("old", "db-1")
		time.Sleep(time.Second)
		require.True(t, p.acts("old"))
		old.host.Block(zktest.Both)
		killed := time.Now()
		restarted := p.start("new", "db-1")
		synctest.Wait()
		time.Sleep(time.Second)
		assert.False(t, p.acts("new"), "the node looks like its own, but is not")
		assert.Equal(t, "db-1", (<-restarted.others).Host)
		for !p.acts("new") && time.Since(killed) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		assert.False(t, p.acts("old"))
		assert.InDelta(t, T.Seconds(), time.Since(killed).Seconds(), 2.5)
	})
}

func TestADeletedNodeIsKnownAtOnce(t *testing.T) {
	managed(t, func(t *testing.T, p *place) {
		p.start("a", "db-1")
		time.Sleep(time.Second)
		require.True(t, p.acts("a"))
		operator, err := framework.New(p.ConnectString(), framework.WithDialer(p.Dial))
		require.NoError(t, err)
		defer operator.Close()
		require.NoError(t, operator.Delete().ForPath(t.Context(), lock))
		assert.False(t, p.acts("a"))
		time.Sleep(time.Second)
		assert.True(t, p.acts("a"), "and it takes the lock again")
	})
}

// Members that are cut off and leaders that stop: there are never two active managers, and in the end there is one.
func TestMembersInTrouble(t *testing.T) {
	managed(t, func(t *testing.T, p *place) {
		for _, name := range []string{"a", "b", "c"} {
			p.start(name, "host-"+name)
		}
		for i := range 12 {
			time.Sleep(7 * time.Second)
			switch i % 3 {
			case 0:
				p.Partition(p.Leader())
			case 1:
				p.Partition((p.Leader() + 1) % 3)
			case 2:
				p.Member(p.Leader()).Stop()
			}
			time.Sleep(20 * time.Second)
			require.NoError(t, p.Heal())
		}
		time.Sleep(30 * time.Second)
		assert.True(t, p.acts("a") || p.acts("b") || p.acts("c"))
	})
}

func TestDemonstration(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) { require.NoError(t, run(t.Context(), nil, &out), &out) })
	for _, line := range []string{"first acts", "second waits: first has the lock",
		"first does not act any more", "second acts"} {
		assert.Contains(t, out.String(), line)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"surplus"}, {"-unknown"}, {"-servers", "x:y:z"}} {
		require.Error(t, run(t.Context(), args, io.Discard), args)
	}
}
