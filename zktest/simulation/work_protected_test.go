package simulation_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
)

func init() { kinds["protected"] = newProtectedWork }

// protectedWork: all create protected nodes and delete some of them. In the end there is one for each success and none
// for each failure.
type protectedWork struct {
	dir string

	mu    sync.Mutex
	nodes map[string]string // data by path
}

func newProtectedWork(w *world) workload {
	k := &protectedWork{dir: root + "/protected", nodes: map[string]string{}}
	w.must(w.ens.Member(0).Create(k.dir, nil))
	return k
}

func (k *protectedWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	limited, cancel := a.within(pick(a.r, 100*time.Millisecond, time.Second, 3*a.w.plan.SessionTimeout))
	defer cancel()
	data := fmt.Sprintf("%v by %d", a.w.Elapsed(), a.id)
	create := a.c.Create().WithProtection()
	if a.r.IntN(3) > 0 {
		create = create.WithMode(framework.PersistentSequential)
	}
	done := a.timed(limited, "Create")
	path, err := create.ForPath(limited, k.dir+"/node-", []byte(data))
	done()
	if err != nil {
		a.expected(limited, err)
		return errNotNow
	}
	k.mu.Lock()
	if other, twice := k.nodes[path]; twice {
		a.w.violate("protected: %s is of %q and %q", path, other, data)
	}
	k.nodes[path] = data
	k.mu.Unlock()
	if a.r.IntN(4) == 0 {
		return nil
	}
	limited, cancel = a.within(pick(a.r, 100*time.Millisecond, time.Second, 3*a.w.plan.SessionTimeout))
	defer cancel()
	done = a.timed(limited, "Delete")
	err = a.c.Delete().Guaranteed().ForPath(limited, path)
	done()
	if isErr(err, framework.ErrNoNode) {
		a.w.violate("protected: %s, which was made, is not there", path)
	}
	if err != nil {
		a.expected(limited, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.nodes, path)
	return nil
}

func (k *protectedWork) settle(w *world) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	children, err := w.ens.Member(l).Children(k.dir)
	w.must(err)
	for _, name := range children {
		path := k.dir + "/" + name
		data, _, err := w.ens.Member(l).Get(path)
		w.must(err)
		if want, known := k.nodes[path]; !known || want != string(data) {
			w.violate(
				"protected: %s with %q is left, of a failure or a success that was deleted (%t)",
				path,
				data,
				known,
			)
		}
	}
	if len(children) < len(k.nodes) {
		w.violate("protected: %d nodes of %d successes", len(children), len(k.nodes))
	}
}
