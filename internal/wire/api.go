package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/chance"
)

// Errors of a Reply and of session events. Use errors.Is: they come wrapped.
var (
	// ErrNotSent says that a call was never written to a connection: it was certainly not executed.
	ErrNotSent = errors.New("not sent")
	// ErrConnectionLost says that the connection went away between a call and its reply: the outcome is unknown.
	ErrConnectionLost = errors.New("connection lost")
	// ErrSessionLost says that the session has ended while (or before) the call was under way. It comes joined with ErrNotSent or ErrConnectionLost.
	ErrSessionLost = errors.New("session lost")
	// ErrExpired is the cause of a Lost event when the server said that the session is gone.
	ErrExpired = errors.New("session expired by the server")
	// ErrLapsed is the cause of a Lost event when our own clock ran out (promise P1), whatever the server may think.
	ErrLapsed = errors.New("no answer in time: the server may have expired the session")
	// ErrClosed says that the session was closed by its owner.
	ErrClosed = errors.New("closed")
	// ErrTooLarge says that a request is larger than the server's packet limit; it was not sent.
	ErrTooLarge = errors.New("request larger than the packet limit")
	// ErrProtocol says that a server has sent what none does that speaks the protocol. It ends the connection.
	ErrProtocol = errors.New("the server does not keep to the protocol")
	// ErrReplyTooLarge says that an answer is larger than MaxReply. It was read past, and the connection goes on; the server may have executed the request.
	ErrReplyTooLarge = errors.New("answer larger than allowed")
	// ErrUnacknowledged says that a session ended without the server's word: its ephemeral nodes may stay until its timeout.
	ErrUnacknowledged = errors.New("session close not acknowledged: ephemeral nodes may stay until the session timeout")
	// ErrNotReadOnly says that a member without a quorum opens no sessions, read-only ones neither.
	ErrNotReadOnly = errors.New("the member has lost its quorum and opens no session; for read-only ones it needs localSessionsEnabled=true")
	// ErrHungUp says that a server has closed the connection instead of answering the handshake.
	ErrHungUp = errors.New("the server closes the connection without an answer")
	// ErrAuthFailed says that the server refused a credential.
	ErrAuthFailed = errors.New("authentication failed")
)

// Credential is sent on every connection before anything else.
type Credential struct {
	Scheme string
	Auth   []byte
}

// Format prints the scheme only, whatever the verb.
func (c Credential) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{%s [redacted]}", c.Scheme) }

// who names the credential in errors: that part of it which is no secret.
func (c Credential) who() string {
	if user, _, ok := strings.Cut(string(c.Auth), ":"); ok && c.Scheme == "digest" {
		return fmt.Sprintf("the credential of scheme %q, user %q", c.Scheme, user)
	}
	return fmt.Sprintf("the credential of scheme %q", c.Scheme)
}

// MarshalText hides it from encoders.
func (c Credential) MarshalText() ([]byte, error) { return []byte(fmt.Sprint(c)), nil }

// Config says how to keep a session.
type Config struct {
	// Servers are host:port names, resolved anew for every dial.
	Servers []string
	// Spread is the longest pause, chosen at random, between the loss of a connection that held and the search for another server, if there is another.
	Spread time.Duration
	// Dial opens a connection; nil means TCP with keepalive. TLS belongs here.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Timeout is the session timeout asked for; the server answers with its own.
	Timeout time.Duration
	// ConnectTimeout bounds one attempt to connect, TLS and ZooKeeper's handshake included. A session that is about to lapse waits shorter, so as to try
	// another server in time.
	ConnectTimeout time.Duration
	// ReadOnly allows members without a quorum.
	ReadOnly    bool
	Credentials []Credential
	// LoginName says who logs in by Login, for errors.
	LoginName string
	// Login, if set, begins a SASL login to the server (host:port), on each connection before anything else. It must end when ctx does.
	Login func(ctx context.Context, server string) (LoginStep, error)
	// MaxFrame is the server's jute.maxbuffer; larger requests are refused before they are sent.
	MaxFrame int
	// MaxReply bounds answers with data or a list: a larger one is ErrReplyTooLarge. 0 for 32 MiB; it is never less than MaxFrame.
	MaxReply int
	// Window bounds the requests in flight; how many there really may be the answers say, see room.
	Window int
	// LastZxid is what the process has already seen in earlier sessions: no member behind it is accepted.
	LastZxid int64
	// Fences are the sessions before this one, to be closed before anybody hears of this one. Only the latest few count, see maxFences.
	Fences []Fence
	// Rule is how promise P1 is kept if RuleFor is nil.
	Rule Rule
	// RuleFor, if set, says which rule goes with a session timeout and a server that stands alone, or does not. A pure function.
	RuleFor func(timeout time.Duration, alone bool) Rule
	Logger  *slog.Logger
	// Chance is where pauses and orders come from; nil is as good.
	Chance *chance.Source
	// OnEvent gets the session's events in order, on wire's goroutines; it must not block, and not call Abort or Close.
	OnEvent func(Event)
	// OnLapse, if set, is called once nothing is certain any more, with the reason, before and besides the Lost event: on a goroutine of its own, which waits
	// for nothing but the clock before that. It must not block, and not call the session, but for its Validity.
	OnLapse func(why error)
	// OnPong, if set, is called with the time between a ping and its answer. It must not block.
	OnPong func(time.Duration)
}

// Fence names an old session that must not outlive its epoch.
type Fence struct {
	SessionID int64
	Password  []byte
	// Until is when no request of it can be under way any more. It may live longer: servers that start anew, or a new leader, give every session its
	// whole timeout again. So it is closed later, too, but after fenceTries in vain that is left to the servers, and tried once more by Close.
	Until time.Time

	tries int
	left  bool // to the servers
}

// Format prints no password, whatever the verb.
func (f Fence) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "{%#x [redacted] %v}", f.SessionID, f.Until)
}

// EventKind is what happened to the session.
type EventKind int8

const (
	// Connected says that the session is established or re-attached.
	Connected EventKind = iota + 1
	// Disconnected says that the connection went away.
	Disconnected
	// AuthFailed says that the server refused a credential, or wants one; the connection is closed.
	AuthFailed
	// Regressed says that every server was behind what this process has seen: their data was wiped or restored, and the check is given up.
	Regressed
	// Failed says that an attempt to connect has failed.
	Failed
	// Lost is the last event: the session is gone for us.
	Lost
)

// Event is a session event.
type Event struct {
	Kind      EventKind
	SessionID int64
	// Timeout is the negotiated session timeout.
	Timeout time.Duration
	Server  string
	// ReadOnly says that the member has no quorum.
	ReadOnly bool
	// Reattached says that this session was connected before.
	Reattached bool
	// Err is why, for Disconnected, AuthFailed, Failed and Lost.
	Err error
}

// Call is one request. Its fields may not change after Submit.
type Call struct {
	Op int32
	// Body is the encoded record behind the request header.
	Body []byte
	// Watch is armed with this read; the watch flag in Body is set as needed.
	Watch *Watch
	// Urgent puts the call in front of all that are not, also of those submitted before, and it does not wait for room. It is for what keeps the session,
	// or what is held in it, alive: small, and few at a time. Not for what arms or removes a watch, which must stay in order.
	Urgent bool
	// Patience, if set, is how long the call waits for a connection, counted from Submit, or from the loss of the last connection if that is later. Then it
	// fails with ErrNotSent; at once, with ErrAuthFailed, too, while every server refuses us. While there is a connection it waits for its turn without end.
	Patience time.Duration
	// Done is called exactly once, by wire's goroutines or inside Submit, Cancel, Abort; it must not block. It may call Submit.
	Done func(Reply)

	state      callState
	arms       bool // as written, it arms Watch, or lets a persistent watch serve it
	xid        int32
	prev, next *Call
	queued     time.Time
	sent       instant
}

// Reply is a call's end.
type Reply struct {
	Zxid int64
	// Code is the server's error code, 0 for success; only meaningful when Err is nil.
	Code int32
	Body []byte
	// Err is set when there is no answer, or none that can be had: that is ErrReplyTooLarge.
	Err error
	// Suspect is the size of the request, header included, if that may be why the server has ended the connection; else 0.
	Suspect int
	// Sent is when the request was written, zero if it was not.
	Sent time.Time
	// Link numbers the connection that carried it.
	Link uint64
}

// WatchKind is the kind of a watch.
type WatchKind int8

const (
	// Data fires once on creation, change and deletion of the node itself.
	Data WatchKind = iota + 1
	// Child fires once when children come or go, and on the node's deletion.
	Child
	// Persistent fires on every event of the node and of its list of children.
	Persistent
	// Recursive fires on creation, change and deletion of every node from the path down.
	Recursive
)

// Watch is one subscriber of a watch.
type Watch struct {
	Kind WatchKind
	Path string
	// Fn is called on wire's goroutines, one call at a time, in order with replies; it must not block. It may call Submit.
	Fn func(WatchEvent)

	entry   *watchEntry
	stopped bool
}

// Types of WatchEvent beyond ZooKeeper's own.
const (
	// EventReset tells a persistent watch that it was armed again after a gap: events may have been missed, read again.
	EventReset int32 = 100
	// EventEnd is a watch's last event: the session has ended, Err says how.
	EventEnd int32 = 101
)

// WatchEvent is an event of a watch.
type WatchEvent struct {
	Type int32
	Path string
	Err  error
}
