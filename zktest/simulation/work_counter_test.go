package simulation_test

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/go-curator/curator/framework"
)

func init() { kinds["counter"] = newCounterWork }

// counterWork: all clients add one to a number, by reading it and setting it with its version. Its value is its
// version, so every read can be checked. No client may read less than it has read or written before, in any session.
type counterWork struct {
	path string

	mu      sync.Mutex
	acked   map[int32]int // version, and the client that set it
	unknown int
	seen    map[int]int32 // by client: the largest version
}

func newCounterWork(w *world) workload {
	k := &counterWork{path: root + "/counter", acked: map[int32]int{}, seen: map[int]int32{}}
	w.must(w.ens.Member(0).Create(k.path, []byte("0")))
	w.recorded("counter")
	return k
}

func (k *counterWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	for {
		var stat framework.Stat
		done := a.timed(ctx, "GetData")
		data, err := a.c.GetData().StoringStatIn(&stat).ForPath(ctx, k.path)
		done()
		if err != nil {
			return err
		}
		k.read(a, string(data), stat.Version)
		done = a.timed(ctx, "SetData")
		op := op{Client: a.id, From: int(stat.Version)}
		set, err := a.c.SetData().
			WithVersion(stat.Version).
			ForPath(ctx, k.path, []byte(strconv.Itoa(int(stat.Version)+1)))
		done()
		switch {
		case err == nil:
			k.wrote(a, stat.Version, set.Version)
			op.Kind, op.Made = sets, int(set.Version)
			a.w.record("counter", a.p, a.called, op)
			return nil
		case errors.Is(err, framework.ErrBadVersion) && !errors.Is(err, framework.ErrOutcomeUnknown):
			op.Kind = setsNot
			a.w.record("counter", a.p, a.called, op)
			continue
		case errors.Is(err, framework.ErrNotConnected) && !errors.Is(err, framework.ErrOutcomeUnknown):
			return err
		}
		op.Kind, op.Made = setsMaybe, int(stat.Version)+1
		a.w.record("counter", a.p, a.called, op)
		k.mu.Lock()
		k.unknown++
		k.mu.Unlock()
		if errors.Is(err, framework.ErrBadVersion) {
			return errNotNow
		}
		return err
	}
}

func (k *counterWork) read(a *actor, data string, version int32) {
	if data != strconv.Itoa(int(version)) {
		a.w.violate("counter: version %d has the value %s", version, data)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if version < k.seen[a.id] {
		a.w.violate("counter: client %d reads version %d after it has seen %d", a.id, version, k.seen[a.id])
	}
	k.seen[a.id] = max(k.seen[a.id], version)
}

func (k *counterWork) wrote(a *actor, from, made int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if made != from+1 {
		a.w.violate("counter: client %d set version %d and made %d", a.id, from, made)
	}
	if other, twice := k.acked[made]; twice {
		a.w.violate("counter: clients %d and %d both made version %d", a.id, other, made)
	}
	k.acked[made] = a.id
	k.seen[a.id] = max(k.seen[a.id], made)
}

func (k *counterWork) settle(w *world) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	data, stat, err := w.ens.Member(l).Get(k.path)
	w.must(err)
	if int(stat.Version) < len(k.acked) || int(stat.Version) > len(k.acked)+k.unknown ||
		string(data) != strconv.Itoa(int(stat.Version)) {
		w.violate(
			"counter: %s (version %d) after %d successes and %d unknown outcomes",
			data,
			stat.Version,
			len(k.acked),
			k.unknown,
		)
	}
}
