package node

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/explore"
)

// The model of keepers: one or two of them, each with its own client, at one path. It calls stateMachine.next, ownerOf,
// actionAttempt.eventForError, needsCatchUp and mayLeaveNode; it simulates the worker's channels, the sessions, the servers, and
// an administrator.
//
// Bounds: the number of lost connections (with the request in flight not sent, executed later, or executed without a reply),
// expired sessions, changes by the administrator (deletes the node; creates an ephemeral one of another session or one of no
// session; sets its data), and SetData calls; each keeper is closed at some moment, or never. The member that a client is
// connected to lags by at most one change; for a new session it has executed that session's opening. Events, connection states
// and replies are handled in any order, but connection states in their own order. An earlier session's node is deleted before the
// next session is connected, or later.
//
// Not modelled: local sessions (opened without a write), refusals (ACLs), the pause after too many requests in a row, the read
// about once per session timeout (so nothing may depend on it), several nodes (sequential, protected names), TTLs.
//
// Never: another session's node is taken for the keeper's own, written or deleted (except if bereft); a node of no session is
// taken over; a keeper's node is left when the keeper has ended; no action is in progress while the node is not as it should be.
// Always possible: the node is as it should be.

const (
	nKeepers  = 2
	foreigner = 9 // another client's session
	theirData = 9 // of another client's node
	otherData = 8 // written by the administrator
)

// standingNode is the node; Czxid is 0 if there is none.
type standingNode struct {
	Owner, Version, Czxid int8
	Data                  int8
	Theirs                bool // created by another client
}

// keeperRequest is a request of a keeper.
type keeperRequest struct {
	Action  keeperAction
	Phase   int8 // 0: none, 1: waits for a connection, 2: sent, 3: the reply has arrived
	Epoch   int8
	Version int8
	Meant   int8 // the czxid of the node that it should change
	Sent    int8 // data
	Careful bool
	Reply   machineEvent
	Armed   bool // of an executed readOwner: its watch is armed
	Fired   eventKind
}

const noEvent eventKind = -1

// player is a keeper and its client.
type player struct {
	M      stateMachine
	Epoch  int8 // of the client's session
	Up     bool
	Opens  bool // the next connection opens a session
	Worked int8 // the epoch of the worker's session; 0: none yet
	Former bool // the session of epoch 1 may have left a node
	Notes  [4]machineEvent
	Req    keeperRequest
	Ghost  keeperRequest // sent on a connection that is lost: executed later, or never
	Armed  bool          // the worker's watch is armed
	Fired  eventKind
	Lags   bool // its member has not executed the last change
	Want   int8 // data
	Ended  bool
	// Bereft: the administrator, or a take-over, has deleted the keeper's node, and the keeper has not read it since. Its writes
	// change any node with the same version: ZooKeeper compares nothing else.
	Bereft bool
}

func (p *player) session(k, epoch int8) int8 {
	if p.M.persistent {
		return 0
	}
	return 1 + 2*k + epoch - 1
}

// world is a state, with its parts as values. A keepersState has them as indices, since they are large.
type world struct {
	Now, Before standingNode
	Players     [nKeepers]player
	Left        budget
	Fault       string
}

// budget is the number of each that may still happen.
type budget struct{ Cuts, Losses, Admin, Sets int8 }

type keepersState struct {
	now, before standingNode
	players     [nKeepers]int32
	left        budget
	fault       int8
}

// String is for the traces of the explorer.
func (in keepersState) String() string {
	w := latestModel.unpack(in)
	out := fmt.Sprintf("now %+v before %+v left %+v %s", w.Now, w.Before, w.Left, w.Fault)
	for i := range latestModel.keepers {
		p := w.Players[i]
		out += fmt.Sprintf("\n      %c: %v,", 'A'+i, p.M.nodeState())
		for _, field := range strings.Fields(fmt.Sprintf("%+v", p)) {
			if !strings.HasSuffix(strings.TrimRight(field, "}]"), ":false") && !strings.HasSuffix(strings.TrimRight(field, "}]"), ":0") {
				out += " " + field
			}
		}
	}
	return out
}

// latestModel is the last model created.
var latestModel *keepersModel

type keepersModel struct {
	keepers int8
	lag     bool
	players []player
	index   map[player]int32
	faults  []string
}

func (s *keepersModel) pack(w world) keepersState {
	w.normalise()
	out := keepersState{now: w.Now, before: w.Before, left: w.Left}
	for i, p := range w.Players {
		n, known := s.index[p]
		if !known {
			n = int32(len(s.players))
			s.index[p], s.players = n, append(s.players, p)
		}
		out.players[i] = n
	}
	for i, f := range s.faults {
		if f == w.Fault {
			out.fault = int8(i)
			return out
		}
	}
	out.fault, s.faults = int8(len(s.faults)), append(s.faults, w.Fault)
	return out
}

func (s *keepersModel) unpack(in keepersState) world {
	w := world{Now: in.now, Before: in.before, Left: in.left, Fault: s.faults[in.fault]}
	for i, n := range in.players {
		w.Players[i] = s.players[n]
	}
	return w
}

// normalise removes differences that have no effect, and renumbers czxids.
func (w *world) normalise() {
	lags := false
	for i := range w.Players {
		p := &w.Players[i]
		p.M.failures, p.M.requestCount = 0, 0
		lags = lags || p.Lags
	}
	if !lags {
		w.Before = standingNode{}
	}
	var old [16]int64
	n := 0
	rename := func(z *int64) {
		if *z == 0 {
			return
		}
		for i := range n {
			if old[i] == *z {
				*z = int64(i + 1)
				return
			}
		}
		old[n] = *z
		n++
		*z = int64(n)
	}
	small := func(z *int8) {
		big := int64(*z)
		rename(&big)
		*z = int8(big)
	}
	small(&w.Now.Czxid)
	small(&w.Before.Czxid)
	for i := range w.Players {
		p := &w.Players[i]
		for _, z := range []*int64{&p.M.ownCzxid, &p.M.confirmedCzxid, &p.M.foreignCzxid, &p.M.replaceTarget, &p.Req.Reply.czxid} {
			rename(z)
		}
		small(&p.Req.Meant)
		small(&p.Ghost.Meant)
	}
}

// fresh returns a czxid that is not in use.
func (w *world) fresh() int8 {
	most := max(int64(w.Now.Czxid), int64(w.Before.Czxid))
	for _, p := range w.Players {
		most = max(most, p.M.ownCzxid, p.M.confirmedCzxid, p.M.foreignCzxid, p.M.replaceTarget, p.Req.Reply.czxid,
			int64(p.Req.Meant), int64(p.Ghost.Meant))
	}
	return int8(most + 1)
}

// change replaces the node by another, or none. A member lags by one change: it executes the change before first.
func (w *world) change(to standingNode, lag bool) {
	for i := range w.Players {
		w.catchUp(i)
	}
	w.Before, w.Now = w.Now, to
	for i := range w.Players {
		w.Players[i].Lags = true
		if !lag || w.Players[i].Ended {
			w.catchUp(i)
		}
	}
}

// catchUp makes a keeper's member execute the last change, and fires the watches.
func (w *world) catchUp(i int) {
	p := &w.Players[i]
	if !p.Lags {
		return
	}
	p.Lags = false
	kind := maybeChanged
	if w.Before.Czxid != 0 && w.Before.Czxid != w.Now.Czxid {
		kind = deletionReported
	}
	if p.Armed {
		p.Armed, p.Fired = false, kind
	}
	if p.Req.Armed {
		p.Req.Armed, p.Req.Fired = false, kind
	}
}

// give passes an event to a machine, and starts the action that it returns.
func (w *world) give(i int, e machineEvent) {
	p := &w.Players[i]
	var a keeperAction
	p.M, a = p.M.next(e)
	switch a {
	case waitForEvent, startPause:
	case stopWorker:
		if p.Req.Phase != 0 {
			w.Fault = "a keeper ends while a request is under way"
		}
		*p = player{Ended: true, Epoch: p.Epoch, Fired: noEvent, Ghost: p.Ghost, M: stateMachine{persistent: p.M.persistent}}
	default:
		if p.Req.Phase != 0 {
			w.Fault = "two requests at a time"
		}
		p.Req = keeperRequest{Action: a, Phase: 1, Epoch: int8(p.M.epoch), Fired: noEvent}
		switch a {
		case readOwner:
			p.Req.Careful = p.M.needsCatchUp()
		case setData, removeNode:
			p.Req.Version, p.Req.Meant, p.Req.Sent = int8(p.M.version), int8(p.M.ownCzxid), p.Want
		case createNode, replaceNode:
			p.Req.Version, p.Req.Meant, p.Req.Sent = int8(p.M.version), int8(p.M.foreignCzxid), p.Want
		}
		if a == joinSession {
			break
		}
		if p.Req.Epoch != p.Epoch {
			p.fails(framework.ErrSessionLost, false)
		} else if p.Up {
			p.Req.Phase = 2
		}
	}
}

// fails ends the request with an error.
func (p *player) fails(err error, perhaps bool) {
	kind := (&actionAttempt{keeperAction: p.Req.Action}).eventForError(err)
	p.Req.Reply = machineEvent{kind: kind, epoch: int64(p.Req.Epoch), outcomeUnknown: perhaps}
	p.Req.Phase, p.Req.Armed, p.Req.Fired = 3, false, noEvent
}

// execute plays the servers' execution of a request of keeper i.
func (w *world) execute(i int, r *keeperRequest, lag bool) {
	p := &w.Players[i]
	session := p.session(int8(i), r.Epoch)
	e := machineEvent{epoch: int64(r.Epoch)}
	refused := func(err error) {
		e.kind = (&actionAttempt{keeperAction: r.Action}).eventForError(err)
	}
	switch r.Action {
	case joinSession:
		e = machineEvent{kind: sessionJoined, epoch: int64(p.Epoch)}
	case createNode:
		if w.Now.Czxid != 0 {
			refused(framework.ErrNodeExists)
			break
		}
		w.change(standingNode{Owner: session, Czxid: w.fresh(), Data: r.Sent}, lag)
		p.Bereft = false
		e.kind, e.czxid = nodeCreated, int64(w.Now.Czxid)
	case readOwner:
		if r.Careful {
			w.catchUp(i)
		}
		found := w.Now
		if p.Lags {
			found = w.Before
		} else {
			p.Bereft = false
		}
		r.Armed, r.Fired = true, noEvent
		if found.Czxid == 0 {
			e.kind = nodeAbsent
			break
		}
		var earlier []int64
		if p.Former {
			earlier = append(earlier, int64(p.session(int8(i), 1)))
		}
		e.kind, e.czxid, e.version = nodeFound, int64(found.Czxid), int32(found.Version)
		e.ownedBy = ownerOf(int64(found.Owner), int64(1+2*i)+int64(r.Epoch)-1, p.M.persistent, earlier)
		if e.ownedBy == ownSession && found.Owner != session {
			w.Fault = "another session's node is taken for one's own"
		}
	case setData, removeNode, replaceNode:
		switch {
		case w.Now.Czxid == 0 && r.Action == removeNode:
			e.kind = nodeRemoved
		case w.Now.Czxid == 0:
			refused(framework.ErrNoNode)
		case w.Now.Version != r.Version:
			refused(framework.ErrBadVersion)
		default:
			w.hit(i, r, session, lag, &e)
		}
	}
	r.Reply, r.Phase = e, 3
}

// hit plays a set, remove or replace that finds a node with its version.
func (w *world) hit(i int, r *keeperRequest, session int8, lag bool, e *machineEvent) {
	theirs := w.Now.Owner != session && !w.Players[i].Bereft
	next := standingNode{}
	switch r.Action {
	case setData:
		if theirs {
			w.Fault = "another's node is written"
		}
		next = w.Now
		next.Version, next.Data = next.Version+1, r.Sent
		e.kind, e.version = dataWritten, int32(next.Version)
	case removeNode:
		if theirs {
			w.Fault = "another's node is deleted"
		}
		e.kind = nodeRemoved
	case replaceNode:
		if w.Now.Owner == 0 && w.Now.Czxid == r.Meant { // otherwise it was another when the keeper read it
			w.Fault = "a node that belongs to no session is taken over"
		}
		w.bereave(i)
		next = standingNode{Owner: session, Czxid: w.fresh(), Data: r.Sent}
		e.kind = nodeCreated
	}
	w.change(next, lag)
}

// bereave marks the keepers, other than i, whose node another is about to delete.
func (w *world) bereave(i int) {
	for j := range w.Players {
		p := &w.Players[j]
		for epoch := int8(1); epoch <= p.Epoch && j != i && !p.Ended; epoch++ {
			p.Bereft = p.Bereft || w.Now.Owner == p.session(int8(j), epoch)
		}
	}
}

// handled plays the worker's handling of the reply.
func (w *world) handled(i int) {
	p := &w.Players[i]
	if p.Req.Reply.kind != sessionJoined && p.Req.Action != readOwner && p.Req.Reply.kind != attemptFailed && p.Req.Reply.kind != attemptOrphaned {
		w.catchUp(i) // its member replies after it has executed the write
		p = &w.Players[i]
	}
	r := p.Req
	p.Req = keeperRequest{Fired: noEvent}
	e := r.Reply
	switch e.kind {
	case sessionJoined:
		if p.Worked != 0 && int64(p.Worked) != e.epoch && p.M.mayLeaveNode() {
			p.Former = true
		}
		p.Worked = int8(e.epoch)
	case nodeCreated, dataWritten:
		e.latestData = r.Sent == p.Want
	case nodeFound, nodeAbsent:
		p.Armed, p.Fired = r.Armed, r.Fired
	}
	w.give(i, e)
}

// cut plays the loss of a connection.
func (w *world) cut(i int, executed, reply bool) {
	p := &w.Players[i]
	p.Up = false
	if p.Ended {
		return
	}
	p.note(machineEvent{kind: suspended, epoch: int64(p.Epoch)})
	if p.Req.Action == joinSession || p.Req.Phase < 2 {
		return
	}
	write := p.Req.Action != readOwner
	switch {
	case !executed:
		if write {
			p.Ghost = p.Req
		}
		p.fails(framework.ErrConnectionLoss, write)
	case !reply:
		p.fails(framework.ErrConnectionLoss, write)
	}
}

func (p *player) note(e machineEvent) {
	for i := range p.Notes {
		if p.Notes[i] == (machineEvent{}) {
			p.Notes[i] = e
			return
		}
	}
	panic("too many notes")
}

func (p *player) room() bool { return p.Notes[len(p.Notes)-2] == (machineEvent{}) }

// expire plays the expiry of keeper i's earlier session, whose node exists.
func (w *world) expire(i int, lag bool) {
	if p := &w.Players[i]; p.Ghost.Epoch < p.Epoch {
		p.Ghost = keeperRequest{}
	}
	w.change(standingNode{}, lag)
}

func (w *world) formerIsThere(i int) bool {
	p := &w.Players[i]
	for epoch := int8(1); epoch < p.Epoch; epoch++ {
		if w.Now.Czxid != 0 && w.Now.Owner != 0 && w.Now.Owner == p.session(int8(i), epoch) {
			return true
		}
	}
	return false
}

// inner plays the steps without a fault. It reports whether there is one; without step it does nothing.
func (s *keepersModel) inner(w world, step func(string, world)) (some bool) {
	for i := range s.keepers {
		i, w := int(i), w
		p := w.Players[i]
		do := func(what string, f func(w *world)) {
			if some = true; step != nil {
				next := w
				f(&next)
				step(names[i]+what, next)
			}
		}
		if p.Ghost.Phase != 0 {
			do("executed after its connection's end: "+p.Ghost.Action.String(), func(w *world) {
				w.Players[i].Ghost = keeperRequest{}
				ghost := p.Ghost
				w.execute(i, &ghost, s.lag)
			})
		}
		if w.formerIsThere(i) {
			do("the earlier session's node goes", func(w *world) { w.expire(i, s.lag) })
		}
		if p.Ended {
			continue
		}
		if p.Lags {
			do("its member catches up", func(w *world) { w.catchUp(i) })
		}
		if p.Notes[0] != (machineEvent{}) {
			do("notes a connection state", func(w *world) {
				copy(w.Players[i].Notes[:], p.Notes[1:])
				w.Players[i].Notes[len(p.Notes)-1] = machineEvent{}
				w.give(i, p.Notes[0])
			})
		}
		if p.Fired != noEvent {
			do("handles the watch's event", func(w *world) {
				w.Players[i].Fired = noEvent
				w.give(i, machineEvent{kind: p.Fired})
			})
		}
		if p.M.pausing {
			do("the pause is over", func(w *world) { w.give(i, machineEvent{kind: pauseEnded}) })
		}
		switch {
		case p.Req.Phase == 3:
			do("handles the reply to "+p.Req.Action.String(), func(w *world) { w.handled(i) })
		case p.Req.Phase == 2, p.Req.Action == joinSession && p.Req.Phase == 1 && p.Up:
			do("executed: "+p.Req.Action.String(), func(w *world) {
				r := p.Req
				w.execute(i, &r, s.lag)
				w.Players[i].Req = r
			})
		}
		if !p.Up && p.room() {
			connect := func(w *world) {
				p := &w.Players[i]
				if p.Opens {
					w.catchUp(i) // opening a session is a write
				}
				p.Up, p.Opens, p.Ghost = true, false, keeperRequest{}
				p.note(machineEvent{kind: connected, epoch: int64(p.Epoch)})
				if p.Req.Phase == 1 && p.Req.Action != joinSession {
					p.Req.Phase = 2
				}
			}
			do("connected", connect)
			if w.formerIsThere(i) {
				do("connected, and the earlier session closed", func(w *world) {
					w.expire(i, s.lag)
					connect(w)
				})
			}
		}
	}
	return some
}

var names = [nKeepers]string{"A: ", "B: "}

// outer plays the faults, and the calls of users and the administrator.
func (s *keepersModel) outer(w world, step func(string, world)) {
	do := func(what string, f func(w *world)) {
		next := w
		f(&next)
		step(what, next)
	}
	for i := range s.keepers {
		i := int(i)
		p := w.Players[i]
		name := names[i]
		if p.Ended {
			continue
		}
		if w.Left.Cuts > 0 && p.Up && p.room() {
			type end struct{ executed, reply bool }
			ends := []end{{}}
			if p.Req.Phase == 3 {
				ends = []end{{true, false}, {true, true}}
			}
			for _, end := range ends {
				what := "connection lost"
				switch {
				case !end.executed && p.Req.Phase == 2:
					what = "connection lost before the request is executed"
				case end.executed && !end.reply:
					what = "connection lost, and the reply"
				}
				do(name+what, func(w *world) {
					w.Left.Cuts--
					w.cut(i, end.executed, end.reply)
				})
			}
		}
		if w.Left.Losses > 0 && !p.Up && p.room() {
			do(name+"session over", func(w *world) {
				w.Left.Losses--
				p := &w.Players[i]
				p.note(machineEvent{kind: sessionLost, epoch: int64(p.Epoch)})
				p.Opens = true
				if p.Epoch++; p.Armed {
					p.Armed, p.Fired = false, maybeChanged
				}
				if p.Req.Phase == 1 && p.Req.Action != joinSession {
					p.fails(framework.ErrSessionLost, false)
				}
			})
		}
		if w.Left.Sets > 0 && !p.M.closing {
			do(name+"SetData", func(w *world) {
				w.Left.Sets--
				w.Players[i].Want++
				w.give(i, machineEvent{kind: newDataSet})
			})
		}
		if !p.M.closing {
			do(name+"Close", func(w *world) { w.give(i, machineEvent{kind: closeRequested}) })
		}
	}
	if w.Now.Czxid != 0 && w.Now.Theirs {
		do("the foreign node goes", func(w *world) {
			w.bereave(-1) // a persistent node belongs to all keepers
			w.change(standingNode{}, s.lag)
		})
	}
	if w.Left.Admin == 0 {
		return
	}
	w.Left.Admin--
	if w.Now.Czxid == 0 {
		do("another session makes the node", func(w *world) {
			w.change(standingNode{Owner: foreigner, Czxid: w.fresh(), Data: theirData, Theirs: true}, s.lag)
		})
		do("the administrator makes the node", func(w *world) {
			w.change(standingNode{Czxid: w.fresh(), Data: theirData, Theirs: true}, s.lag)
		})
		return
	}
	do("the administrator deletes the node", func(w *world) {
		w.bereave(-1)
		w.change(standingNode{}, s.lag)
	})
	do("the administrator sets the data", func(w *world) {
		next := w.Now
		next.Version, next.Data = next.Version+1, otherData
		w.change(next, s.lag)
	})
}

func (s *keepersModel) quiet(w world) bool { return !s.inner(w, nil) }

func (s *keepersModel) wrong(w world) string {
	if w.Fault != "" {
		return w.Fault
	}
	for i := range s.keepers {
		p := &w.Players[i]
		for epoch := int8(1); p.Ended && epoch <= p.Epoch; epoch++ {
			if w.Now.Czxid != 0 && w.Now.Owner == p.session(int8(i), epoch) && !w.Now.Theirs {
				return "a keeper has ended and left its node"
			}
		}
	}
	if !s.quiet(w) {
		return ""
	}
	for i := range s.keepers {
		p := &w.Players[i]
		mine := w.Now.Czxid != 0 && w.Now.Owner == p.session(int8(i), p.Epoch)
		switch {
		case p.Ended:
		case p.M.closing:
			return "a closed keeper does not end"
		case w.Now.Czxid == 0:
			return "no node is there, and it is not being made"
		case mine && p.M.nodeState() != There, mine && p.M.ownCzxid != int64(w.Now.Czxid):
			return "its node is there, and the keeper does not say so"
		case !mine && p.M.nodeState() != Missing:
			return "another's node is there, and the keeper does not say so"
		case !p.Armed:
			return "the node is not watched"
		case mine && w.Now.Data != p.Want && w.Now.Data != otherData:
			return "the node does not have the data"
		}
	}
	return ""
}

// keepers creates the model. With two keepers, the second exists from the start.
func keepers(n int8, lag, persistent, grasp bool, left budget) explore.Model[keepersState] {
	s := &keepersModel{keepers: n, lag: lag, index: map[player]int32{}, faults: []string{""}}
	latestModel = s
	w := world{Left: left}
	for i := range w.Players {
		w.Players[i] = player{Epoch: 1, Fired: noEvent, Req: keeperRequest{Fired: noEvent}, Ended: true}
		if i < int(n) {
			w.Players[i].Ended, w.Players[i].Up, w.Players[i].Want = false, true, 1
			w.Players[i].M = stateMachine{pathKnown: true, persistent: persistent, mayTakeOver: grasp}
			w.Players[i].note(machineEvent{kind: connected, epoch: 1})
		}
	}
	return explore.Model[keepersState]{
		Start: []keepersState{s.pack(w)},
		Next: func(in keepersState, step func(string, keepersState)) {
			w := s.unpack(in)
			each := func(what string, w world) { step(what, s.pack(w)) }
			s.inner(w, each)
			s.outer(w, each)
		},
		Wrong: func(in keepersState) string { return s.wrong(s.unpack(in)) },
		Final: func(in keepersState) bool { return s.quiet(s.unpack(in)) },
		Most:  20_000_000,
	}
}

// explored returns the budget of a model; nightly runs have a larger one.
func explored(usual, long budget) budget {
	if os.Getenv("LONG") != "" {
		return long
	}
	return usual
}

func TestExploreOneKeeper(t *testing.T) {
	left := explored(budget{Cuts: 1, Losses: 1, Admin: 1, Sets: 1}, budget{Cuts: 2, Losses: 1, Admin: 1, Sets: 1})
	explore.Test(t, keepers(1, true, false, false, left),
		"a closed keeper leaves its node", "data of a gap forgotten", "a closed keeper believes a member that lags")
}

func TestExplorePersistentKeeper(t *testing.T) {
	left := explored(budget{Cuts: 1, Losses: 1, Admin: 1, Sets: 1}, budget{Cuts: 2, Losses: 1, Admin: 1, Sets: 1})
	explore.Test(t, keepers(1, true, true, false, left),
		"a closed keeper leaves its node", "another's persistent node taken for the one that was made")
}

func TestExploreTwoKeepers(t *testing.T) {
	left := budget{Cuts: 1, Losses: 1} // and in nightly runs with members that lag
	explore.Test(t, keepers(2, os.Getenv("LONG") != "", false, false, left), "another session's node taken for one's own")
}

func TestExploreTakeOver(t *testing.T) {
	left := explored(budget{Cuts: 1}, budget{Cuts: 1, Losses: 1})
	explore.Test(t, keepers(2, false, false, true, left), "another session's node taken for one's own")
}
