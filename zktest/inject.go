package zktest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// Action is the effect of a [Fault] on a request.
type Action uint8

// Actions.
const (
	// DropRequest loses the request: the server neither executes nor answers it. The connection stays open.
	DropRequest Action = iota + 1
	// CutBefore closes the connection instead of executing the request.
	CutBefore
	// LoseReply executes the request and closes the connection; its reply, and the events that the request
	// caused for this connection, are lost.
	LoseReply
	// ReplyError answers with Fault.Err instead of executing the request. A handshake is answered with
	// "session expired".
	ReplyError
	// Hold parks the request until Release; then it is executed if its connection still exists. The
	// connection's later requests wait for it.
	Hold
	// HoldReply executes the request and parks the reply, and all later replies and events of the connection, until
	// Release.
	HoldReply
	// DelayReply executes the request; its reply, and all later replies and events of the connection, arrive later by
	// Fault.Delay.
	DelayReply
	// HalfHandshake answers a handshake with the first four bytes only, and leaves the connection open. For
	// [OpConnect].
	HalfHandshake
)

// Fault selects requests, and has the action and its parameters. Empty fields match all requests.
type Fault struct {
	Session    int64  // the session, 0 = any
	Op         Op     // the operation ([OpCreate2], [OpPing], [OpConnect], …), "" = any
	PathPrefix string // one of the request's paths starts with it, "" = any; a connect has no path
	After      int    // the number of matching requests that pass before the first is struck
	Times      int    // the number of requests to strike; 0 = one, negative = all

	Action Action
	Err    Error         // of ReplyError
	Delay  time.Duration // of DelayReply
}

// Injection is a fault in force. Its methods are safe for concurrent use.
type Injection struct {
	s        *Server
	fault    Fault
	op       int32 // 0 = any
	seen     int
	hits     int
	struck   chan struct{}
	released chan struct{}
	free     bool // released is closed
}

// Inject puts a fault in force. It panics if f has an unknown operation or action. If several faults match a
// request, the oldest applies.
func (s *Server) Inject(f Fault) *Injection {
	op, known := opByName[f.Op]
	switch {
	case !known:
		panic(fmt.Sprintf("zktest: Inject: unknown operation %q", f.Op))
	case f.Action < DropRequest || f.Action > HalfHandshake:
		panic(fmt.Sprintf("zktest: Inject: unknown action %d", f.Action))
	}
	i := &Injection{s: s, fault: f, op: op}
	i.struck, i.released = make(chan struct{}, 1024), make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.injections = append(s.injections, i)
	return i
}

// Hits returns the number of requests that were struck.
func (i *Injection) Hits() int {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	return i.hits
}

// Struck returns a channel that gets a value for each request struck. It holds at most 1024 values; further
// ones are dropped.
func (i *Injection) Struck() <-chan struct{} { return i.struck }

// Release ends the wait of the requests and replies that Hold or HoldReply has parked. Later ones are not parked.
func (i *Injection) Release() {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	if !i.free {
		i.free = true
		close(i.released)
	}
}

// Remove ends the fault. Requests and replies that it has parked stay parked until Release.
func (i *Injection) Remove() {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	i.s.injections = slices.DeleteFunc(i.s.injections, func(j *Injection) bool { return j == i })
}

// injectionEffect is the effect of an injection on the current request.
type injectionEffect struct {
	stop, alive bool // the request is not executed; the connection stays open
	err         Error
	half        bool
	by          *Injection
}

// injectFault finds the fault that strikes a request. The lock is held; it is released while a request is parked.
func (s *Server) injectFault(c *clientConn, op int32, session int64, body []byte) injectionEffect {
	var paths []string
	for _, i := range s.injections {
		f := &i.fault
		if (i.op != 0 && i.op != op) || (f.Session != 0 && f.Session != session) {
			continue
		}
		if f.PathPrefix != "" {
			if paths == nil {
				paths = namedPaths(op, body)
			}
			affected := func(path string) bool { return strings.HasPrefix(path, f.PathPrefix) }
			if !slices.ContainsFunc(paths, affected) {
				continue
			}
		}
		if i.seen++; i.seen <= f.After || (f.Times >= 0 && i.hits >= max(f.Times, 1)) {
			continue
		}
		i.hits++
		select {
		case i.struck <- struct{}{}:
		default:
		}
		note := fmt.Sprintf("fault: %s strikes %s", f.Action, opName(op))
		s.trace.addEntry(traceEntry{kind: traceNote, conn: c.id, session: session, note: note, from: c.from})
		return s.newEffect(i, c)
	}
	return injectionEffect{}
}

func (s *Server) newEffect(i *Injection, c *clientConn) injectionEffect {
	st := injectionEffect{by: i}
	switch i.fault.Action {
	case DropRequest:
		st.stop, st.alive = true, true
	case CutBefore:
		st.stop = true
	case ReplyError:
		if st.err = i.fault.Err; st.err == ok {
			st.err = ErrSystemError
		}
	case HalfHandshake:
		st.half = true
	case Hold:
		s.parkRequest(i.released, c)
		st.stop = c.closed
	}
	return st
}

// parkRequest releases the lock until the request is released and the server is not paused, or the connection ends.
func (s *Server) parkRequest(released <-chan struct{}, c *clientConn) {
	for {
		s.mu.Unlock()
		select {
		case <-released:
		case <-c.done:
		case <-s.quit:
		}
		s.mu.Lock()
		if !s.paused || c.closed || s.closed {
			return
		}
		released = s.gate
	}
}

// beforeExecution and finish are called before and after the execution of the request.
func (st injectionEffect) beforeExecution(c *clientConn) {
	if st.by == nil {
		return
	}
	switch st.by.fault.Action {
	case LoseReply:
		c.mute = true
	case HoldReply:
		c.holding = st.by
	case DelayReply:
		c.late = st.by.fault.Delay
	}
}

func (st injectionEffect) afterExecution(c *clientConn) {
	if st.by == nil {
		return
	}
	if c.mute, c.holding, c.late = false, nil, 0; st.by.fault.Action == LoseReply {
		c.closeConn(true)
	}
}

// suspendEffect ends the effect on the connection while the request waits for the log: other replies and events are
// not affected.
func (st injectionEffect) suspendEffect(c *clientConn) {
	if st.by != nil {
		c.mute, c.holding, c.late = false, nil, 0
	}
}

// namedPaths returns the paths that a request names.
func namedPaths(op int32, body []byte) []string {
	d := jute.NewDecoder(body)
	switch op {
	case jute.OpCreateSession, jute.OpPing, jute.OpAuth, jute.OpSASL, jute.OpCloseSession, jute.OpWhoAmI:
		return []string{}
	case jute.OpMulti, jute.OpMultiRead:
		var req jute.MultiRequest
		req.Fields(d)
		paths := []string{}
		for _, part := range req.Ops {
			paths = append(paths, recordPath(part.Request))
		}
		return paths
	case jute.OpSetWatches, jute.OpSetWatches2:
		var req jute.SetWatches
		req.Fields(d)
		return slices.Concat([]string{}, req.Data, req.Exist, req.Child)
	}
	var first jute.PathRequest
	first.Fields(d)
	return []string{first.Path}
}

func (a Action) String() string {
	switch a {
	case DropRequest:
		return "DropRequest"
	case CutBefore:
		return "CutBefore"
	case LoseReply:
		return "LoseReply"
	case ReplyError:
		return "ReplyError"
	case Hold:
		return "Hold"
	case HoldReply:
		return "HoldReply"
	case DelayReply:
		return "DelayReply"
	case HalfHandshake:
		return "HalfHandshake"
	}
	return "unknown action"
}
