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
	// Spread is the longest random pause between the loss of a connection (of minHeldTime or longer) and the next dial.
	Spread time.Duration
	// Away is the owner's time without a connection until the session is opened.
	Away time.Duration
	// Dial opens a connection. TLS belongs here.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Timeout is the session timeout that is requested; the server may grant another.
	Timeout time.Duration
	// ConnectTimeout bounds one attempt to connect, TLS and ZooKeeper's handshake included. A session with
	// little time left waits less, so that there is time for another server.
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

// LoginStep returns the response to a server's challenge in a SASL login. The client begins: in the first call challenge
// is nil. With a nil response nothing is sent. done means that no step follows; the server's reply to the response, if
// there is one, is awaited.
type LoginStep func(challenge []byte) (response []byte, done bool, err error)

// Limits bound requests and replies.
type Limits struct {
	// MaxFrame is the server's jute.maxbuffer; larger requests are refused before they are sent.
	MaxFrame int
	// MaxReply bounds replies with data or a list: a larger one is ErrReplyTooLarge. 0 for 32 MiB; it is
	// never less than MaxFrame.
	MaxReply int
	// Window bounds the requests in flight; the delay of replies may make it smaller, see requestWindow.
	Window int

	longestPath int // of an event that is accepted; see maxEventPath
}

// A server can be broken or hostile, and so can others on the network. So no frame is trusted: a reply's request
// and its largest valid size are determined before its body is read.
const (
	// defaultMaxReply bounds a reply with data or a list: half a million children with names of sixty
	// bytes.
	defaultMaxReply = 32 << 20
	// maxPlainReply bounds all other replies, not counting a path, and the handshake's: a header of 16 bytes, a Stat of
	// 68, a session's password.
	maxPlainReply = 4 << 10
	// maxEventPath is the longest path of an event that is accepted, unless MaxFrame is larger. The request that created
	// the node had the path in it, and a server accepts requests of a MiB by default (jute.maxbuffer).
	maxEventPath = 1 << 20
)

// Hooks are called on wire's goroutines. None of them may block.
type Hooks struct {
	// OnEvent gets the session's events in order. It must not call Abort or Close.
	OnEvent func(Event)
	// OnLoss, if set, is called once when the session is lost: no hold of it is certain any more. It may come before or
	// after the Lost event. Its goroutine waits for the clock only. It must not call the session, except for its Validity.
	OnLoss func()
	// OnPong, if set, is called with the time between a ping and its reply.
	OnPong func(time.Duration)
}

// EventKind is the kind of an [Event].
type EventKind int8

const (
	// Connected reports that the session has a connection: its first, or another (Reattached).
	Connected EventKind = iota + 1
	// Disconnected reports that the connection was lost.
	Disconnected
	// AuthFailed reports that the server refused a credential, or requires one; the connection is closed.
	AuthFailed
	// Regressed reports that a server with a quorum has older data than this process has seen: it was wiped or restored.
	// Later handshakes claim no zxid from before.
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
	// Reattached, of Connected, means that this session was connected before.
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
	// A reply may be as large as the largest node that this client can write.
	cfg.MaxReply = max(cmp.Or(cfg.MaxReply, defaultMaxReply), cfg.MaxFrame+maxPlainReply)
	cfg.Window = cmp.Or(cfg.Window, 1000)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 5*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return nil
}

// checkEventPath returns an error for a path that no server sends, of any version. Versions disagree about characters, so
// only 0 is refused.
func (cfg *Config) checkEventPath(path string) error {
	switch {
	case len(path) > cfg.longestPath:
		return fmt.Errorf("%w: it has %d bytes, and the limit is %d", errInvalidPath, len(path), cfg.longestPath)
	case path == "/":
		return nil
	case path == "" || path[0] != '/' || path[len(path)-1] == '/' || strings.Contains(path, "//") ||
		strings.Contains(path, "\x00"):
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

// Fence is an earlier session that the client has lost. The client closes it before it announces the next session, so
// that no request and no ephemeral node of it is left.
type Fence struct {
	SessionID int64
	Password  []byte
	// No request of the session can be in flight after Until. The session may live longer, since a new
	// leader gives every session its whole timeout again. So tries to close it continue after Until: until there were
	// fenceTries. Then it is left to expire, and Close tries once more.
	Until time.Time

	tries     int
	abandoned bool // left to expire
}

// Format prints no password, whatever the verb.
func (f Fence) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "{%#x [redacted] %v}", f.SessionID, f.Until)
}
