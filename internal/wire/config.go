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

// complete checks the configuration and fills in the defaults.
func (cfg *Config) complete() error {
	if len(cfg.Servers) == 0 {
		return errors.New("wire: no servers")
	}
	if cfg.Timeout < time.Millisecond || cfg.Timeout > math.MaxInt32*time.Millisecond {
		return fmt.Errorf("wire: session timeout %v is out of range", cfg.Timeout)
	}
	cfg.MaxFrame = cmp.Or(cfg.MaxFrame, 0xfffff)
	cfg.longestPath = max(maxPath, cfg.MaxFrame)
	// An answer may be as large as the largest node that this client can write.
	cfg.MaxReply = max(cmp.Or(cfg.MaxReply, defaultMaxReply), cfg.MaxFrame+maxPlain)
	cfg.Window = cmp.Or(cfg.Window, 1000)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 5*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
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

// name identifies the credential in errors, by the part that is not secret.
func (c Credential) name() string {
	if user, _, ok := strings.Cut(string(c.Auth), ":"); ok && c.Scheme == "digest" {
		return fmt.Sprintf("the credential of scheme %q, user %q", c.Scheme, user)
	}
	return fmt.Sprintf("the credential of scheme %q", c.Scheme)
}
