// Package clustertest holds back ends to the contract of package cluster.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
)

// Timing are the time limits of the servers.
type Timing struct {
	Tick      time.Duration
	SyncLimit int
}

// patience is the time that a member has to notice that it is cut off: the limit of a leader, an election's back-off,
// and a busy machine.
func (t Timing) patience() time.Duration { return time.Duration(t.SyncLimit+2)*t.Tick + 5*time.Second }

// Run tests the whole contract with a cluster of three or more. All its members run when it begins and when it ends.
func Run(t *testing.T, c cluster.Cluster, timing Timing) {
	require.GreaterOrEqual(t, c.Size(), 3)
	s := &suite{c: c, timing: timing}
	for _, story := range []struct {
		name string
		tell func(*testing.T)
	}{
		{"lists its servers", s.lists},
		{"a follower is partitioned", s.followerPartitioned},
		{"the leader is partitioned", s.leaderPartitioned},
		{"one way is cut", s.oneWay},
		{"a member is paused", s.paused},
		{"a member is killed", s.killed},
		{"a member is wiped", s.wiped},
		{"clients are cut off", s.clients},
		{"rolling restart", s.rolling},
		{"what cannot be done", s.misuse},
	} {
		t.Run(story.name, func(t *testing.T) {
			began := time.Now()
			story.tell(t)
			require.NoError(t, c.AwaitServing(kit.Context(t)))
			t.Logf("took %v", time.Since(began))
		})
	}
}

type suite struct {
	c      cluster.Cluster
	timing Timing
}

// roles are the leader and two others.
func (s *suite) roles(t *testing.T) (leader, follower, third int) {
	t.Helper()
	leader, err := s.c.Leader(kit.Context(t))
	require.NoError(t, err)
	return leader, (leader + 1) % s.c.Size(), (leader + 2) % s.c.Size()
}

// mode returns the role that a member reports to clients; empty if it does not serve.
func (s *suite) mode(i int) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	answer, _ := zkserver.FourLetter(ctx, s.c.Addr(i), "srvr")
	for line := range strings.Lines(answer) {
		if mode, found := strings.CutPrefix(line, "Mode: "); found {
			return strings.TrimSpace(mode)
		}
	}
	return ""
}

// stops waits until a member does not serve any more, which must not be long.
func (s *suite) stops(t *testing.T, i int, since time.Time) {
	t.Helper()
	kit.Soon(t, "the member stops to serve", func() bool { return s.mode(i) == "" })
	took := time.Since(since)
	t.Logf("member %d stopped to serve after %v", i, took)
	assert.Less(t, took, s.timing.patience())
}

// writes has a client of some members write and read a node of the test's own.
func (s *suite) writes(t *testing.T, members ...int) {
	t.Helper()
	var addrs []string
	for _, i := range members {
		addrs = append(addrs, s.c.Addr(i))
	}
	client := kit.Dial(t, strings.Join(addrs, ","), framework.WithSessionTimeout(30*time.Second))
	defer client.Close()
	path, ctx := "/"+strings.ReplaceAll(t.Name(), "/", "-"), kit.Context(t)
	_, err := client.Create().OrSetData().ForPath(ctx, path, []byte(fmt.Sprint(members)))
	require.NoError(t, err)
	require.NoError(t, client.Sync().ForPath(ctx, path))
	data, err := client.GetData().ForPath(ctx, path)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(members), string(data))
}

func (s *suite) lists(t *testing.T) {
	client, _ := kit.Connected(t, s.c.ConnectString(), framework.WithRule(framework.RuleHeartbeat))
	config, err := client.GetData().ForPath(kit.Context(t), "/zookeeper/config")
	require.NoError(t, err)
	assert.Equal(t, s.c.Size(), strings.Count(string(config), "server."), "%s", config)
	kit.Soon(t, "the client knows that it talks to an ensemble", func() bool { return client.Safety().Known })
	assert.False(t, client.Safety().Standalone)
	assert.Len(t, strings.Split(s.c.ConnectString(), ","), s.c.Size())
	for i := range s.c.Size() {
		assert.Contains(t, s.c.ConnectString(), s.c.Addr(i))
		s.writes(t, i)
	}
}

func (s *suite) followerPartitioned(t *testing.T) {
	leader, follower, third := s.roles(t)
	cut := time.Now()
	require.NoError(t, s.c.Partition(follower))
	assert.Equal(t, "follower", s.mode(follower), "it does not know yet, and its clients still reach it")
	s.stops(t, follower, cut)
	now, err := s.c.Leader(kit.Context(t))
	require.NoError(t, err)
	assert.Equal(t, leader, now)
	s.writes(t, leader, third)
	require.NoError(t, s.c.HealPeers())
	require.NoError(t, s.c.AwaitServing(kit.Context(t)))
	s.writes(t, follower)
}

func (s *suite) leaderPartitioned(t *testing.T) {
	leader, follower, third := s.roles(t)
	cut := time.Now()
	require.NoError(t, s.c.Partition(leader))
	assert.Equal(t, "leader", s.mode(leader), "it does not know yet, and its clients still reach it")
	s.stops(t, leader, cut)
	next, err := s.c.Leader(kit.Context(t))
	require.NoError(t, err)
	t.Logf("member %d led after %v", next, time.Since(cut))
	assert.NotEqual(t, leader, next)
	s.writes(t, follower, third)
	require.NoError(t, s.c.HealPeers())
	require.NoError(t, s.c.AwaitServing(kit.Context(t)))
	assert.Equal(t, "follower", s.mode(leader))
	s.writes(t, leader)
}

func (s *suite) oneWay(t *testing.T) {
	for _, toLeader := range []bool{true, false} {
		leader, follower, third := s.roles(t)
		from, to := follower, leader
		if !toLeader {
			from, to = leader, follower
		}
		cut := time.Now()
		err := s.c.CutLink(from, to)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Logf("%s: %v", s.c.Name(), err)
			return
		}
		require.NoError(t, err)
		s.stops(t, follower, cut)
		s.writes(t, leader, third)
		require.NoError(t, s.c.HealPeers())
		require.NoError(t, s.c.AwaitServing(kit.Context(t)))
	}
}

func (s *suite) paused(t *testing.T) {
	leader, follower, third := s.roles(t)
	require.NoError(t, s.c.Pause(follower))
	assert.Empty(t, s.mode(follower))
	s.writes(t, leader, third)
	require.NoError(t, s.c.Resume(follower))
	require.NoError(t, s.c.AwaitServing(kit.Context(t)))

	stood := time.Now()
	require.NoError(t, s.c.Pause(leader))
	next, err := s.c.Leader(kit.Context(t))
	require.NoError(t, err)
	assert.NotEqual(t, leader, next)
	assert.Less(t, time.Since(stood), s.timing.patience())
	s.writes(t, follower, third)
	require.NoError(t, s.c.Resume(leader))
	kit.Soon(t, "the former leader follows", func() bool { return s.mode(leader) == "follower" })
}

func (s *suite) killed(t *testing.T) {
	for _, end := range []func(int) error{s.c.Kill, s.c.Stop} {
		leader, follower, third := s.roles(t)
		require.NoError(t, end(leader))
		assert.Empty(t, s.mode(leader))
		next, err := s.c.Leader(kit.Context(t))
		require.NoError(t, err)
		assert.NotEqual(t, leader, next)
		s.writes(t, follower, third)
		require.NoError(t, s.c.Start(leader))
		require.NoError(t, s.c.AwaitServing(kit.Context(t)))
		s.writes(t, leader)
	}
	_, follower, _ := s.roles(t)
	require.NoError(t, s.c.Pause(follower))
	require.NoError(t, s.c.Kill(follower), "also a paused one")
	require.NoError(t, s.c.Start(follower))
}

func (s *suite) wiped(t *testing.T) {
	_, follower, _ := s.roles(t)
	s.writes(t, follower)
	require.NoError(t, s.c.Kill(follower))
	require.NoError(t, s.c.Wipe(follower))
	require.NoError(t, s.c.Start(follower))
	require.NoError(t, s.c.AwaitServing(kit.Context(t)))
	client := kit.Dial(t, s.c.Addr(follower), framework.WithSessionTimeout(30*time.Second))
	stat, err := client.CheckExists().ForPath(kit.Context(t), "/"+strings.ReplaceAll(t.Name(), "/", "-"))
	require.NoError(t, err)
	assert.NotNil(t, stat, "the others have it")
}

func (s *suite) clients(t *testing.T) {
	_, follower, third := s.roles(t)
	require.NotEmpty(t, s.mode(follower))
	s.c.CutClients(follower)
	assert.Empty(t, s.mode(follower))
	assert.NotEmpty(t, s.mode(third), "the others are not concerned")
	s.c.HealClients(follower)
	assert.NotEmpty(t, s.mode(follower))
	s.c.HangClients(follower, proxy.ToClient)
	assert.Empty(t, s.mode(follower))
	require.NoError(t, s.c.AwaitServing(kit.Context(t)), "the member itself is well")
	s.c.HealClients(follower)
	assert.NotEmpty(t, s.mode(follower))
}

func (s *suite) rolling(t *testing.T) {
	s.writes(t, 0, 1, 2)
	for _, orderly := range []bool{true, false} {
		began := time.Now()
		require.NoError(t, cluster.RollingRestart(kit.Context(t), s.c, orderly))
		t.Logf("orderly %t: %v", orderly, time.Since(began))
		s.writes(t, 0, 1, 2)
	}
}

func (s *suite) misuse(t *testing.T) {
	assert.Error(t, s.c.Start(0), "it runs")
	assert.Error(t, s.c.Wipe(0), "it runs")
	require.NoError(t, s.c.Kill(0))
	assert.Error(t, s.c.Kill(0))
	assert.Error(t, s.c.Stop(0))
	assert.Error(t, s.c.Pause(0))
	assert.Error(t, s.c.Resume(0))
	require.NoError(t, s.c.Start(0))
	require.NoError(t, s.c.AwaitServing(kit.Context(t)))
	assert.Error(t, s.c.CutLink(1, 1))
	ctx, cancel := context.WithTimeout(t.Context(), s.timing.Tick)
	defer cancel()
	for i := range s.c.Size() {
		require.NoError(t, s.c.Pause(i))
	}
	_, err := s.c.Leader(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded, "nobody answers")
	for i := range s.c.Size() {
		require.NoError(t, s.c.Resume(i))
	}
}
