package histories

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

// Broken behavior is found, with a picture; correct behavior in the same run is not.

func flagged(t *testing.T, h *history) {
	t.Helper()
	result, picture := h.verdict(t, (*testing.T).TempDir, nil)
	require.Equal(t, porcupine.Illegal, result)
	html, err := os.ReadFile(picture)
	require.NoError(t, err)
	assert.Contains(t, string(html), "</html>")
	assert.Greater(t, len(html), 10_000)
}

// Two clients read a counter, and both write the next value: without a check of the version one of the two writes is
// lost.
func TestCounterThatDoesNotCompare(t *testing.T) {
	t.Parallel()
	servers := zkserver.StartEnsemble(t, 3, zkserver.Options{TickTime: tick, SyncLimit: syncLimit})
	one, _ := dial(t, servers, 0)
	two, _ := dial(t, servers, 1)
	ctx := kit.Context(t)
	for _, compare := range []bool{true, false} {
		path := create(t, one.client, "/broken/counter-"+map[bool]string{true: "right", false: "wrong"}[compare],
			"0")
		require.NoError(t, two.client.Sync().ForPath(ctx, path))
		h := begin("counter", counting, clock(time.Now()))
		for range 5 {
			require.NoError(t, one.client.Sync().ForPath(ctx, path))
			require.NoError(t, two.client.Sync().ForPath(ctx, path))
			first, second := one.read(ctx, h, path), two.read(ctx, h, path)
			require.NotNil(t, first)
			require.NotNil(t, second)
			one.increment(ctx, h, path, *first, compare)
			two.increment(ctx, h, path, *second, compare)
		}
		require.Len(t, h.ops, 10)
		if compare {
			h.check(t, nil)
		} else {
			flagged(t, h)
		}
	}
}

// The holder of a lock is cut off. A holder that observes its context has stopped before the next one begins; a holder
// that does not has not.
func TestLockThatIsNotHeeded(t *testing.T) {
	t.Parallel()
	servers := zkserver.StartEnsemble(t, 3, zkserver.Options{TickTime: tick, SyncLimit: syncLimit})
	one, cable := dial(t, servers, 0)
	two, _ := dial(t, servers, 1)
	now := clock(time.Now())
	heeds := begin("lock", exclusive, now)
	forgets := begin("forgotten lock", exclusive, now)
	begins := func(who int, called int64, lock *mutex.Lock, back int64) {
		for _, h := range []*history{heeds, forgets} {
			h.add(who, called, tenure{begins: true, who: who, token: lock.FencingToken()}, nil, back)
		}
	}
	acquire := func(w worker) (int64, *mutex.Lock, error) {
		called := now.now()
		lock, err := mutex.New(w.client, "/broken/lock").Acquire(kit.Context(t))
		return called, lock, err
	}
	called, first, err := acquire(one)
	require.NoError(t, err)
	begins(0, called, first, now.now())
	cable.Hang()

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		last := now.now()
		for at := last; first.Valid(); at = now.now() {
			last = at
			time.Sleep(time.Millisecond)
		}
		heeds.add(0, last, tenure{who: 0, token: first.FencingToken()}, nil, now.now())
	}()
	called, second, err := acquire(two)
	require.NoError(t, err)
	begins(1, called, second, now.now())
	<-ended
	// It continues to work as if nothing had happened.
	at := now.now()
	forgets.add(0, at, tenure{who: 0, token: first.FencingToken()}, nil, now.now())
	for _, h := range []*history{heeds, forgets} {
		h.add(1, now.now(), tenure{who: 1, token: second.FencingToken()}, nil, now.now())
	}
	require.NoError(t, second.Release(kit.Context(t)))
	cable.Heal()
	require.ErrorIs(t, first.Release(context.Background()), mutex.ErrSessionLost)
	heeds.check(t, nil)
	flagged(t, forgets)
}

// Each rule of the models, broken once.
func TestModels(t *testing.T) {
	t.Parallel()
	type op = porcupine.Operation
	for _, test := range []struct {
		name  string
		model porcupine.Model
		want  porcupine.CheckResult
		ops   []op
	}{
		{"one after the other", exclusive, porcupine.Ok, []op{
			{Call: 0, Return: 1, Input: tenure{begins: true, who: 1, token: 10}},
			{Call: 2, Return: 4, Input: tenure{who: 1, token: 10}},
			{Call: 0, Return: 3, Input: tenure{begins: true, who: 2, token: 11}},
			{Call: 5, Return: 6, Input: tenure{who: 2, token: 11}}}},
		{"two at a time", exclusive, porcupine.Illegal, []op{
			{Call: 0, Return: 1, Input: tenure{begins: true, who: 1, token: 10}},
			{Call: 4, Return: 5, Input: tenure{who: 1, token: 10}},
			{Call: 0, Return: 3, Input: tenure{begins: true, who: 2, token: 11}},
			{Call: 5, Return: 6, Input: tenure{who: 2, token: 11}}}},
		{"an old token", exclusive, porcupine.Illegal, []op{
			{Call: 0, Return: 1, Input: tenure{begins: true, who: 1, token: 10}},
			{Call: 2, Return: 3, Input: tenure{who: 1, token: 10}},
			{Call: 4, Return: 5, Input: tenure{begins: true, who: 2, token: 9}},
			{Call: 6, Return: 7, Input: tenure{who: 2, token: 9}}}},
		{"an unknown step that came late", counting, porcupine.Ok, []op{
			{Call: 0, Return: never, Input: step{version: 0, value: 0, written: 1, outcome: unknown}},
			{Call: 1, Return: 2, Input: step{confirms: true, version: 0, value: 0}},
			{Call: 3, Return: 4, Input: step{confirms: true, version: 1, value: 1}}}},
		{"an unknown step that never came", counting, porcupine.Ok, []op{
			{Call: 0, Return: never, Input: step{version: 0, value: 0, written: 1, outcome: unknown}},
			{Call: 1, Return: 2, Input: step{version: 0, value: 0, written: 1, became: 1}},
			{Call: 3, Return: 4, Input: step{confirms: true, version: 1, value: 1}}}},
		{"an unknown step that came twice", counting, porcupine.Illegal, []op{
			{Call: 0, Return: never, Input: step{version: 0, value: 0, written: 1, outcome: unknown}},
			{Call: 3, Return: 4, Input: step{confirms: true, version: 2, value: 2}}}},
		{"a step that was forgotten", counting, porcupine.Illegal, []op{
			{Call: 0, Return: 1, Input: step{version: 0, value: 0, written: 1, became: 1}},
			{Call: 2, Return: 3, Input: step{confirms: true, version: 0, value: 0}}}},
		{"refused for no reason", counting, porcupine.Illegal, []op{
			{Call: 0, Return: 1, Input: step{version: 0, value: 0, written: 1, outcome: refused}}}},
		{"tokens grow", fencing, porcupine.Ok, []op{
			{Call: 0, Return: never, Input: guarded{9, unknown}}, {Call: 1, Return: 2, Input: guarded{8, done}},
			{Call: 3, Return: 4, Input: guarded{9, done}}}},
		{"a late write", fencing, porcupine.Illegal, []op{
			{Call: 0, Return: 1, Input: guarded{9, done}}, {Call: 2, Return: 3, Input: guarded{8, done}}}},
	} {
		for i := range test.ops {
			test.ops[i].ClientId = i
		}
		assert.Equal(t, test.want, porcupine.CheckOperationsTimeout(test.model, test.ops, time.Minute), test.name)
	}
}
