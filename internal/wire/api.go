package wire

import (
	"errors"
	"time"
)

// Errors of a Reply and of session events. Use errors.Is: they come wrapped.
var (
	// ErrNotSent means that a call was never written to a connection: it was certainly not executed.
	ErrNotSent = errors.New("not sent")
	// ErrConnectionLost means that the connection was lost between a call and its reply: the outcome is unknown.
	ErrConnectionLost = errors.New("connection lost")
	// ErrSessionLost means that the session ended before the call was answered. It comes joined with ErrNotSent or
	// ErrConnectionLost.
	ErrSessionLost = errors.New("session lost")
	// ErrExpired is the cause of a Lost event when a server has reported the session expired.
	ErrExpired = errors.New("session expired by the server")
	// ErrLapsed is the cause of a Lost event when the session's time has run out by the client's clock (promise P1);
	// the servers may not have expired it.
	ErrLapsed = errors.New("no answer in time: the server may have expired the session")
	// ErrClosed means that the session was closed by its owner.
	ErrClosed = errors.New("closed")
	// ErrNoOperation means that a call has no row in the table of operations (ops.go); it was not sent.
	ErrNoOperation = errors.New("the client has no such operation")
	// ErrTooLarge means that a request is larger than the server's packet limit; it was not sent.
	ErrTooLarge = errors.New("request larger than the packet limit")
	// ErrProtocol means that a server sent something that the protocol does not allow. It ends the connection.
	ErrProtocol = errors.New("the server violates ZooKeeper's protocol")
	// ErrReplyTooLarge means that an answer is larger than MaxReply. It was skipped, and the connection continues; the
	// server may have executed the request.
	ErrReplyTooLarge = errors.New("answer larger than allowed")
	// ErrUnacknowledged means that a session ended without an acknowledgement: its ephemeral nodes may stay until its
	// timeout.
	ErrUnacknowledged = errors.New(
		"session close not acknowledged: ephemeral nodes may stay until the session timeout")
	// ErrNotReadOnly means that a member without a quorum opens no sessions, not even read-only ones.
	ErrNotReadOnly = errors.New(
		"the server has lost its quorum and opens no sessions; " +
			"to open read-only sessions it needs localSessionsEnabled=true")
	// ErrHungUp means that a server closed the connection instead of answering the handshake.
	ErrHungUp = errors.New("the server closed the connection without an answer")
	// ErrAuthFailed means that the server refused a credential.
	ErrAuthFailed = errors.New("authentication failed")
)

// EventKind is the kind of an [Event].
type EventKind int8

const (
	// Connected reports that the session is established or re-attached.
	Connected EventKind = iota + 1
	// Disconnected reports that the connection was lost.
	Disconnected
	// AuthFailed reports that the server refused a credential, or requires one; the connection is closed.
	AuthFailed
	// Regressed reports that the data of every server is older than this process has seen: it was wiped or restored.
	// The zxid is not checked any more.
	Regressed
	// Failed reports that an attempt to connect failed.
	Failed
	// Lost is the last event: the session has ended here.
	Lost
)

// Event is a session event.
type Event struct {
	Kind      EventKind
	SessionID int64
	// Timeout is the negotiated session timeout.
	Timeout time.Duration
	Server  string
	// ReadOnly means that the member has no quorum.
	ReadOnly bool
	// Reattached means that this session was connected before.
	Reattached bool
	// Err is the reason for Disconnected, AuthFailed, Failed and Lost.
	Err error
}

// Call is one request. Its fields may not change after Submit.
type Call struct {
	Op int32
	// Body is the encoded record after the request header.
	Body []byte
	// Watch is armed with this read; the watch flag in Body is set as needed.
	Watch *Watch
	// Rearm arms watches by setWatches; Body is made of it.
	Rearm *Rearming
	// Patience, if set, limits the wait for a connection: from Submit, or from the loss of the last connection if that
	// is later. Then it fails with ErrNotSent. While every server refuses the credentials it fails immediately, with
	// ErrAuthFailed, too. While there is a connection it waits for its turn without limit.
	Patience time.Duration
	// Done is called exactly once, by wire's goroutines or inside Submit, Cancel, Abort; it must not block.
	// It may call Submit.
	Done func(Reply)
	// Urgent puts the call before all that are not urgent, and it does not wait for the window. It is for
	// small and rare calls that keep the session or its holds alive. A call that arms or removes a watch must
	// not be urgent: it has to stay in order.
	Urgent bool

	arms       bool // as written, it arms Watch, or lets a persistent watch serve it
	xid        int32
	list       *callList // where it is: queued or in flight; nil when it has ended
	prev, next *Call     // there
	queued     time.Time
	sent       instant
}

// Reply is a call's end.
type Reply struct {
	Zxid int64
	// Code is the server's error code, 0 for success; only meaningful when Err is nil.
	Code int32
	Body []byte
	// Err is set without a reply, or when the reply was skipped (ErrReplyTooLarge).
	Err error
	// Suspect is the size of the request, header included, if that may be why the server closed the
	// connection; else 0.
	Suspect int
	// Sent is the time at which the request was written, zero if it was not.
	Sent time.Time
	// Link numbers the connection that carried it.
	Link uint64
}

// WatchKind is the kind of a watch.
type WatchKind int8

const (
	// Data fires once on creation, change and deletion of the node itself.
	Data WatchKind = iota + 1
	// Child fires once when children are created or deleted, and on the node's deletion.
	Child
	// Persistent fires on every event of the node and of its list of children.
	Persistent
	// Recursive fires on creation, change and deletion of every node from the path down.
	Recursive
)

// Watch is one subscriber of a watch.
type Watch struct {
	Path string
	// Fn is called on wire's goroutines, one call at a time, in order with replies; it must not block. It may
	// call Submit.
	Fn func(WatchEvent)
	// Set, if not nil, is the set of the watch: then Fn is nil.
	Set *WatchSet

	entry *watchEntry
	Kind  WatchKind
	// Absent, for a watch of a Rearming, means that the node does not exist: the watch is for its creation.
	Absent  bool
	stopped bool
}

// WatchSet is a subscriber of many one-shot watches: they share a function, and can be ended without keeping each
// Watch. If a set has several watches of one kind on a path, it gets their event once.
type WatchSet struct {
	// Fn is like Watch.Fn.
	Fn func(WatchEvent)
}

func (w *Watch) call(ev WatchEvent) {
	if w.Set != nil {
		w.Set.Fn(ev)
	} else {
		w.Fn(ev)
	}
}

// Rearming is a request that arms one-shot watches without reading the nodes: setWatches. A watch on a node that has
// changed since a transaction, or on an absent node that exists now, fires instead. Its event may come before the
// reply.
type Rearming struct {
	// Since is a transaction that the server had executed when the nodes were read.
	Since   int64
	Watches []*Watch
}

// Types of WatchEvent beyond ZooKeeper's own.
const (
	// EventReset reports to a persistent watch that it was armed again after a gap: events may have been missed, read
	// again.
	EventReset int32 = 100
	// EventEnd is a watch's last event: the session has ended, Err has the cause.
	EventEnd int32 = 101
)

// WatchEvent is an event of a watch.
type WatchEvent struct {
	Type int32
	Path string
	Err  error
}
