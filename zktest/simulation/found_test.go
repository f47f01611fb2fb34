package simulation_test

import (
	"path"
	"strings"
	"time"

	"github.com/go-curator/curator/zktest"
)

// directory creates the directory of a recipe's nodes, unless the plan leaves that to the recipe.
func (w *world) directory(path string) {
	if !w.plan.Bare {
		w.must(w.ens.Member(0).Create(path, nil))
	}
}

// loseParents loses the replies to some of the first creates of containers, and of other nodes, at each member.
func (w *world) loseParents(after, times int) (undo func()) {
	var lost []*zktest.Injection
	for _, m := range w.ens.Members() {
		for _, op := range []zktest.Op{zktest.OpCreateContainer, zktest.OpCreate2} {
			lost = append(lost, m.Inject(zktest.Fault{
				Op: op, PathPrefix: root + "/", Action: zktest.LoseReply, After: after, Times: times,
			}))
		}
	}
	return func() {
		for _, l := range lost {
			l.Remove()
		}
	}
}

// strangers are nodes without a contender or member behind them, by work, in the directories of contenders, leases,
// locks and members. A sequential one may be an ephemeral node of a client's session. (In a double barrier a stranger
// is a member.)
var strangers = map[string][]string{
	"mutex":       {"/mutex/_c_stranger-lock-"},
	"latch":       {"/latch/_c_stranger-latch-"},
	"selector":    {"/selector/_c_stranger-lock-"},
	"rwlock":      {"/rwlock/_c_stranger-__READ__", "/rwlock/_c_stranger-__WRIT__"},
	"readers":     {"/readers/_c_stranger-__READ__", "/readers/_c_stranger-__WRIT__"},
	"semaphore":   {"/semaphore/leases/_c_stranger-lease-", "/semaphore/locks/_c_stranger-lock-"},
	"leases":      {"/leases/leases/_c_stranger-lease-", "/leases/locks/_c_stranger-lock-"},
	"multi":       {"/multi-a/_c_stranger-lock-"},
	"striped":     {"/striped/1/_c_stranger-lock-"},
	"once":        {"/once/job/lock/_c_stranger-lock-"},
	"lockedqueue": {"/itemlocks/queue-0000000007", "/itemlocks/queue-0000000014"},
	"assignment":  {"/assignment/members/stranger", "/assignment/items/1/_c_stranger-lock-"},
	"group":       {"/group/stranger"},
	"queue":       {"/queue/stranger"},
	"revocation":  {"/revocation/_c_stranger-lock-"},
	"atmostonce":  {"/atmostonce/job/lock/_c_stranger-lock-"},
	"claim":       {"/claim/name"},
	"keeper":      {"/keeper/common"},
	"discovery":   {"/discovery/web/stranger"},
}

// stranger creates a node that no process uses in a directory of one of the works. Contenders behind it wait until it
// is deleted, and no client counts it as a contender or member.
func (w *world) stranger(dice int) (undo func()) {
	paths := strangers[w.plan.Works[dice%len(w.plan.Works)]]
	leader := w.newest()
	if leader == nil || len(paths) == 0 {
		return nil
	}
	place, mode := root+paths[dice>>4%len(paths)], zktest.Persistent
	if strings.HasSuffix(place, "_") || strings.HasSuffix(place, "-") {
		mode = zktest.PersistentSequential
	}
	if !leader.Exists(path.Dir(place)) {
		return nil
	}
	session := w.session(dice >> 12 % w.plan.Clients)
	if orphan := dice>>8%2 == 0; orphan && mode == zktest.PersistentSequential && session != 0 {
		mode = zktest.EphemeralSequential // of a client that did not create it
	}
	_, err := leader.CreateNode(place, nil, mode, session) // after an error the create may still be executed
	w.Logf("STRANGER %s: %v", place, err)
	w.Count("strangers", 1)
	return func() { go w.removeStrangers(place, err != nil) }
}

// removeStrangers deletes the strangers at a place until there has been none for a while; with late, until a while
// after the faults: a member without a quorum may commit its create under the next leader.
func (w *world) removeStrangers(place string, late bool) {
	for since := time.Now(); time.Since(since) < 5*time.Second; time.Sleep(100 * time.Millisecond) {
		select {
		case <-w.Calm():
		default:
			if late {
				since = time.Now()
			}
		}
		leader := w.newest()
		if leader == nil {
			since = time.Now()
			continue
		}
		names, _ := leader.Children(path.Dir(place))
		for _, name := range names {
			node := path.Dir(place) + "/" + name
			_, stat, err := leader.Get(node)
			if err == nil && (stat.EphemeralOwner == 0 || strings.Contains(place, "_c_stranger")) && strings.HasPrefix(node, place) {
				_ = leader.Delete(node)
				since = time.Now()
			}
		}
	}
}

// anew makes the sequence numbers of a standalone server's queues begin again, as a restore does.
func (w *world) anew() {
	m := w.ens.Member(0)
	for _, work := range w.works {
		if k, ok := work.(*queueWork); ok && m.Exists(k.path) {
			k.begunAnew(w)
		}
	}
}
