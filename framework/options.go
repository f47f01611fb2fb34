package framework

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"time"

	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/retry"
)

// ErrInvalidOption says that an option of [New] has a value that cannot work. The message says what to
// write instead.
var ErrInvalidOption = named("invalid option")

// Option changes what [New] makes. Leave an option out to get its default.
//
// New refuses with ErrInvalidOption: nil options, nil functions and values, empty names and lists, and
// times and sizes that are not positive. Where zero has a meaning the option says so; a negative one has
// none. The last of several calls of an option counts, unless the option says that it can be given several
// times. What is passed to an option is copied.
type Option func(*options) error

// options is the configuration of a client. It does not change once New has returned.
type options struct {
	timeouts
	access
	contents
	network
	limits
	caution
	telling
	retry     retry.Policy
	namespace string
}

type timeouts struct {
	sessionTimeout time.Duration
	timeoutAsked   bool          // sessionTimeout is not the default
	connectTimeout time.Duration // how long an operation waits for a connection
	dialTimeout    time.Duration // 0: by the session timeout
	closeTimeout   time.Duration
}

type access struct {
	credentials  []*wire.Credential // pointers, because fmt prints unexported fields without asking them
	sasl         SASLMechanism      // nil: no login
	saslName     string             // of sasl
	aclProvider  ACLProvider        // nil: open
	directoryACL []ACL              // of a missing parent right above the node; nil: as aclProvider says
	aboveACL     []ACL              // of missing parents above that one
}

type contents struct {
	defaultData  []byte // never nil: null data are another thing on the wire, which readers do not expect
	compression  CompressionProvider
	compressed   bool // by default
	decompressed int  // bytes, in one call
}

type network struct {
	tls      *tls.Config
	tlsFiles *tlsFiles // on top of tls
	dial     Dialer
	readOnly bool
	tracking bool
	joinable func(host string) bool // nil: see trusted
	spread   time.Duration
}

type limits struct {
	maxFrame int
	maxReply int // 0: wire's default
	window   int
}

type caution struct {
	rule       Rule
	bound      time.Duration // D
	tick       time.Duration
	margin     time.Duration // negative: by the session timeout and the rule
	fenceGrace time.Duration // negative: by the session timeout
}

type telling struct {
	logger   *slog.Logger
	onState  func(StateChange)
	observer observer
	told     Hooks // observer, for recipes
}

func defaultOptions() options {
	return options{
		timeouts: timeouts{sessionTimeout: 60 * time.Second, connectTimeout: 15 * time.Second,
			closeTimeout: 5 * time.Second},
		contents: contents{defaultData: []byte{}, compression: Gzip{},
			decompressed: defaultDecompressedLimit},
		network: network{dial: wire.DialTCP, spread: 100 * time.Millisecond},
		limits:  limits{maxFrame: defaultMaxFrame, window: 1000},
		caution: caution{bound: 13 * time.Second, margin: -1, fenceGrace: -1},
		telling: telling{logger: slog.New(slog.DiscardHandler)},
		retry:   retry.ExponentialBackoff{Base: time.Second, Retries: 3},
	}
}

func newOptions(opts []Option) (options, error) {
	o := defaultOptions()
	for _, opt := range opts {
		if opt == nil {
			return o, invalid("nil", "an option is nil; leave it out")
		}
		if err := opt(&o); err != nil {
			return o, err
		}
	}
	o.told = o.observer.asOne()
	return o, o.check()
}

func invalid(option, format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", ErrInvalidOption, option, fmt.Sprintf(format, args...))
}

// checked makes the option that sets something if ok, and otherwise fails with the text.
func checked(ok bool, set func(*options), option, format string, args ...any) Option {
	return func(o *options) error {
		if !ok {
			return invalid(option, format, args...)
		}
		set(o)
		return nil
	}
}

func positive(d time.Duration, option string, field func(*options) *time.Duration) Option {
	return checked(d > 0, func(o *options) { *field(o) = d }, option,
		"%v; give a positive time, or leave the option out", d)
}

// WithSessionTimeout asks for a session timeout: how long the server keeps the session, its ephemeral nodes
// and its locks after the last ping or request. The server grants what its limits allow, which by default
// is 2 to 20 ticks of 2 s: 4 to 40 s. Default 60 s.
func WithSessionTimeout(d time.Duration) Option {
	return checked(d >= time.Millisecond && d <= math.MaxInt32*time.Millisecond,
		func(o *options) { o.sessionTimeout, o.timeoutAsked = d, true },
		"WithSessionTimeout", "%v; give a positive time that the server is likely to grant, such as 10*time.Second",
		d)
}

// WithConnectionTimeout says how long an operation waits for a connection before it fails with
// ErrNotConnected and the retry policy is asked. The time counts from the operation's beginning, or from
// the loss of the connection if that is later. Waiting in the queue of a busy connection does not count; it
// ends with the operation's context or the session. Default 15 s.
func WithConnectionTimeout(d time.Duration) Option {
	return positive(d, "WithConnectionTimeout", func(o *options) *time.Duration { return &o.connectTimeout })
}

// WithDialTimeout says how long one attempt to connect to one server may take, including name resolution,
// TLS, and ZooKeeper's handshake with its login. Default: a third of the session timeout, at most 5 s, so
// that there is time for another server before the session is lost.
func WithDialTimeout(d time.Duration) Option {
	return positive(d, "WithDialTimeout", func(o *options) *time.Duration { return &o.dialTimeout })
}

func (o *options) dialLimit() time.Duration {
	return cmp.Or(o.dialTimeout, min(o.sessionTimeout/3, 5*time.Second))
}

// WithClosingTimeout bounds [Client.Close]. Default 5 s.
func WithClosingTimeout(d time.Duration) Option {
	return positive(d, "WithClosingTimeout", func(o *options) *time.Duration { return &o.closeTimeout })
}

// WithRetry says when a failed operation is tried again. Give retry.RetryNTimes{} to repeat nothing.
// Default: retry.ExponentialBackoff{Base: time.Second, Retries: 3}, which Curator's examples use (Curator
// has no default).
func WithRetry(p retry.Policy) Option {
	return checked(p != nil, func(o *options) { o.retry = p },
		"WithRetry", "the policy is nil; give retry.RetryNTimes{} to repeat nothing")
}

// WithNamespace puts every path of the client below the node ns, as [Client.UsingNamespace] does. ns has no
// leading slash; "" is no namespace. Default "".
func WithNamespace(ns string) Option { return func(o *options) error { o.namespace = ns; return nil } }

// WithMaxFrame is the servers' jute.maxbuffer in bytes. Larger requests fail with ErrTooLarge before they
// are sent, where the server would close the connection. Default 1048575.
func WithMaxFrame(bytes int) Option {
	return checked(bytes >= 1024 && bytes <= math.MaxInt32, func(o *options) { o.maxFrame = bytes },
		"WithMaxFrame", "%d bytes; give the servers' jute.maxbuffer, which is 1048575 unless configured", bytes)
}

// WithMaxReply bounds, in bytes, the answer to one request. ZooKeeper has no limit of its own. In memory an
// answer takes up to five times its size, when it is a list of very short names. An operation with a larger
// answer fails with ErrReplyTooLarge and is not repeated: ask for less, with fewer reads in a
// [Client.MultiRead] for example, or raise the limit. A directory with that many children should be split.
//
// The client reads past a larger answer, so the connection, the session and all holds go on; but an answer
// that takes most of the session timeout to arrive costs the connection. Default 32 MiB, which is the names
// of half a million children. The limit is never less than [WithMaxFrame]: what can be written can be read.
func WithMaxReply(bytes int) Option {
	return checked(bytes >= 1024 && bytes <= math.MaxInt32, func(o *options) { o.maxReply = bytes },
		"WithMaxReply", "%d bytes; give what the largest list or node may have, or leave the option out for 32 MiB",
		bytes)
}

// WithWindow bounds how many requests are in flight at once. A request of more than 16 KiB counts as
// several. Further requests wait in the client, in order. The client begins with 32, and has fewer in
// flight when they delay answers by more than about a twenty-fourth of the session timeout.
//
// So a program that sends many or large requests does not delay what keeps the session and its holds alive:
// pings, the writes by which [RuleHeartbeat] proves a hold, and the question whether the server stands
// alone go ahead of all that waits. Everything else keeps its order, clean-ups and releases included: what
// a program has sent under a lock is done before the lock is passed on. Default 1000, the server's own
// limit for all its clients together.
func WithWindow(requests int) Option {
	return checked(requests >= 1, func(o *options) { o.window = requests },
		"WithWindow", "%d; at least one request must be allowed", requests)
}

// WithDefaultData is what nodes contain that are made without data, recipes' nodes included, except a
// latch's and those of revocable locks. Missing parents are empty, as in Curator. nil is no data. Default:
// no data. (Curator writes the host's IP address.)
func WithDefaultData(data []byte) Option {
	return func(o *options) error { o.defaultData = append([]byte{}, data...); return nil }
}

// WithLogger says where to log what happens to connections and sessions, with the keys server, session (in
// hex), epoch and err. Passwords and credentials are never logged. What is not printable in names that
// others have chosen is escaped. Default: nowhere.
//
// The lines of the client, its recipes and its caches wait for the handler in order, on a goroutine for
// that alone, so a handler that blocks delays nobody else. Up to 1024 lines wait. Further ones are dropped,
// and a line says how many. Close waits for the lines before it, as long as its context allows.
func WithLogger(l *slog.Logger) Option {
	return checked(l != nil, func(o *options) { o.logger = slog.New(plainHandler{l.Handler()}) },
		"WithLogger", "the logger is nil; leave the option out to log nothing, or give slog.Default()")
}

// OnStateChange has f called with every state change, in order, for logs and metrics. It shares a goroutine
// with [Hooks]: it should not block, and must not close the client. A panic ends the process. To react to
// changes use [Client.StateChanges] or a context. Default: none.
func OnStateChange(f func(StateChange)) Option {
	return checked(f != nil, func(o *options) { o.onState = f }, "OnStateChange",
		"the function is nil; leave the option out")
}

// WithHooks tells an observer what the client does. It can be given several times, and each observer is
// told. Default: none.
func WithHooks(h Hooks) Option {
	return func(o *options) error { o.observer = append(o.observer, h); return nil }
}

// Dialer opens a network connection. It must end when ctx does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// WithDialer says how a network connection is opened. TLS, if asked for, is
// put on top. Default: TCP with keepalive; the name is resolved anew for each attempt.
func WithDialer(dial Dialer) Option {
	return checked(dial != nil, func(o *options) { o.dial = dial },
		"WithDialer", "the dialer is nil; leave the option out for TCP")
}

// WithTLS encrypts every connection. Client certificates go in here. An empty ServerName becomes the host
// of the server dialed. Default: no TLS.
func WithTLS(cfg *tls.Config) Option {
	return checked(cfg != nil, func(o *options) { o.tls = cfg.Clone() },
		"WithTLS", "the configuration is nil; give &tls.Config{} for the system's certificates, or leave the "+
			"option out")
}

// WithReadOnly lets the client use members that have lost their quorum. They serve reads, possibly old
// ones, but none older than what this client has seen. Writes fail with [ErrNotReadOnly] there, a recipe
// cannot join a line, and nothing can be held (see [Session.WaitQuorum]). The client keeps looking for a
// member with a quorum. See [ReadOnly]. Default: off.
//
// The servers must allow it, by readonlymode.enabled as a system property and, in 3.8, by
// localSessionsEnabled=true in their configuration, because a session that a member opens without a quorum
// is local to it. Without the latter the client stays unconnected there, with ErrNotReadOnly.
func WithReadOnly() Option { return func(o *options) error { o.readOnly = true; return nil } }

// WithReconnectJitter bounds the random pause between the loss of the connection and the search for another
// server. It keeps the clients of a large fleet from arriving at the same instant when a server fails or
// the leader changes. There is no pause when the list has one server, and none that would cost the session.
// 0 is no pause. Default 100 ms.
//
// Each further round through the list waits longer, at random, too: from about 50 ms up to 1 s, half as much
// more or less, and up to 5 s after a round in which a server answered and refused or dropped the connection.
func WithReconnectJitter(longest time.Duration) Option {
	return checked(longest >= 0, func(o *options) { o.spread = longest }, "WithReconnectJitter",
		"%v; give 0 or more", longest)
}

// WithAuth adds a credential that every connection presents before anything else: WithAuth("digest",
// []byte("user:password")). It can be given several times. (In Curator the last call replaces the earlier
// ones.) Credentials are never logged. Without TLS they cross the network in clear, and the log says so
// once, at the first connection that leaves the machine.
func WithAuth(scheme string, auth []byte) Option {
	why := ""
	switch {
	case scheme == "":
		why = `the scheme is empty; the usual one is "digest", with []byte("user:password")`
	case scheme == "digest" && !bytes.ContainsRune(auth, ':'):
		why = `a digest credential is []byte("user:password"); there is no colon`
	}
	return checked(why == "", func(o *options) {
		o.credentials = append(o.credentials, &wire.Credential{Scheme: scheme, Auth: append([]byte{}, auth...)})
	}, "WithAuth", "%s", why)
}

// WithACLProvider says which ACL a new node gets unless the operation names one. The last of this,
// [WithDefaultACL] and [WithContenders] counts. Default: [OpenACL] for all.
func WithACLProvider(p ACLProvider) Option {
	return checked(p != nil, func(o *options) { o.aclProvider, o.directoryACL, o.aboveACL = p, nil, nil },
		"WithACLProvider", "the provider is nil; leave the option out for the open ACL")
}

// WithDefaultACL is [WithACLProvider] with one answer for all nodes.
func WithDefaultACL(acl ...ACL) Option {
	acl = slices.Clone(acl)
	return checked(len(acl) > 0, func(o *options) { _ = WithACLProvider(func(string) []ACL { return acl })(o) },
		"WithDefaultACL", "no ACL; leave the option out for the open one, or give CreatorACL()...")
}

// WithRule chooses how holds are kept safe, see [Rule]. Default [RuleAuto].
func WithRule(r Rule) Option {
	return checked(r >= RuleAuto && r <= RuleHeartbeat, func(o *options) { o.rule = r },
		"WithRule", "there is no %v; choose RuleAuto, RuleBound or RuleHeartbeat", r)
}

// WithStaleServerBound is D: how long a member of an ensemble may go on answering its clients after it has
// lost its leader, or the leader its quorum. It is (syncLimit + 1.5) × tickTime of the servers, and half a
// tick more for each observer in between. A standalone server is recognised and needs no bound. 0 is a bound
// of zero. Default 13 s, for syncLimit=5 and tickTime=2000; for the Docker image (syncLimit=2) 7 s is enough.
func WithStaleServerBound(d time.Duration) Option {
	return checked(d >= 0, func(o *options) { o.bound = d },
		"WithStaleServerBound", "%v; give (syncLimit + 1.5) × tickTime of the servers", d)
}

// WithServerTick is the servers' tickTime, used by [RuleHeartbeat]. Default 2 s, ZooKeeper's default, for
// which session timeouts from 2.9 s are long enough; more if the server grants a longer timeout than it was
// asked for. Shorter timeouts need this option, because a client cannot find out that the tick is shorter.
// Never give less than the servers' tick.
func WithServerTick(d time.Duration) Option {
	return positive(d, "WithServerTick", func(o *options) *time.Duration { return &o.tick })
}

// WithSafetyMargin is taken off the time for which a hold is valid: for the scheduling of this process, for
// the difference between two clocks' rates, and as time for the work under the hold to stop before the
// servers can give it to somebody else. See [WithFenceGrace] for what the client itself does then. 0 is no
// margin. Default: a tenth of the session timeout, at least 10 ms and at most 1 s; under [RuleHeartbeat] a
// fortieth, at most 250 ms, since that rule takes off another eighth, all of which a leader's pause may use
// up.
func WithSafetyMargin(d time.Duration) Option {
	return checked(d >= 0, func(o *options) { o.margin = d }, "WithSafetyMargin",
		"%v; give the time that a goroutine may have to wait for a processor, or leave the option out", d)
}

// WithFenceGrace is a pause between the loss of a session and the beginning of the next one. With the next
// one the client closes what may be left of the old session at the server, over a second connection. That
// hands its locks over sooner. The pause gives those who held them time to stop, so that the client itself
// lets nobody else have a lock earlier. Until it is over there is no connection. 0 is no pause.
//
// Default: a tenth of the session timeout, at least 10 ms and at most 1 s; a quarter of that after a
// session that a server has called expired, when others have had the locks for a while. How much time there
// is if the servers expire the session first is [WithSafetyMargin].
func WithFenceGrace(d time.Duration) Option {
	return checked(d >= 0, func(o *options) { o.fenceGrace = d }, "WithFenceGrace", "%v; give 0 or more", d)
}
