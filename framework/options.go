package framework

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"time"

	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/retry"
)

// ErrInvalidOption says that an option of [New] has a value that cannot work; the message says what to write instead.
var ErrInvalidOption = named("invalid option")

// Option changes what [New] makes.
type Option func(*options) error

// Dialer opens a network connection; it must end when ctx does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// options is the configuration of a client. It does not change once New has returned.
type options struct {
	sessionTimeout time.Duration
	timeoutAsked   bool          // it is not the default
	connectTimeout time.Duration // how long an operation waits for a connection
	dialTimeout    time.Duration // 0: by the session timeout
	closeTimeout   time.Duration
	retry          retry.Policy
	namespace      string
	credentials    []*wire.Credential // pointers: fmt prints what is behind an unexported field without asking it
	sasl           SASLMechanism      // nil: no login
	saslName       string             // what the mechanism says that it is called
	aclProvider    ACLProvider        // nil: open
	directoryACL   []ACL              // of parents made on the way to a node, the nearest one; nil: what aclProvider says
	aboveACL       []ACL              // of those above it
	defaultData    []byte
	compression    CompressionProvider
	compressed     bool // by default
	decompressed   int  // bytes, in one call
	tls            *tls.Config
	tlsFiles       *tlsFiles // on top of tls
	dial           Dialer
	logger         *slog.Logger
	readOnly       bool
	tracking       bool
	joinable       func(host string) bool // nil: see trusts
	spread         time.Duration
	maxFrame       int
	maxReply       int // 0: wire's default
	window         int
	rule           Rule
	bound          time.Duration // D
	tick           time.Duration
	margin         time.Duration // negative: by the session timeout and the rule
	fenceGrace     time.Duration // negative: by the session timeout
	onState        func(StateChange)
	observer       Observer
}

func defaultOptions() options {
	return options{
		sessionTimeout: 60 * time.Second,
		connectTimeout: 15 * time.Second,
		closeTimeout:   5 * time.Second,
		retry:          retry.ExponentialBackoff{Base: time.Second, Retries: 3},
		compression:    Gzip{},
		decompressed:   defaultDecompressedLimit,
		dial:           wire.DialTCP,
		logger:         slog.New(slog.DiscardHandler),
		spread:         100 * time.Millisecond,
		maxFrame:       defaultMaxFrame,
		window:         1000,
		bound:          13 * time.Second,
		margin:         -1,
		fenceGrace:     -1,
	}
}

func invalid(option, format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", ErrInvalidOption, option, fmt.Sprintf(format, args...))
}

// WithSessionTimeout asks for a session timeout: how long the server keeps the session, its ephemeral nodes and its locks after the last
// sign of life. The server answers with its own, within its limits (by default 2 to 20 ticks of 2 s: 4 to 40 s). Default 60 s.
func WithSessionTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d < time.Millisecond || d > math.MaxInt32*time.Millisecond {
			return invalid("WithSessionTimeout", "%v; give a positive time that the server is likely to grant, such as 10*time.Second", d)
		}
		o.sessionTimeout, o.timeoutAsked = d, true
		return nil
	}
}

// WithConnectionTimeout says how long an operation waits for a connection before it fails with ErrNotConnected (and the retry policy is
// asked), counted from its beginning, or from the loss of the connection if that is later. Waiting for its turn on a busy connection does not count: that
// ends with the operation's context or the session. Default 15 s.
func WithConnectionTimeout(d time.Duration) Option {
	return func(o *options) error { return positive(&o.connectTimeout, d, "WithConnectionTimeout") }
}

// WithDialTimeout says how long one attempt to connect to one server may take: name resolution, TLS, and ZooKeeper's handshake with a login, if there is one,
// included. Default: a third of the session timeout, at most 5 s, so that there is time for another server before the session is lost.
func WithDialTimeout(d time.Duration) Option {
	return func(o *options) error { return positive(&o.dialTimeout, d, "WithDialTimeout") }
}

// WithClosingTimeout bounds [Client.Close]. Default 5 s.
func WithClosingTimeout(d time.Duration) Option {
	return func(o *options) error { return positive(&o.closeTimeout, d, "WithClosingTimeout") }
}

func positive(to *time.Duration, d time.Duration, option string) error {
	if d <= 0 {
		return invalid(option, "%v; give a positive time, or leave the option out", d)
	}
	*to = d
	return nil
}

// WithRetry says when a failed operation is tried again. Default: retry.ExponentialBackoff{Base: time.Second, Retries: 3}, which is what
// Curator's examples use (Curator itself has no default). To repeat nothing give retry.RetryNTimes{}.
func WithRetry(p retry.Policy) Option {
	return func(o *options) error {
		if p == nil {
			return invalid("WithRetry", "the policy is nil; give retry.RetryNTimes{} to repeat nothing")
		}
		o.retry = p
		return nil
	}
}

// WithNamespace puts every path of the client below the node of that name, which has no leading slash, as [Client.UsingNamespace] does. Default: none.
func WithNamespace(ns string) Option {
	return func(o *options) error { o.namespace = ns; return nil }
}

// WithAuth adds a credential that every connection presents before anything else: WithAuth("digest", []byte("user:password")). It can be
// given several times. (In Curator the last call replaces the earlier ones.) Credentials are never logged; without TLS they cross the
// network in the clear, and the log says so, once, at the first connection that leaves the machine.
func WithAuth(scheme string, auth []byte) Option {
	return func(o *options) error {
		if scheme == "" {
			return invalid("WithAuth", `the scheme is empty; the usual one is "digest", with []byte("user:password")`)
		}
		if scheme == "digest" && !bytes.ContainsRune(auth, ':') {
			return invalid("WithAuth", `a digest credential is []byte("user:password"); there is no colon`)
		}
		o.credentials = append(o.credentials, &wire.Credential{Scheme: scheme, Auth: append([]byte{}, auth...)})
		return nil
	}
}

// WithACLProvider says which ACL a new node gets unless the operation names one. Default: [OpenACL] for all. The last of this, [WithDefaultACL] and
// [WithContenders] counts.
func WithACLProvider(p ACLProvider) Option {
	return func(o *options) error {
		if p == nil {
			return invalid("WithACLProvider", "the provider is nil; leave the option out for the open ACL")
		}
		o.aclProvider, o.directoryACL, o.aboveACL = p, nil, nil
		return nil
	}
}

// WithDefaultACL is a [WithACLProvider] that has one answer.
func WithDefaultACL(acl ...ACL) Option {
	return func(o *options) error {
		if len(acl) == 0 {
			return invalid("WithDefaultACL", "no ACL; leave the option out for the open one, or give CreatorACL()...")
		}
		acl = append([]ACL(nil), acl...)
		return WithACLProvider(func(string) []ACL { return acl })(o)
	}
}

// WithDefaultData is what nodes contain that the client makes without being given data, a recipe's nodes among them (but not a latch's,
// nor those of revocable locks). Missing parents are empty, as with Curator. Default: nothing. (Curator writes the IP address of the host.)
func WithDefaultData(data []byte) Option {
	return func(o *options) error { o.defaultData = append([]byte(nil), data...); return nil }
}

// WithCompression has every operation pack the data that it writes and unpack the data that it reads, unless its builder says otherwise
// (Uncompressed, Undecompressed): those of recipes, too, so that all who share the nodes must agree, but for nodes whose data a recipe has no use for. Missing parents are made without data, and data
// of no length are read as they are. Default: only where a builder says Compressed or Decompressed. Corresponds to Curator's enableCompression.
func WithCompression() Option {
	return func(o *options) error { o.compressed = true; return nil }
}

// WithCompressionProvider says how data are packed and unpacked where that is asked for. Default: [Gzip]. Corresponds to Curator's compressionProvider.
func WithCompressionProvider(p CompressionProvider) Option {
	return func(o *options) error {
		if p == nil {
			return invalid("WithCompressionProvider", "the provider is nil; leave the option out for gzip")
		}
		o.compression = p
		return nil
	}
}

// WithTLS encrypts every connection. The configuration is copied; an empty ServerName becomes the host of the server dialed. Client
// certificates go in here. Default: no TLS.
func WithTLS(cfg *tls.Config) Option {
	return func(o *options) error {
		if cfg == nil {
			return invalid("WithTLS", "the configuration is nil; give &tls.Config{} for the system's certificates, or leave the option out")
		}
		o.tls = cfg.Clone()
		return nil
	}
}

// WithDialer says how a network connection is opened; TLS, if asked for, is put on top. Default: TCP with keepalive, the name resolved
// anew for each attempt.
func WithDialer(dial Dialer) Option {
	return func(o *options) error {
		if dial == nil {
			return invalid("WithDialer", "the dialer is nil; leave the option out for TCP")
		}
		o.dial = dial
		return nil
	}
}

// WithLogger says where to log what happens to connections and sessions, with the keys server, session (in hex), epoch and err. Passwords
// and credentials are never logged, and no control characters: what is not printable in names that others have chosen is escaped. Default: nowhere.
//
// What the client, its recipes and its caches have to say waits for the handler in order, on a goroutine for that alone: a handler that blocks keeps nobody else.
// Up to 1024 lines wait, further ones are dropped, and a line says how many. Close waits for what was said before, as long as its context allows.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) error {
		if l == nil {
			return invalid("WithLogger", "the logger is nil; leave the option out to log nothing, or give slog.Default()")
		}
		o.logger = slog.New(plainHandler{l.Handler()})
		return nil
	}
}

// WithReadOnly lets the client use members that have lost their quorum: they serve reads, possibly old ones, but none older than what this client has
// seen. Writes fail with [ErrNotReadOnly] there, and so does whoever wants to join a line; nothing can be held (see [Session.WaitQuorum]). The client goes
// on looking for a member with a quorum. See [ReadOnly]. Default: off.
//
// The servers must allow it: readonlymode.enabled as a system property and, in 3.8, localSessionsEnabled=true in their configuration too, for a session
// that a member opens without a quorum is its own. Without the latter the client stays unconnected there, and says so by ErrNotReadOnly.
func WithReadOnly() Option {
	return func(o *options) error { o.readOnly = true; return nil }
}

// WithReconnectJitter bounds the pause, chosen at random, that the client makes between the loss of its connection and the search for another server: when a
// server goes, or all of them change their leader, not all clients of a large fleet shall arrive at the same instant. It makes none when there is one server
// in the list, and never one that would cost the session. Each further round through the list waits longer, at random, too: from about 50 ms up to
// 1 s, half as much more or less, and up to 5 s after a round in which a server has answered, and refused or dropped the connection. Default 100 ms; 0 for none.
func WithReconnectJitter(longest time.Duration) Option {
	return func(o *options) error {
		if longest < 0 {
			return invalid("WithReconnectJitter", "%v; give 0 or more", longest)
		}
		o.spread = longest
		return nil
	}
}

// WithMaxFrame is the servers' jute.maxbuffer in bytes: larger requests fail with ErrTooLarge before they are sent, where the server would
// close the connection. Default 1048575.
func WithMaxFrame(bytes int) Option {
	return func(o *options) error {
		if bytes < 1024 || bytes > math.MaxInt32 {
			return invalid("WithMaxFrame", "%d bytes; give the servers' jute.maxbuffer, which is 1048575 unless configured", bytes)
		}
		o.maxFrame = bytes
		return nil
	}
}

// WithMaxReply bounds what the client takes from a server in answer to one request, in bytes: ZooKeeper itself has no limit there, and an answer takes memory, up
// to five times its size when it is a list of very short names. A larger one fails its operation with ErrReplyTooLarge, and the retry policy is not asked. The
// connection, the session and all that is held go on, for the client reads past it; but an answer that takes most of the session timeout to come in costs
// the connection. Whoever meets ErrReplyTooLarge asks for less, with fewer reads in a [Client.MultiRead] say, or raises the limit; a directory with so many
// children had better be split. Default 32 MiB: the names of half a million children. It is never less than [WithMaxFrame]: what can be written can be read.
func WithMaxReply(bytes int) Option {
	return func(o *options) error {
		if bytes < 1024 || bytes > math.MaxInt32 {
			return invalid("WithMaxReply", "%d bytes; give what the largest list or node may have, or leave the option out for 32 MiB", bytes)
		}
		o.maxReply = bytes
		return nil
	}
}

// WithWindow bounds how many requests are on their way at once (one of more than 16 KiB counts as several); more of them wait in the client, in order.
// The client begins with 32, and has fewer on their way when answers come late because of them: by more than a twenty-fourth of the session timeout, about.
//
// So what keeps the session and its holds alive is not late when a program sends many requests at once, or large ones: pings, the writes by which
// [RuleHeartbeat] proves a hold, and the question whether the server stands alone go in front of all that waits. Everything else keeps its order, clean-ups and
// the release of what is held included: what a program has sent under a lock is done before the lock is passed on. Default 1000, as the server's own
// limit for all its clients together.
func WithWindow(requests int) Option {
	return func(o *options) error {
		if requests < 1 {
			return invalid("WithWindow", "%d; at least one request must be allowed", requests)
		}
		o.window = requests
		return nil
	}
}

// WithRule chooses how holds are kept safe, see [Rule]. Default [RuleAuto].
func WithRule(r Rule) Option {
	return func(o *options) error {
		if r < RuleAuto || r > RuleHeartbeat {
			return invalid("WithRule", "there is no %v; choose RuleAuto, RuleBound or RuleHeartbeat", r)
		}
		o.rule = r
		return nil
	}
}

// WithStaleServerBound is D: how long a member of an ensemble may go on answering its clients after it has lost its leader, or the leader
// its quorum. It is (syncLimit + 1.5) × tickTime of the servers, and half a tick more for each observer in between. A standalone server is
// recognised and needs no bound. Default 13 s, for syncLimit=5 and tickTime=2000; for the Docker image (syncLimit=2) 7 s is enough.
func WithStaleServerBound(d time.Duration) Option {
	return func(o *options) error {
		if d < 0 {
			return invalid("WithStaleServerBound", "%v; give (syncLimit + 1.5) × tickTime of the servers", d)
		}
		o.bound = d
		return nil
	}
}

// WithServerTick is the servers' tickTime, used by [RuleHeartbeat]. Default 2 s, ZooKeeper's, with which session timeouts from 2.9 s are long enough; more if
// the server grants a longer timeout than it was asked for. Shorter ones need it: a client cannot find out that the tick is shorter. Never say less than the
// servers have.
func WithServerTick(d time.Duration) Option {
	return func(o *options) error { return positive(&o.tick, d, "WithServerTick") }
}

// WithSafetyMargin is taken off the time for which a hold is valid: for the scheduling of this process, the difference of two clocks' rates, and
// for the work under the hold to stop in before the servers can give it to somebody else (see [WithFenceGrace] for what the client itself does then).
// Default: a tenth of the session timeout, at least 10 ms and at most 1 s. Under [RuleHeartbeat] a fortieth, at most 250 ms: it takes an eighth of the session
// timeout off besides, of which a leader that pauses may use up all.
func WithSafetyMargin(d time.Duration) Option {
	return func(o *options) error {
		if d < 0 {
			return invalid("WithSafetyMargin", "%v; give the time that a goroutine may have to wait for a processor, or leave the option out", d)
		}
		o.margin = d
		return nil
	}
}

// WithFenceGrace is a pause between the loss of a session and the moment at which the client begins with the next one, and closes what may
// be left of it at the server, over a second connection that lasts a moment. Closing it hands locks over sooner; the pause gives those who held them
// time to stop: nobody else has the lock earlier by what this client does. Until then the client has no connection. Default: a tenth of the session timeout, at
// least 10 ms and at most 1 s; a quarter of that after a session that a server has called expired, when others have had the locks for a while. How long the servers leave for that if they expire the session first is [WithSafetyMargin].
func WithFenceGrace(d time.Duration) Option {
	return func(o *options) error {
		if d < 0 {
			return invalid("WithFenceGrace", "%v; give 0 or more", d)
		}
		o.fenceGrace = d
		return nil
	}
}

// OnStateChange has f called with every state change, in order, for logs and metrics. It shares a goroutine with [Hooks]: it should not
// block, and must not close the client. A panic ends the process. To react to changes use [Client.StateChanges] or a context. Default: none.
func OnStateChange(f func(StateChange)) Option {
	return func(o *options) error {
		if f == nil {
			return invalid("OnStateChange", "the function is nil; leave the option out")
		}
		o.onState = f
		return nil
	}
}

// WithHooks has an observer told of what the client does. It can be given several times, and each is told. Default: nobody.
func WithHooks(h Hooks) Option {
	return func(o *options) error { o.observer.hooks = append(o.observer.hooks, h); return nil }
}

// dialLimit is what one attempt to connect may take.
func (o *options) dialLimit() time.Duration {
	if o.dialTimeout > 0 {
		return o.dialTimeout
	}
	return min(o.sessionTimeout/3, 5*time.Second)
}
