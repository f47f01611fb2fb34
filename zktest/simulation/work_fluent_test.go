package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
)

func init() { kinds["fluent"] = newFluentWork }

// fluentWork: the plain operations, with the client's own retries. Every client has two nodes of its own, and knows at
// any time in which states they may be: an operation's error shows whether it was executed, was not, or may have been.
type fluentWork struct{ nodes [][]*ownNode } // by client

// ownNode is a node that one client changes.
type ownNode struct {
	path  string
	may   []state // states in which it may be
	deeds int     // number of deeds so far
}

// state is a possible state of a node.
type state struct {
	data    string // "": there is no node
	version int32  // or unsure
	by      int    // the number of the deed that led to it
}

const unsure = -1

var absent = state{}

func (s state) absent() bool { return s.data == "" }

func newFluentWork(w *world) workload {
	k := &fluentWork{}
	w.must(w.ens.Member(0).Create(root+"/fluent", nil))
	for i := range w.plan.Clients {
		var own []*ownNode
		for j := range 2 {
			own = append(own, &ownNode{fmt.Sprintf("%s/fluent/%d-%d", root, i, j), []state{absent}, 0})
		}
		k.nodes = append(k.nodes, own)
	}
	return k
}

func (k *fluentWork) turn(ctx context.Context, a *actor) error {
	a.rest()
	n := pick(a.r, k.nodes[a.id]...)
	limited, cancel := a.within(
		pick(a.r, 100*time.Millisecond, time.Second, 3*a.w.plan.SessionTimeout),
	) // may end in the middle of the operation
	defer cancel()
	var err error
	if a.r.IntN(4) == 0 {
		err = n.read(limited, a)
	} else {
		err = n.change(limited, a)
	}
	if err != nil && errors.Is(err, limited.Err()) && ctx.Err() == nil {
		return errNotNow
	}
	return err
}

// read checks that the node is in one of its possible states.
func (n *ownNode) read(ctx context.Context, a *actor) error {
	defer a.timed(ctx, "GetData")()
	var stat framework.Stat
	data, err := a.c.GetData().StoringStatIn(&stat).ForPath(ctx, n.path)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return err
	}
	shown := state{data: string(data), version: stat.Version}
	if !n.mayBe(shown) {
		a.w.violate("fluent: client %d reads %s as %v, and it is one of %v", a.id, n.path, shown, n.may)
		return nil
	}
	// The outcomes of requests sent before this read are decided: the node cannot return to an earlier state.
	by := n.deeds
	for _, s := range n.may {
		if s.shows(shown) {
			by = min(by, s.by)
		}
	}
	n.may = slices.DeleteFunc(n.may, func(s state) bool { return s.by < by })
	return nil
}

func (n *ownNode) mayBe(shown state) bool {
	return slices.ContainsFunc(n.may, func(s state) bool { return s.shows(shown) })
}

func (s state) shows(shown state) bool {
	return s.data == shown.data && (s.version == shown.version || s.version == unsure)
}

// deed is an operation that changes a node.
type deed struct {
	what string
	to   func(state) (state, error) // the state after it, or the error with which it is refused
	do   func(context.Context) (framework.Stat, error)
	// forgives is the refusal that counts as success when the reply to an earlier try was lost.
	forgives error
}

// guaranteed is a deed that is executed in the end, whatever its error.
const guaranteed = "guaranteed delete"

// change does one of many deeds to the node.
func (n *ownNode) change(ctx context.Context, a *actor) error {
	data, version := fmt.Sprintf("%v by %d", a.w.Elapsed(), a.id), max(n.may[0].version, 0)
	d := pick(a.r, n.creations(a.c, data)...)
	switch a.r.IntN(3) {
	case 0:
		d = pick(a.r, n.settings(a.c, data, version)...)
	case 1:
		d = pick(a.r, n.deletions(a.c, version)...)
	}
	epoch := a.c.State().Epoch
	done := a.timed(ctx, "a fluent "+d.what)
	stat, err := d.do(ctx)
	done()
	if n.refuses(d, err) && epoch == a.c.State().Epoch {
		a.w.violate("fluent: %s of %s is certainly refused, since that is %v, and came out as %v", d.what, n.path, n.may, err)
	}
	if err != nil && d.what == guaranteed {
		a.expected(ctx, err)
		for end := time.Now().Add(a.w.plan.Trouble + a.w.plan.ending()); a.c.PendingCleanups() > 0; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				a.w.violate("fluent: client %d still has %d clean-ups pending", a.id, a.c.PendingCleanups())
				break
			}
		}
		err = nil
	}
	n.learn(a.w, d, stat.Version, err)
	if refusal(err) {
		return nil
	}
	return err
}

// refusal reports whether the server has refused the operation because of the node's state, so that nothing was
// executed.
func refusal(err error) bool {
	return isErr(err, framework.ErrNoNode, framework.ErrNodeExists, framework.ErrBadVersion)
}

// learn updates the possible states of a node by the result of a deed. A reply, also a refusal, shows the state before,
// too.
func (n *ownNode) learn(w *world, d deed, version int32, err error) {
	var may []state
	n.deeds++
	for _, s := range n.may {
		becomes, refused := d.to(s)
		becomes.by = n.deeds
		switch {
		case err == nil:
			newer := becomes.absent() || s.absent() || s.version == unsure || version > s.version
			if (refused == nil || errors.Is(refused, d.forgives)) && newer &&
				(becomes.version == version || becomes.version == unsure) {
				becomes.version = version
				may = append(may, becomes)
			}
		case refusal(err):
			if errors.Is(err, refused) ||
				refused == nil && s.version == unsure && errors.Is(err, framework.ErrBadVersion) {
				may = append(may, s)
			}
		case errors.Is(err, framework.ErrOutcomeUnknown) && refused == nil:
			may = append(may, s, becomes)
		default:
			may = append(may, s)
		}
	}
	may = unique(may)
	w.Logf("FLUENT %s of %s: %v; %v becomes %v", d.what, n.path, err, n.may, may)
	if len(may) == 0 {
		w.violate(
			"fluent: %s of %s came out as %v (version %d), and before it was one of %v",
			d.what,
			n.path,
			err,
			version,
			n.may,
		)
		may = n.may
	}
	n.may = may
}

// refuses reports whether the error reports an unknown outcome though the deed was certainly refused: the node's state
// was known, and the node is older than every try, so that no try was executed, as long as the session is the same. (A
// node that is missing may have been there for an earlier try.)
func (n *ownNode) refuses(d deed, err error) bool {
	_, refused := d.to(n.may[0])
	return len(n.may) == 1 && !n.may[0].absent() && refused != nil && errors.Is(err, framework.ErrOutcomeUnknown) &&
		strings.Contains(err.Error(), "the repeated request failed") && !strings.Contains(err.Error(), "cannot read the node")
}

func unique(states []state) (kept []state) {
	for _, s := range states {
		if !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}

func (k *fluentWork) settle(w *world) {
	l := w.ens.Leader()
	if l < 0 {
		return
	}
	for i, own := range k.nodes {
		for _, n := range own {
			data, stat, err := w.ens.Member(l).Get(n.path)
			if err == nil && !n.mayBe(state{data: string(data), version: stat.Version}) ||
				err != nil && !n.mayBe(absent) {
				w.violate(
					"fluent: %s of client %d is %q (version %d, %v), and it is one of %v",
					n.path,
					i,
					data,
					stat.Version,
					err,
					n.may,
				)
			}
		}
	}
}

func (n *ownNode) creations(c *framework.Client, data string) []deed {
	to := func(s state) (state, error) {
		if !s.absent() {
			return s, framework.ErrNodeExists
		}
		return state{data: data}, nil
	}
	do := func(b framework.CreateBuilder) func(context.Context) (framework.Stat, error) {
		return func(ctx context.Context) (stat framework.Stat, err error) {
			_, err = b.StoringStatIn(&stat).ForPath(ctx, n.path, []byte(data))
			return stat, err
		}
	}
	return []deed{
		{what: "create", to: to, do: do(c.Create())},
		{what: "idempotent create", to: to, do: do(c.Create().Idempotent())},
		{what: "create in a transaction", to: to, do: n.transaction(c, c.TransactionOp().Create().ForPath(n.path, []byte(data)))},
		{
			what: "create or set",
			to:   func(state) (state, error) { return state{data: data, version: unsure}, nil },
			do:   do(c.Create().OrSetData()),
		},
	}
}

func (n *ownNode) settings(c *framework.Client, data string, version int32) []deed {
	do := func(b framework.SetDataBuilder) func(context.Context) (framework.Stat, error) {
		return func(ctx context.Context) (framework.Stat, error) { return b.ForPath(ctx, n.path, []byte(data)) }
	}
	to := at(version, state{data: data, version: version + 1})
	return []deed{
		{
			what: "set",
			to:   at(unsure, state{data: data, version: unsure}),
			do:   do(c.SetData()),
		}, // may be executed twice
		{what: "set of a version", to: to, do: do(c.SetData().WithVersion(version))},
		{what: "idempotent set of a version", to: to, do: do(c.SetData().WithVersion(version).Idempotent())},
		{
			what: "set in a transaction", to: to,
			do: n.transaction(c, c.TransactionOp().SetData().WithVersion(version).ForPath(n.path, []byte(data))),
		},
	}
}

// transaction executes an operation as an idempotent one.
func (n *ownNode) transaction(c *framework.Client, op framework.TransactionOp) func(context.Context) (framework.Stat, error) {
	return func(ctx context.Context) (stat framework.Stat, err error) {
		results, err := c.IdempotentTransaction(ctx, op)
		if err == nil {
			stat = results[0].Stat
		}
		return stat, err
	}
}

func (n *ownNode) deletions(c *framework.Client, version int32) []deed {
	do := func(b framework.DeleteBuilder) func(context.Context) (framework.Stat, error) {
		return func(ctx context.Context) (framework.Stat, error) { return framework.Stat{}, b.ForPath(ctx, n.path) }
	}
	gone := func(state) (state, error) { return absent, nil }
	b := c.Delete()
	return []deed{
		{what: "delete", to: at(unsure, absent), do: do(b)},
		{what: "delete of a version", to: at(version, absent), do: do(b.WithVersion(version))},
		{
			what:     "idempotent delete",
			to:       at(unsure, absent),
			do:       do(b.Idempotent()),
			forgives: framework.ErrNoNode,
		},
		{what: "quiet delete", to: gone, do: do(b.Quietly())},
		{what: guaranteed, to: gone, do: do(b.Quietly().Guaranteed())},
	}
}

// at returns the effect of an operation on a node that must exist, with this version unless it is unsure.
func at(version int32, becomes state) func(state) (state, error) {
	return func(s state) (state, error) {
		switch {
		case s.absent():
			return s, framework.ErrNoNode
		case version != unsure && s.version != unsure && s.version != version:
			return s, framework.ErrBadVersion
		}
		return becomes, nil
	}
}
