package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/chance"
)

// Config has the settings of a session.
type Config struct {
	// Servers are host:port names, resolved again for every dial.
	Servers []string
	// Spread is the longest random pause between the loss of a connection that held and the next dial.
	Spread time.Duration
	// Away is the time for which the owner has had no connection already.
	Away time.Duration
	// Dial opens a connection. TLS belongs here.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Timeout is the session timeout asked for; the server answers with its own.
	Timeout time.Duration
	// ConnectTimeout bounds one attempt to connect, TLS and ZooKeeper's handshake included. A session that is
	// about to lapse waits less, so that there is time for another server.
	ConnectTimeout time.Duration
	// ReadOnly allows members without a quorum.
	ReadOnly bool
	Auth
	Limits
	// LastZxid is the highest zxid that the process has seen in earlier sessions: no member behind it is accepted.
	LastZxid int64
	// Fences are earlier sessions, which are closed before this one is announced. Only the latest few count, see
	// maxFences.
	Fences []Fence
	// Assume returns the assumptions about the servers; see [Liveness].
	Assume assumption
	Logger *slog.Logger
	// Chance is the source of random pauses and orders; nil for the package's own.
	Chance *chance.Source
	Hooks
}

// Auth has the credentials that the client presents on each connection, before anything else.
type Auth struct {
	Credentials []Credential
	// LoginName is the name that Login uses, for errors.
	LoginName string
	// Login, if set, begins a SASL login to the server (host:port). It must end when ctx does.
	Login func(ctx context.Context, server string) (LoginStep, error)
}

// LoginStep is one SASL login in progress. It answers the server's challenges: the first call has none, since the
// client speaks first. A nil response sends nothing more. done means that the login is complete: after a response only
// the server's outcome is awaited.
type LoginStep func(challenge []byte) (response []byte, done bool, err error)

// Limits bound requests and answers.
type Limits struct {
	// MaxFrame is the server's jute.maxbuffer; larger requests are refused before they are sent.
	MaxFrame int
	// MaxReply bounds answers with data or a list: a larger one is ErrReplyTooLarge. 0 for 32 MiB; it is
	// never less than MaxFrame.
	MaxReply int
	// Window bounds the requests in flight; the delay of answers may make it smaller, see window.
	Window int

	longestPath int // that is believed
}

// A server can be broken or hostile, and others share the network to it. So no frame is trusted: the request of a
// reply, and the largest size that fits it, are known before its body is read.
const (
	// defaultMaxReply bounds an answer with data or a list: half a million children with names of sixty
	// bytes.
	defaultMaxReply = 32 << 20
	// maxPlainReply bounds all other replies, not counting a path, and the handshake's: a header of 16 bytes, a Stat of
	// 68, a session's password.
	maxPlainReply = 4 << 10
	// maxEventPath is the longest path that is believed, unless MaxFrame is larger: a node was created by a
	// request with the path in it, and a server takes requests of a MiB, its jute.maxbuffer.
	maxEventPath = 1 << 20
)

// Hooks are called on wire's goroutines. None of them may block.
type Hooks struct {
	// OnEvent gets the session's events in order. It must not call Abort or Close.
	OnEvent func(Event)
	// OnLapse, if set, is called once, with the reason, when no hold of the session is certain any more. It
	// is independent of the Lost event, and comes before it if the time has run out. Its goroutine waits for
	// nothing but the clock. It must not call the session, except for its Validity.
	OnLapse func(why error)
	// OnPong, if set, is called with the time between a ping and its answer.
	OnPong func(time.Duration)
}

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

// applyDefaults checks the configuration and fills in the defaults.
func (cfg *Config) applyDefaults() error {
	if len(cfg.Servers) == 0 {
		return errors.New("wire: no servers")
	}
	if cfg.Timeout < time.Millisecond || cfg.Timeout > math.MaxInt32*time.Millisecond {
		return fmt.Errorf("wire: session timeout %v is out of range", cfg.Timeout)
	}
	cfg.MaxFrame = cmp.Or(cfg.MaxFrame, 0xfffff)
	cfg.longestPath = max(maxEventPath, cfg.MaxFrame)
	// An answer may be as large as the largest node that this client can write.
	cfg.MaxReply = max(cmp.Or(cfg.MaxReply, defaultMaxReply), cfg.MaxFrame+maxPlainReply)
	cfg.Window = cmp.Or(cfg.Window, 1000)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 5*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return nil
}

// checkEventPath returns an error for a path that a server of no version sends. It does not look at characters:
// versions disagree about them.
func (cfg *Config) checkEventPath(path string) error {
	switch {
	case len(path) > cfg.longestPath:
		return fmt.Errorf("%w: it has %d bytes, and the limit is %d", errInvalidPath, len(path), cfg.longestPath)
	case path == "/":
		return nil
	case path == "" || path[0] != '/' || path[len(path)-1] == '/' || strings.Contains(path, "//") ||
		strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("%w: %.100q", errInvalidPath, path)
	}
	return nil
}

// Credential is sent on every connection before anything else.
type Credential struct {
	Scheme string
	Auth   []byte
}

// Format prints the scheme only, whatever the verb.
func (c Credential) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{%s [redacted]}", c.Scheme) }

// MarshalText hides the secret from encoders.
func (c Credential) MarshalText() ([]byte, error) { return []byte(fmt.Sprint(c)), nil }

// displayName identifies the credential in errors, by the part that is not secret.
func (c Credential) displayName() string {
	if user, _, ok := strings.Cut(string(c.Auth), ":"); ok && c.Scheme == "digest" {
		return fmt.Sprintf("the credential of scheme %q, user %q", c.Scheme, user)
	}
	return fmt.Sprintf("the credential of scheme %q", c.Scheme)
}

// Fence is an earlier session of this client that the client has given up. The client closes it before it
// announces the next session, so that no request and no ephemeral node of it is left.
type Fence struct {
	SessionID int64
	Password  []byte
	// Until is the time from which no request of it can be in flight any more. The session may live longer: restarted
	// servers, or a new leader, give every session its whole timeout again. So it is closed later, too. After
	// fenceTries failures it is left to expire, and Close tries once more.
	Until time.Time

	tries     int
	abandoned bool // left to expire
}

// Format prints no password, whatever the verb.
func (f Fence) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "{%#x [redacted] %v}", f.SessionID, f.Until)
}
