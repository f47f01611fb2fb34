package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
)

func init() { kinds["transactions"] = newTransactionsWork }

// transactionsWork: all clients set a pair of nodes, both or none. A client that reads the two in turn never sees a
// smaller version than before.
type transactionsWork struct {
	paths [2]string

	mu      sync.Mutex
	made    map[int32]int // version, and the client that set it
	unknown int
	seen    map[int]int32 // by client: the largest version
}

func newTransactionsWork(w *world) workload {
	k := &transactionsWork{
		paths: [2]string{root + "/pair-a", root + "/pair-b"},
		made:  map[int32]int{},
		seen:  map[int]int32{},
	}
	for _, path := range k.paths {
		w.must(w.ens.Member(0).Create(path, nil))
	}
	return k
}

func (k *transactionsWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	var version int32
	first := a.r.IntN(2)
	for i := range 2 + a.r.IntN(2) {
		done := a.timed(ctx, "GetData")
		var stat framework.Stat
		_, err := a.c.GetData().StoringStatIn(&stat).ForPath(ctx, k.paths[(first+i)%2])
		done()
		if err != nil {
			return err
		}
		k.read(a, stat.Version)
		version = stat.Version
	}
	limited, cancel := a.within(pick(a.r, 100*time.Millisecond, time.Second, 3*a.w.plan.SessionTimeout))
	defer cancel()
	var ops []framework.TransactionOp
	for _, path := range k.paths {
		ops = append(
			ops,
			a.c.TransactionOp().
				SetData().
				WithVersion(version).
				ForPath(path, fmt.Appendf(nil, "%v by %d", a.w.Elapsed(), a.id)),
		)
	}
	done := a.timed(limited, "Transaction")
	results, err := a.c.Transaction(limited, ops...)
	done()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		if other, twice := k.made[version+1]; twice {
			a.w.violate("transactions: clients %d and %d both made version %d", a.id, other, version+1)
		}
		k.made[version+1], k.seen[a.id] = a.id, version+1
		for _, r := range results {
			if r.Stat.Version != version+1 {
				a.w.violate("transactions: client %d set version %d and made %+v", a.id, version, results)
			}
		}
	case errors.Is(err, framework.ErrOutcomeUnknown):
		k.unknown++
	case errors.Is(err, framework.ErrBadVersion): // another client was faster
		return nil
	}
	if err != nil && errors.Is(err, limited.Err()) {
		return errNotNow
	}
	return err
}

func (k *transactionsWork) read(a *actor, version int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if version < k.seen[a.id] {
		a.w.violate(
			"transactions: client %d reads version %d after version %d, of this node or the other",
			a.id,
			version,
			k.seen[a.id],
		)
	}
	k.seen[a.id] = max(k.seen[a.id], version)
}

func (k *transactionsWork) settle(w *world) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	data, stat, err := w.ens.Member(l).Get(k.paths[0])
	w.must(err)
	other, otherStat, err := w.ens.Member(l).Get(k.paths[1])
	w.must(err)
	if string(data) != string(other) || stat.Mzxid != otherStat.Mzxid || int(stat.Version) < len(k.made) ||
		int(stat.Version) > len(k.made)+k.unknown {
		w.violate(
			"transactions: the pair is %q (version %d) and %q (version %d) after %d successes and %d unknown outcomes",
			data,
			stat.Version,
			other,
			otherStat.Version,
			len(k.made),
			k.unknown,
		)
	}
}
