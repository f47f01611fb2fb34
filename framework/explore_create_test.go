package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-curator/curator/internal/explore"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// The model of a protected create, in the foreground and in the background, of ephemeral and of persistent nodes, through
// a client and through the view of a session.
//
// The model calls the library's own code: the errors (replyError, classifyError), retrySituation.decideRetry, the state
// machine of the node (nodeState.next, createEventOf, retryEventOf), the requests of a search (searchCalls), the decision
// whether its list is believed (inconclusiveReason), and whether a clean-up need not search again (isSearchConclusive). It
// simulates
//
//   - the leader, which executes requests, also late: after a lost connection until the session is attached elsewhere, and
//     after a lapse until it expires the session;
//   - the member of the session, which lags, but never behind what the client was sent. A write catches up;
//   - lost connections, lapsed sessions with a next one, refusals, a retry policy or a context that ends at any time, and a
//     caller that stops waiting while the create is in flight.
//
// Bounds: four requests, and as many losses and lapses as createSpare allows. Not modelled: missing parents, OrSetData, the
// loss of the reply to the read of a node that was found, other clients that delete the node, clean-ups for which the queue
// has no room, and the time of a session: a clean-up that waits for the session's end waits until the session has certainly
// ended.
//
// It must never happen that a create succeeds without its node in its session, that there are two nodes of one name, or
// that a node remains that is not the caller's and that neither a session's end nor a clean-up will delete. From every
// state the operation and its clean-ups can end.

const mostCreates = 4

// createBounds are the bounds of a model.
type createBounds struct {
	losses, lapses uint8
	impatient      bool // a rule that is too weak: a clean-up searches once
}

type createStep uint8

const (
	createTries    createStep = iota // another try may begin
	createSends                      // the request is about to be sent
	createWaits                      // for the reply
	createWrites                     // a search waits for its write
	createLists                      // a search waits for its list
	createLeft                       // the caller has stopped waiting, and the reply is still to come
	createWentWell                   // over
	createWentBad                    // over
)

func (s createStep) over() bool { return s >= createWentWell }

type requestState uint8

const (
	noRequest requestState = iota
	requestUnderWay
	requestExecuted // and no reply sent
	requestAdrift   // the connection is lost: it may still be executed
	requestEnded
)

type nodeThere uint8

const (
	notMade nodeThere = iota
	made
	removed
)

// createRequest is a request and its node.
type createRequest struct {
	State      requestState
	Name       uint8
	Epoch      uint8
	Node, Seen nodeThere // at the leader, and at the client's member
}

type createState struct {
	Ephemeral, Pinned, Background bool
	Losses, Lapses                uint8

	Step    createStep
	State   nodeState
	Name    uint8 // of the node
	Tries   uint8
	Unknown bool  // the outcome of an earlier try
	In      uint8 // the epoch of this try
	Last    uint8 // the epoch of the last request
	Result  uint8 // the request + 1 whose node is the caller's
	Links   bool  // the list of a search has another connection than the write

	R        [mostCreates]createRequest
	Requests uint8
	Search   [mostCreates + 1]bool // a clean-up, by name
	Origin   [mostCreates + 1]uint8
	Remove   [mostCreates]bool // a clean-up, by request

	Epoch   uint8
	Lost    bool    // no connection
	Expired [3]bool // epochs that the leader has ended
	Bad     createFault
}

type createFault uint8

const (
	createdWithoutNode createFault = iota + 1
)

// apply makes a transition of the node's machine, as protectedCreate.applyEvent.
func (s *createState) apply(ev nodeEvent) (action nodeAction) {
	search := func() { s.Search[s.Name], s.Origin[s.Name] = true, s.Last }
	switch s.State, action = s.State.next(ev); action {
	case nodeNewName:
		s.Name++
	case nodeCleanupNewName:
		search()
		s.Name++
	case nodeCleanupSearch:
		search()
	case nodeCleanupRemove:
		s.Remove[s.Requests-1] = true
	}
	return action
}

// outcome decides what follows from the error of a try, as operationRun.decideNext.
func (s *createState) outcome(err error) {
	if errors.Is(err, ErrOutcomeUnknown) {
		s.Unknown = true
	}
	what := retrySituation{
		class: classifyError(err), policy: unknownSearch, unknown: s.Unknown, sessionBound: s.Pinned, background: s.Background,
		tries: int(s.Tries),
	}.decideRetry()
	if s.Step = createTries; what != tryAgain {
		s.fail()
	}
}

func (s *createState) fail() {
	s.apply(createFailed)
	s.Step = createWentBad
}

var (
	errReplyLost   = replyError(wire.Reply{Err: wire.ErrConnectionLost})
	errNotSentNow  = replyError(wire.Reply{Err: wire.ErrNotSent})
	errSessionGone = replyError(wire.Reply{Err: wire.ErrSessionLost})
	errNoAuthNow   = codeError(jute.CodeNoAuth)
)

func (b createBounds) next(s createState, step func(string, createState)) {
	to := func(what string, f func(s *createState)) {
		next := s
		f(&next)
		step(what, next)
	}
	b.operates(s, to)
	b.served(s, to)
	b.cleans(s, to)
}

// operates are the steps of the operation.
func (b createBounds) operates(s createState, to func(string, func(*createState))) {
	var last *createRequest
	if s.Requests > 0 {
		last = &s.R[s.Requests-1]
	}
	switch s.Step {
	case createTries:
		to("the retry policy or the context ends", (*createState).fail)
		to("another try", func(s *createState) {
			if s.Pinned && s.Epoch != 0 || s.Background && s.Tries > 0 && s.Epoch != s.In {
				s.fail() // the session of the view has ended
				return
			}
			s.In, s.Step, s.Tries = s.Epoch, createSends, min(s.Tries+1, 2)
			if s.Unknown {
				if s.apply(retryEventOf(s.Last == s.In, s.Ephemeral)) == nodeSearch {
					s.Step = createWrites
					return
				}
				s.Unknown = false
			}
		})
	case createSends:
		if s.In == s.Epoch && !s.Lost && s.Requests < mostCreates {
			to("the create is sent", func(s *createState) {
				s.R[s.Requests] = createRequest{State: requestUnderWay, Name: s.Name, Epoch: s.In}
				s.Requests++
				s.apply(createSent)
				s.Step, s.Last = createWaits, s.In
			})
		}
		to("the create is not sent", func(s *createState) {
			s.apply(createSent)
			s.Last = s.In
			s.apply(createEventOf(errNotSentNow))
			err := errNotSentNow
			if s.In != s.Epoch {
				err = errSessionGone
			}
			s.outcome(err)
		})
	case createWaits, createLeft:
		answer := func(s *createState, err error) {
			if s.Step == createLeft {
				s.apply(createAbandoned)
				s.apply(createEventOf(err))
				s.Step = createWentBad
				return
			}
			if s.apply(createEventOf(err)); err != nil {
				s.outcome(err)
				return
			}
			s.succeed(s.Requests - 1)
		}
		switch last.State {
		case requestUnderWay:
			to("the create is refused", func(s *createState) {
				s.R[s.Requests-1].State = requestEnded
				answer(s, errNoAuthNow)
			})
		case requestExecuted:
			to("the create is answered", func(s *createState) {
				r := &s.R[s.Requests-1]
				r.State, r.Seen = requestEnded, r.Node
				answer(s, nil)
			})
		}
		if s.Step == createWaits {
			to("the caller leaves", func(s *createState) { s.Step = createLeft })
		}
	case createWrites, createLists:
		to("the context ends in the search", func(s *createState) {
			s.apply(searchFailed)
			s.fail()
		})
		failed := func(err error) func(s *createState) {
			return func(s *createState) {
				s.apply(searchFailed)
				s.outcome(fmt.Errorf("%w (%w)", ErrConnectionLoss, err))
			}
		}
		if s.In != s.Epoch {
			to("the session of the search is over", failed(errSessionGone))
			return
		}
		if s.Lost {
			to("the search is lost", failed(errReplyLost))
			return
		}
		write, _ := searchCalls("/")
		if s.Step == createWrites {
			to("the search has written", func(s *createState) {
				if s.Step, s.Links = createLists, false; wire.Mutates(write.Op) {
					s.catchUp()
				}
			})
			return
		}
		wrote, listed := wire.Reply{Connection: 1}, wire.Reply{Connection: 1}
		if s.Links {
			listed.Connection = 2
		}
		if err := inconclusiveReason(wrote, listed); err != nil {
			to("the list proves nothing", failed(err))
			return
		}
		to("the search has listed", (*createState).listed)
	}
}

// listed handles the reply to a search's list, as protectedCreate.findNode and recoverOutcome.
func (s *createState) listed() {
	for i := range s.R[:s.Requests] {
		r := &s.R[i]
		switch {
		case r.Name != s.Name || r.Seen != made:
		case s.Ephemeral && r.Epoch != s.In:
			s.Remove[i] = true
		default:
			s.apply(nodeFound)
			s.succeed(uint8(i))
			return
		}
	}
	s.apply(nodeNotFound)
	s.Unknown, s.Step = false, createSends
}

func (s *createState) succeed(i uint8) {
	s.Step, s.Result = createWentWell, i+1
	if r := s.R[i]; s.State != nodeReturned || r.Node != made || s.Ephemeral && r.Epoch != s.In {
		s.Bad = createdWithoutNode
	}
}

// catchUp gives the member all transactions.
func (s *createState) catchUp() {
	for i := range s.R {
		s.R[i].Seen = s.R[i].Node
	}
}

// served are the steps of connection, sessions and servers.
func (b createBounds) served(s createState, to func(string, func(*createState))) {
	for i, r := range s.R[:s.Requests] {
		if r.State == requestUnderWay || r.State == requestAdrift {
			to("the leader executes create "+string('1'+rune(i)), func(s *createState) {
				if r := &s.R[i]; r.State == requestUnderWay {
					r.State, r.Node = requestExecuted, made
				} else {
					r.State, r.Node = requestEnded, made
				}
			})
		}
		if r.Seen != r.Node && !s.Lost {
			to("the member sees node "+string('1'+rune(i)), func(s *createState) { s.R[i].Seen = s.R[i].Node })
		}
	}
	if !s.Lost && s.Losses > 0 {
		to("the connection is lost", func(s *createState) {
			s.Losses--
			s.Lost = true
			for i := range s.R {
				switch r := &s.R[i]; {
				case r.Epoch != s.Epoch:
				case r.State == requestUnderWay:
					r.State = requestAdrift
				case r.State == requestExecuted:
					r.State = requestEnded
				}
			}
			if w := s.Step; w == createWaits || w == createLeft {
				// The reply is lost as well, whether the request was executed or not.
				left := w == createLeft
				if left {
					s.apply(createAbandoned)
				}
				if s.apply(createEventOf(errReplyLost)); left {
					s.Step = createWentBad
				} else {
					s.outcome(errReplyLost)
				}
			}
		})
	}
	if s.Lost {
		to("attached to another member", func(s *createState) {
			s.Lost = false
			s.Links = s.Step == createLists
			for i := range s.R {
				if r := &s.R[i]; r.Epoch == s.Epoch && r.State == requestAdrift {
					r.State = requestEnded
				}
			}
		})
		if s.Lapses > 0 {
			to("the session lapses, and another begins", func(s *createState) {
				s.Lapses--
				s.Lost = false
				s.Epoch++
			})
		}
	}
	for e := range s.Epoch {
		if !s.Expired[e] {
			to("the leader ends a lapsed session", func(s *createState) {
				s.Expired[e] = true
				for i := range s.R[:s.Requests] {
					r := &s.R[i]
					if r.Epoch != e {
						continue
					}
					if r.State == requestAdrift {
						r.State = requestEnded
					}
					if s.Ephemeral && r.Node == made {
						r.Node = removed
					}
				}
			})
		}
	}
}

// cleans are the steps of clean-ups.
func (b createBounds) cleans(s createState, to func(string, func(*createState))) {
	write, _ := searchCalls("/")
	for name, search := range s.Search {
		switch {
		case !search:
		case s.Ephemeral && s.Origin[name] != s.Epoch:
			to("a clean-up ends with its session", func(s *createState) { s.Search[name] = false })
		case !s.Lost:
			to("a clean-up searches", func(s *createState) {
				if wire.Mutates(write.Op) {
					s.catchUp()
				}
				found := false
				for i := range s.R[:s.Requests] {
					if r := &s.R[i]; r.Name == uint8(name) && r.Seen == made {
						r.Node, r.Seen, found = removed, removed, true
					}
				}
				over := s.Expired[s.Origin[name]] || b.impatient
				if isSearchConclusive(s.Origin[name] == s.Epoch, found) || over {
					s.Search[name] = false
				}
			})
		}
	}
	for i, remove := range s.Remove {
		switch {
		case !remove:
		case s.Ephemeral && s.R[i].Epoch != s.Epoch && s.Expired[s.R[i].Epoch]:
			to("a removal ends with its session", func(s *createState) { s.Remove[i] = false })
		case !s.Lost:
			to("a clean-up removes a node", func(s *createState) {
				s.R[i].Node, s.R[i].Seen, s.Remove[i] = removed, removed, false
			})
		}
	}
}

// quiet reports whether no work is left.
func (s createState) quiet() bool {
	if !s.Step.over() {
		return false
	}
	for i, r := range s.R {
		if s.Remove[i] || r.State != noRequest && r.State != requestEnded {
			return false
		}
	}
	return s.Search == [mostCreates + 1]bool{}
}

func (b createBounds) wrong(s createState) string {
	if s.Bad == createdWithoutNode {
		return "a create has succeeded without its node"
	}
	for i, r := range s.R {
		for _, other := range s.R[:i] {
			if r.Node == made && other.Node == made && r.Name == other.Name {
				return "two nodes of one name"
			}
		}
		passes := s.Ephemeral && r.Epoch != s.Epoch // deleted with its session
		switch mine := s.Result == uint8(i)+1; {
		case mine && r.Node != made && !passes:
			return "the caller's node was removed"
		case !mine && r.Node == made && !passes && s.quiet():
			return "a node is left behind"
		}
	}
	return ""
}

func (b createBounds) model() explore.Model[createState] {
	var start []createState
	for _, ephemeral := range []bool{true, false} {
		for _, pinned := range []bool{true, false} {
			for _, background := range []bool{true, false} {
				start = append(start, createState{
					Ephemeral: ephemeral, Pinned: pinned, Background: background, Losses: b.losses, Lapses: b.lapses,
				})
			}
		}
	}
	return explore.Model[createState]{Start: start, Next: b.next, Wrong: b.wrong, Final: createState.quiet}
}

func TestExploreCreate(t *testing.T) {
	b := createBounds{losses: 3, lapses: 2}
	if os.Getenv("LONG") != "" {
		b.losses = 6
	}
	explore.Test(t, b.model(), "search without a write")
}

// The model reaches the situations that it is for.
func TestExploreCreateReaches(t *testing.T) {
	for name, is := range map[string]func(createState) bool{
		"a node found by a search":                  func(s createState) bool { return s.Step == createWentWell && s.Losses < 3 && s.Requests == 1 },
		"a node made by a lapsed session":           func(s createState) bool { return s.Step.over() && s.R[0].Node == made && s.Result > 1 && s.Epoch > 0 },
		"a node made after its caller left":         func(s createState) bool { return s.Step == createLeft && s.R[0].Node == made },
		"a list of another connection":              func(s createState) bool { return s.Step == createLists && s.Links && s.R[0].Node > s.R[0].Seen },
		"another name in the session after a lapse": func(s createState) bool { return s.Ephemeral && s.Step == createWentWell && s.Name == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			m := createBounds{losses: 3, lapses: 2}.model()
			m.Wrong = func(s createState) string {
				if is(s) {
					return name
				}
				return ""
			}
			explore.Finds(t, m)
		})
	}
}

// The create of an earlier session may be executed after the first search.
func TestExploreCreateCleanedUpOnce(t *testing.T) {
	explore.Finds(t, createBounds{losses: 1, lapses: 1, impatient: true}.model())
}

// The model of a guaranteed delete of an ephemeral node, through the view of its session, with and without a mark.
//
// The model calls the library's own code: the errors, retrySituation.decideRetry, the state machine of the removal
// (removalState.next, removalEventOf, lateRemovalEvent). It simulates the leader, lost connections, the end of the session,
// a server that refuses the mark or the delete, a retry policy and a context that end, and a caller that stops waiting
// while the request is in flight.
//
// Not modelled: versions, children, and a full queue of clean-ups. Unless the server refuses the delete, it must never
// happen that no work is left while the node is there and its session lives. From every state the delete and its clean-up
// can end.

type deleteState struct {
	Step     createStep // only createTries, createWaits, createLeft and the final steps
	State    removalState
	Request  requestState
	Mark     bool // the next request leaves a mark
	Marking  bool // the request in flight leaves a mark
	Gone     bool // the node
	Refused  bool // by the server
	Owed     bool // a clean-up
	Sent     bool // the clean-up's request is in flight
	Unknown  bool
	Lost     bool
	Ended    bool // the session
	Losses   uint8
	Refusals uint8
}

// apply makes a transition, as guaranteedDelete.applyEvent.
func (s *deleteState) apply(ev removalEvent) {
	var action removalAction
	if s.State, action = s.State.next(ev); action == removalCleanup {
		s.Owed = true
	}
}

func (s *deleteState) fail(err error) {
	s.apply(removalEventOf(err))
	s.Step = createWentBad
}

// outcome decides what follows from the error of a try; helps means that there is a step for it.
func (s *deleteState) outcome(err error, helps bool) {
	s.Unknown = s.Unknown || errors.Is(err, ErrOutcomeUnknown)
	what := retrySituation{class: classifyError(err), hasStep: helps, unknown: s.Unknown, sessionBound: true, tries: 1}.decideRetry()
	if s.Step = createTries; what == giveUp {
		s.fail(err)
	}
}

// answered handles the reply to a request, or its loss.
func (s *deleteState) answered(err error) {
	s.Request = noRequest
	switch {
	case s.Step == createLeft:
		s.apply(removalCallerStopped)
		s.apply(lateRemovalEvent(err, false, s.Marking))
		s.Step = createWentBad
	case err == nil, !s.Marking && errors.Is(err, ErrNoNode): // Quietly
		s.Step = createWentWell
	default:
		s.outcome(err, s.Marking && !isUnfinished(err))
	}
}

func nextDelete(s deleteState, step func(string, deleteState)) {
	to := func(what string, f func(s *deleteState)) {
		next := s
		f(&next)
		step(what, next)
	}
	switch s.Step {
	case createTries:
		to("the context ends", func(s *deleteState) { s.fail(unsentError(canceled)) })
		if s.Unknown {
			to("the retry policy ends", func(s *deleteState) { s.fail(errReplyLost) })
		}
		switch {
		case s.Ended:
			to("the session is over", func(s *deleteState) { s.fail(errSessionGone) })
		case !s.Lost:
			to("the delete is sent", func(s *deleteState) {
				s.Step, s.Request, s.Marking, s.Mark = createWaits, requestUnderWay, s.Mark, false
			})
		}
	case createWaits:
		to("the caller leaves", func(s *deleteState) { s.Step = createLeft })
	}
	if s.Step == createWaits || s.Step == createLeft {
		switch {
		case s.Request == requestUnderWay && s.Gone:
			to("the delete finds nothing", func(s *deleteState) { s.answered(ErrNoNode) })
		case s.Request == requestUnderWay:
			to("the delete is executed", func(s *deleteState) { s.Request, s.Gone = requestExecuted, true })
			if s.Marking {
				to("the mark is refused", func(s *deleteState) { s.answered(errNoAuthNow) })
			}
			if s.Refusals > 0 {
				to("the delete is refused", func(s *deleteState) {
					s.Refusals--
					s.Refused = true
					s.answered(errNoAuthNow)
				})
			}
		case s.Request == requestExecuted:
			to("the delete is answered", func(s *deleteState) { s.answered(nil) })
		}
	}
	if s.Request == requestAdrift && !s.Gone && !s.Ended {
		to("the delete is executed late", func(s *deleteState) { s.Request, s.Gone = noRequest, true })
	}
	if !s.Lost && !s.Ended && s.Losses > 0 {
		to("the connection is lost", func(s *deleteState) {
			s.Losses--
			waits, adrift := s.Step == createWaits || s.Step == createLeft, s.Request == requestUnderWay || s.Sent
			if waits {
				s.answered(errReplyLost)
			} else if s.Sent {
				s.cleaned(errReplyLost)
			}
			if s.Lost = true; adrift {
				s.Request = requestAdrift
			}
		})
	}
	if s.Lost && !s.Ended {
		to("attached to another member", func(s *deleteState) { s.Lost, s.Request = false, noRequest })
		to("the session ends", func(s *deleteState) { s.Ended, s.Gone, s.Request = true, true, noRequest })
	}
	if s.Owed {
		switch {
		case s.Ended:
			to("the clean-up ends with the session", func(s *deleteState) { s.Owed, s.Sent = false, false })
		case s.Lost:
		case !s.Sent:
			to("the clean-up is sent", func(s *deleteState) { s.Sent = true })
		case !s.Gone:
			to("the clean-up is executed", func(s *deleteState) { s.Gone = true })
		default:
			to("the clean-up is answered", func(s *deleteState) { s.cleaned(nil) })
		}
	}
}

// cleaned handles the end of a clean-up's try, as cleanupQueue.runJob.
func (s *deleteState) cleaned(err error) {
	s.Sent = false
	_, action := removalQueued.next(removalEventOf(err))
	s.Owed = action == removalRetry
}

var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func TestExploreDelete(t *testing.T) {
	quiet := func(s deleteState) bool { return s.Step.over() && !s.Owed && s.Request == noRequest }
	explore.Test(t, explore.Model[deleteState]{
		Start: []deleteState{{Losses: 3}, {Losses: 3, Mark: true}, {Losses: 3, Mark: true, Refusals: 1}},
		Next:  nextDelete,
		Wrong: func(s deleteState) string {
			switch {
			case quiet(s) && !s.Gone && !s.Refused:
				return "nothing goes on, and the node is there"
			case s.Step == createWentWell && !s.Gone:
				return "a delete has succeeded, and the node is there"
			}
			return ""
		},
		Final: quiet,
	}, "clean-up with the caller's context")
}
