package simulation_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-curator/curator/framework"
)

func init() { kinds["epochs"] = newEpochsWork }

// epochsWork: every client writes growing numbers into a node of its own, each through the view of one session. No
// write may be executed for a session that is over, nor after a later write that has been confirmed (promise P2).
type epochsWork struct {
	path  string
	acked []int   // by client: the largest number that is confirmed
	sent  []int   // by client: the largest number that was sent
	at    []int32 // version of the confirmed write
}

func newEpochsWork(w *world) workload {
	n := w.plan.Clients
	k := &epochsWork{root + "/epochs-", make([]int, n), make([]int, n), make([]int32, n)}
	for i := range n {
		w.must(w.ens.Member(0).Create(k.path+strconv.Itoa(i), []byte("0")))
	}
	return k
}

func (k *epochsWork) turn(ctx context.Context, a *actor) error {
	session, err := a.c.Session(ctx)
	if err != nil {
		return err
	}
	view, path := session.Client(), k.path+strconv.Itoa(a.id)
	for range 1 + a.r.IntN(6) {
		over := session.Context().Err() != nil
		k.sent[a.id]++
		limited, cancel := context.WithTimeout(ctx, a.w.plan.SessionTimeout)
		done := a.timed(limited, "SetData")
		stat, err := view.SetData().ForPath(limited, path, fmt.Appendf(nil, "%d", k.sent[a.id]))
		done()
		if err == nil && over {
			a.w.violate("epochs: client %d: a write through a session that was over was done", a.id)
		}
		if err == nil {
			if stat.Version <= k.at[a.id] {
				a.w.violate(
					"epochs: client %d: write %d made version %d, and %d made version %d",
					a.id,
					k.sent[a.id],
					stat.Version,
					k.acked[a.id],
					k.at[a.id],
				)
			}
			k.acked[a.id], k.at[a.id] = k.sent[a.id], stat.Version
		}
		if data, err := a.c.GetData().ForPath(ctx, path); err == nil {
			k.check(a.w, a.id, data)
		}
		if err != nil && limited.Err() == nil && !framework.Retryable(err) && session.Context().Err() == nil {
			cancel()
			return err
		}
		cancel()
		if a.r.IntN(2) == 0 {
			if err := k.append(ctx, a, view); err != nil && session.Context().Err() == nil &&
				!framework.Retryable(err) {
				return err
			}
		}
		time.Sleep(below(a.r, time.Second))
	}
	return nil
}

// append adds a numbered entry to the client's log. The log has the order in which the server has executed the writes.
func (k *epochsWork) append(ctx context.Context, a *actor, view *framework.Client) error {
	limited, cancel := context.WithTimeout(ctx, below(a.r, a.w.plan.SessionTimeout))
	defer cancel()
	defer a.timed(limited, "Create")()
	k.sent[a.id]++
	_, err := view.Create().
		WithMode(framework.PersistentSequential).
		ForPath(limited, k.path+strconv.Itoa(a.id)+"/entry-", []byte(strconv.Itoa(k.sent[a.id])))
	if err != nil && limited.Err() != nil {
		return nil
	}
	return err
}

func (k *epochsWork) check(w *world, client int, data []byte) {
	if n, err := strconv.Atoi(string(data)); err != nil || n < k.acked[client] {
		w.violate("epochs: client %d finds %s although %d was confirmed later", client, data, k.acked[client])
	}
}

func (k *epochsWork) settle(w *world) {
	l := w.ens.Leader()
	for i := range w.clients {
		if data, _, err := w.ens.Member(max(l, 0)).Get(k.path + strconv.Itoa(i)); err == nil {
			k.check(w, i, data)
		}
		k.inOrder(w, k.path+strconv.Itoa(i))
	}
}

// inOrder reports an entry that was executed after one that was sent later.
func (k *epochsWork) inOrder(w *world, log string) {
	member := w.ens.Member(max(w.ens.Leader(), 0))
	entries, err := member.Children(log)
	w.must(err)
	slices.Sort(entries)
	last := 0
	for _, name := range entries {
		data, _, err := member.Get(log + "/" + name)
		w.must(err)
		n, err := strconv.Atoi(string(data))
		if err != nil || n <= last {
			w.violate("epochs: %s holds %q behind %d", log, data, last)
		}
		last = n
	}
}
