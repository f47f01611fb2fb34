package framework

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/retry"
)

// Option configures the client that [New] makes. Leave an option out to get its default.
//
// New refuses with ErrInvalidOption: nil options, nil functions and values, empty names and lists, and times and sizes
// that are not positive. Zero is allowed only where the option documents a meaning of zero; negative values never are.
// If an option is given several times the last one counts, unless the option says otherwise. Options copy their
// arguments.
type Option func(*options) error

// options is the configuration of a client. It does not change once New has returned.
type options struct {
	timeoutOptions
	accessOptions
	dataOptions
	dialOptions
	networkOptions
	limitOptions
	safetyOptions
	reportOptions
	retry     retry.Policy
	namespace string
}

type timeoutOptions struct {
	timeoutGiven   bool          // WithSessionTimeout was given
	connectTimeout time.Duration // how long an operation waits for a connection
	dialTimeout    time.Duration // 0: derived from the session timeout
	closeTimeout   time.Duration
}

type accessOptions struct {
	credentials []*wire.Credential // pointers, because fmt prints unexported values without calling their Format
	sasl        SASLMechanism      // nil: no login
	saslName    string             // the result of sasl.Name
	aclProvider ACLProvider        // nil: every node gets OpenACL
	parentACL   []ACL              // for the missing parent of a node; nil: the ACL is aclProvider's
	ancestorACL []ACL              // for the missing parents above that; used if parentACL is set
}

type dataOptions struct {
	defaultData       []byte // never nil: the protocol distinguishes null from empty data, and readers expect the latter
	compression       CompressionProvider
	compressed        bool // the default of every operation
	decompressedLimit int  // in bytes, for one call

	parentLevels      *int // how many missing parents may be created; nil: no limit
	persistentParents bool
}

type networkOptions struct {
	readOnly bool
	tracking bool
	joinable func(host string) bool // nil: see trustedHosts
	// spread limits the random pause between the loss of a connection and the search for a server: otherwise all
	// clients of a failed server would reconnect at the same moment.
	spread time.Duration
}

type limitOptions struct {
	maxFrame int
	maxReply int // 0: wire's default
	window   int

	background int // how many operations may be in the background at the same time
}

type reportOptions struct {
	logger      *slog.Logger
	onState     func(StateChange)
	observer    clientHooks
	recipeHooks Hooks // observer as one Hooks, for recipes: each function calls those of all
}

const defaultBackground = 1 << 18

func defaultOptions() options {
	return options{
		timeoutOptions: timeoutOptions{connectTimeout: 15 * time.Second, closeTimeout: 5 * time.Second},
		dataOptions: dataOptions{defaultData: []byte{}, compression: Gzip{},
			decompressedLimit: defaultDecompressedLimit},
		dialOptions:    dialOptions{dial: wire.DialTCP},
		networkOptions: networkOptions{spread: 100 * time.Millisecond},
		limitOptions:   limitOptions{maxFrame: defaultMaxFrame, window: 1000, background: defaultBackground},
		safetyOptions:  safetyOptions{sessionTimeout: 60 * time.Second, bound: 13 * time.Second, margin: -1, fenceGrace: -1},
		reportOptions:  reportOptions{logger: slog.New(slog.DiscardHandler)},
		retry:          retry.ExponentialBackoff{Base: time.Second, Retries: 3},
	}
}

func newOptions(opts []Option) (options, error) {
	o := defaultOptions()
	for _, opt := range opts {
		if opt == nil {
			return o, invalidOption("nil", "an option is nil; leave it out")
		}
		if err := opt(&o); err != nil {
			return o, err
		}
	}
	o.recipeHooks = o.observer.combineHooks()
	return o, o.checkConflicts()
}

// Format hides the options, whose unexported fields, credentials among them, fmt would print.
func (options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "{options [redacted]}") }

func (o *options) presentedCredentials() []wire.Credential {
	var out []wire.Credential
	for _, c := range o.credentials {
		out = append(out, *c)
	}
	return out
}

// checkedOption returns an option that calls set if ok is true. Otherwise the option fails: the error has the option's
// name and the formatted text.
func checkedOption(ok bool, set func(*options), option, format string, args ...any) Option {
	return func(o *options) error {
		if !ok {
			return invalidOption(option, format, args...)
		}
		set(o)
		return nil
	}
}

func positiveDuration(d time.Duration, option string, field func(*options) *time.Duration) Option {
	return checkedOption(d > 0, func(o *options) { *field(o) = d }, option,
		"%v is not a positive time; leave the option out for the default", d)
}

// WithSessionTimeout sets the session timeout that the client requests: how long the servers keep the session, with its
// ephemeral nodes and locks, after its last request or ping. The server grants a value within its limits, which by
// default are 2 and 20 ticks of 2 s: 4 to 40 s. Default 60 s.
func WithSessionTimeout(d time.Duration) Option {
	return checkedOption(d >= time.Millisecond && d <= math.MaxInt32*time.Millisecond,
		func(o *options) { o.sessionTimeout, o.timeoutGiven = d, true },
		"WithSessionTimeout", "%v is out of range; give a time that the server is likely to grant, such as "+
			"10*time.Second",
		d)
}

// WithConnectionTimeout limits the time for which an operation waits for a connection. Then it fails with
// ErrNotConnected, and the retry policy decides whether to try again. The time counts from the operation's beginning,
// or from the loss of the connection if that is later. While there is a connection, a request may also wait because the
// window is full ([WithWindow]): that wait has no such limit, and ends with the operation's context or the session.
// Default 15 s.
func WithConnectionTimeout(d time.Duration) Option {
	return positiveDuration(d, "WithConnectionTimeout", func(o *options) *time.Duration { return &o.connectTimeout })
}

// WithDialTimeout limits the time of one attempt to connect to one server, including name resolution, TLS, and
// ZooKeeper's handshake with its login. Default: a third of the session timeout, at most 5 s, so that there is time for
// another server before the session is lost.
func WithDialTimeout(d time.Duration) Option {
	return positiveDuration(d, "WithDialTimeout", func(o *options) *time.Duration { return &o.dialTimeout })
}

func (o *options) dialTimeLimit() time.Duration {
	return cmp.Or(o.dialTimeout, min(o.sessionTimeout/3, 5*time.Second))
}

// WithClosingTimeout limits how long [Client.Close] blocks. Default 5 s.
func WithClosingTimeout(d time.Duration) Option {
	return positiveDuration(d, "WithClosingTimeout", func(o *options) *time.Duration { return &o.closeTimeout })
}

// WithRetry sets the policy for repeating failed operations. Give retry.RetryNTimes{} to turn retries off. Default:
// retry.ExponentialBackoff{Base: time.Second, Retries: 3}, which Curator's examples use (Curator has no default).
func WithRetry(p retry.Policy) Option {
	return checkedOption(p != nil, func(o *options) { o.retry = p },
		"WithRetry", "the policy is nil; give retry.RetryNTimes{} to repeat nothing")
}

// WithNamespace puts every path of the client below the node ns, as [Client.UsingNamespace] does. ns has no leading
// slash; "" means no namespace. Default "".
func WithNamespace(ns string) Option { return func(o *options) error { o.namespace = ns; return nil } }

// WithMaxFrame sets the largest request, in bytes: the servers' jute.maxbuffer. A larger request fails with ErrTooLarge
// and is not sent: the server would close the connection. Default 1048575.
func WithMaxFrame(bytes int) Option {
	return checkedOption(bytes >= 1024 && bytes <= math.MaxInt32, func(o *options) { o.maxFrame = bytes },
		"WithMaxFrame", "%d bytes is out of range; give the servers' jute.maxbuffer, which is 1048575 "+
			"unless configured", bytes)
}

// WithMaxReply limits the reply to one request, in bytes. ZooKeeper itself sets no limit. In memory a reply takes up to
// five times its size (for a list of very short names). If the reply is larger, the operation fails with
// ErrReplyTooLarge and is not repeated: read less at a time, with fewer reads in a [Client.MultiRead] for example, or
// raise the limit. If a node has too many children to list, distribute them over several nodes.
//
// The client skips the rest of a larger reply, so the connection, the session and all holds continue. But a reply that
// takes most of the session timeout to arrive costs the connection. Default 32 MiB, enough for the names of half a
// million children. The limit is never less than [WithMaxFrame], so that all data that can be written can be read.
func WithMaxReply(bytes int) Option {
	return checkedOption(bytes >= 1024 && bytes <= math.MaxInt32, func(o *options) { o.maxReply = bytes },
		"WithMaxReply", "%d bytes is out of range; give the size of the largest reply, or leave the "+
			"option out for 32 MiB",
		bytes)
}

// WithWindow limits the number of requests in flight. A request of more than 16 KiB counts as several. Further requests
// wait in the client, in order. The client begins with 32, and keeps fewer in flight when they delay replies by more
// than about a twenty-fourth of the session timeout.
//
// So a program that sends many or large requests does not delay the requests that keep the session and its holds alive.
// Three kinds of requests overtake those that wait: pings, the writes of [RuleHeartbeat], and the read that shows
// whether the server is standalone. All other requests keep their order, clean-ups and releases included: the requests
// that a program has sent under a lock are executed before the lock is released. Default 1000, the server's own limit
// for all its clients together.
func WithWindow(requests int) Option {
	return checkedOption(requests >= 1, func(o *options) { o.window = requests },
		"WithWindow", "%d requests are too few; at least one must be allowed", requests)
}

// WithDefaultData sets the data of nodes that are created without data. That includes the nodes of recipes, except a
// latch's and those of revocable locks. Missing parents are created empty, as in Curator. nil means no data. Default
// nil. (Curator writes the host's IP address.)
func WithDefaultData(data []byte) Option {
	return func(o *options) error { o.defaultData = append([]byte{}, data...); return nil }
}

// WithCompression makes every operation compress the data that it writes and decompress the data that it
// reads, unless Uncompressed or Undecompressed was called on its builder. That includes the data of recipes: all
// clients that share a recipe's nodes must compress, or none, unless the recipe does not use its nodes' data. Missing
// parents are created without data, and empty data are read as they are. Default: only the operations whose builders
// have had Compressed or Decompressed called. Corresponds to Curator's enableCompression.
func WithCompression() Option { return func(o *options) error { o.compressed = true; return nil } }

// WithCompressionProvider sets how data are compressed and decompressed. Default: [Gzip]. Corresponds to
// Curator's compressionProvider.
func WithCompressionProvider(p CompressionProvider) Option {
	return checkedOption(p != nil, func(o *options) { o.compression = p },
		"WithCompressionProvider", "the provider is nil; leave the option out for gzip")
}

// WithDecompressedLimit limits how many bytes of decompressed data one call returns: a read of one node, or a
// [Client.MultiRead], in total over its nodes. In a MultiRead only the read that exceeds the rest of the limit fails,
// with ErrDecompressedTooLarge; later reads whose data are small enough succeed. Walk, in package tree, decompresses
// one node at a time and keeps none, so there the limit is for each node. [Gzip] stops decompressing at the limit.
// Another [CompressionProvider] runs to its end, and a result that is too large is dropped. Default 64 MiB.
func WithDecompressedLimit(bytes int) Option {
	return checkedOption(bytes > 0, func(o *options) { o.decompressedLimit = bytes },
		"WithDecompressedLimit", "%d bytes is not a positive limit; leave the option out for the default",
		bytes)
}

// WithLogger sets the logger for connections and sessions. The most common keys are server, session (in hex), epoch and
// err. Passwords and credentials are never logged. Unprintable characters in names chosen by other clients are escaped.
// Default: nothing is logged.
//
// The lines of the client, its recipes and its caches are queued for the handler in order, and handled on a separate
// goroutine, so a handler that blocks delays only other lines. Up to 1024 lines are queued. Further lines are dropped,
// and a line reports their number. Close waits for the earlier lines, as long as its context allows.
func WithLogger(l *slog.Logger) Option {
	return checkedOption(l != nil, func(o *options) { o.logger = slog.New(printableHandler{l.Handler()}) },
		"WithLogger", "the logger is nil; leave the option out to log nothing, or give slog.Default()")
}

// OnStateChange makes the client call f with every state change, in order, for logs and metrics. f shares a
// goroutine with the [Hooks]: it should not block, and must not close the client. A panic in f ends the
// process. To react to changes use [Client.StateChanges] or a context. Default: none.
func OnStateChange(f func(StateChange)) Option {
	return checkedOption(f != nil, func(o *options) { o.onState = f }, "OnStateChange",
		"the function is nil; leave the option out")
}

// WithHooks makes the client call the functions of h. It can be given several times; then all are called.
// Default: none.
func WithHooks(h Hooks) Option {
	return func(o *options) error { o.observer = append(o.observer, h); return nil }
}

// WithDialer sets the function that opens network connections. TLS, if configured, runs over them. Default: TCP with
// keepalive; each attempt resolves the name again.
func WithDialer(dial Dialer) Option {
	return checkedOption(dial != nil, func(o *options) { o.dial = dial },
		"WithDialer", "the dialer is nil; leave the option out for TCP")
}

// WithReadOnly lets the client use servers that have lost their quorum. They serve reads, whose data may be old, but
// not older than what this client has seen. On such a server writes fail with [ErrNotReadOnly], a recipe cannot join a
// line, and nothing can be held (see [Session.WaitQuorum]). The client continues to search for a server with a quorum.
// See [ReadOnly]. Default: off.
//
// The servers must allow it: by the system property readonlymode.enabled and, in 3.8, by
// localSessionsEnabled=true in their configuration, because a session that a server opens without a quorum is
// local to that server. Without localSessionsEnabled the client cannot connect there and reports
// ErrNotReadOnly.
func WithReadOnly() Option { return func(o *options) error { o.readOnly = true; return nil } }

// WithRule selects how holds are kept safe, see [Rule]. Default [RuleAuto].
func WithRule(r Rule) Option {
	return checkedOption(r >= RuleAuto && r <= RuleHeartbeat, func(o *options) { o.rule = r },
		"WithRule", "there is no %v; choose RuleAuto, RuleBound or RuleHeartbeat", r)
}

// WithStaleServerBound sets D, the longest time for which a member of an ensemble may continue to send replies to its
// clients after it has lost its leader, or the leader its quorum. Calculate D from the servers' configuration:
//
//   - (syncLimit + 1.5) × tickTime;
//   - (2 × syncLimit + 1.5) × tickTime where connections between members may fail in one direction and later in the
//     other, or where five members may be cut apart twice in a row;
//   - one tickTime more for clients of observers that follow an observer master, which also need [WithServerTick] with
//     twice the tickTime.
//
// The client recognises a standalone server, which needs no bound. 0 means that members stop immediately. Default 13 s,
// for syncLimit=5 and tickTime=2000; for the Docker image (syncLimit=2) 7 s is enough. If tickTime is longer than 2 s,
// give [WithServerTick], too.
func WithStaleServerBound(d time.Duration) Option {
	return checkedOption(d >= 0, func(o *options) { o.bound = d },
		"WithStaleServerBound", "%v is negative; give (syncLimit + 1.5) × tickTime of the servers", d)
}

// WithServerTick sets the servers' tickTime: twice in a tick a member reports to its leader which sessions have sent
// requests. Default 2 s, ZooKeeper's default, or more if the server grants a longer session timeout than requested.
// With a tick of 2 s holds are possible from a session timeout of 2 s on. Shorter timeouts need this option, because a
// client cannot find out that the tick is shorter. Never give less than the servers' tickTime.
func WithServerTick(d time.Duration) Option {
	return positiveDuration(d, "WithServerTick", func(o *options) *time.Duration { return &o.tick })
}

// WithSafetyMargin sets by how much the time for which a hold is valid is shortened. The margin covers delays of this
// process's goroutines, and clocks that run at different rates. It is also the time in which the work under the hold
// can stop before the servers can grant the lock to another client. (After a loss the client itself closes the session,
// see [WithFenceGrace].) 0 means no margin.
//
// Default: a tenth of the session timeout, at least 10 ms and at most 1 s.
func WithSafetyMargin(d time.Duration) Option {
	return checkedOption(d >= 0, func(o *options) { o.margin = d }, "WithSafetyMargin",
		"%v is negative; give the longest time that a goroutine waits for a processor, or leave the option "+
			"out", d)
}

// WithFenceGrace sets the pause between the loss of a session and the beginning of the next session. When the next
// session begins, the client closes the old session at the server, if it may still be alive there, over a second
// connection: so other clients get its locks sooner than by expiry. The pause is the time in which the work under these
// locks can stop before that. There is no connection during the pause. 0 means no pause.
//
// Default: a tenth of the session timeout, at least 10 ms and at most 1 s. After a session that a server has reported
// expired the default is a quarter of that (or the margin of [WithSafetyMargin], if given), since other clients have
// had the locks for a while. WithSafetyMargin sets the time that the work has if the servers expire the session first.
func WithFenceGrace(d time.Duration) Option {
	return checkedOption(d >= 0, func(o *options) { o.fenceGrace = d }, "WithFenceGrace", "%v is negative; give "+
		"0 or more", d)
}
