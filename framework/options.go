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
	timeoutAsked   bool          // the session timeout is not the default
	connectTimeout time.Duration // how long an operation waits for a connection
	dialTimeout    time.Duration // 0: derived from the session timeout
	closeTimeout   time.Duration
}

type accessOptions struct {
	credentials  []*wire.Credential // pointers, because fmt prints unexported fields without asking them
	sasl         SASLMechanism      // nil: no login
	saslName     string             // the name of sasl
	aclProvider  ACLProvider        // nil: open
	directoryACL []ACL              // for a missing parent directly above the node; nil: as aclProvider says
	aboveACL     []ACL              // for missing parents further up
}

type dataOptions struct {
	defaultData  []byte // never nil: on the wire null data differ from empty data, which readers expect
	compression  CompressionProvider
	compressed   bool // by default
	decompressed int  // limit for one call, in bytes

	parentLevels      *int // nil: no limit
	persistentParents bool
}

type networkOptions struct {
	readOnly bool
	tracking bool
	joinable func(host string) bool // nil: see trustedHosts
	spread   time.Duration          // limits the random pause between a loss and the search, to spread reconnects
}

type limitOptions struct {
	maxFrame int
	maxReply int // 0: wire's default
	window   int

	background int // how many operations can be there
}

type reportOptions struct {
	logger      *slog.Logger
	onState     func(StateChange)
	observer    clientHooks
	recipeHooks Hooks // the functions of observer that recipes call
}

const defaultBackground = 1 << 18

func defaultOptions() options {
	return options{
		timeoutOptions: timeoutOptions{connectTimeout: 15 * time.Second, closeTimeout: 5 * time.Second},
		dataOptions: dataOptions{defaultData: []byte{}, compression: Gzip{},
			decompressed: defaultDecompressedLimit},
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

// Format hides the options, which contain credentials: fmt prints unexported fields without asking them.
func (options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "{options [redacted]}") }

func (o *options) presentedCredentials() []wire.Credential {
	var out []wire.Credential
	for _, c := range o.credentials {
		out = append(out, *c)
	}
	return out
}

// checkedOption returns an option that calls set if ok, and otherwise fails with the text.
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

// WithSessionTimeout asks for a session timeout: how long the server keeps the session, its ephemeral nodes
// and its locks after the last ping or request. The server grants a value within its limits, which by default
// are 2 and 20 ticks of 2 s: 4 to 40 s. Default 60 s.
func WithSessionTimeout(d time.Duration) Option {
	return checkedOption(d >= time.Millisecond && d <= math.MaxInt32*time.Millisecond,
		func(o *options) { o.sessionTimeout, o.timeoutAsked = d, true },
		"WithSessionTimeout", "%v is out of range; give a time that the server is likely to grant, such as "+
			"10*time.Second",
		d)
}

// WithConnectionTimeout limits the time for which an operation waits for a connection. Then it fails with
// ErrNotConnected, and the retry policy decides whether to try again. The time counts from the operation's beginning,
// or from the loss of the connection if that is later. Waiting in the queue of a busy connection does not count; that
// wait ends with the operation's context or the session. Default 15 s.
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

// WithClosingTimeout limits the time that [Client.Close] may take. Default 5 s.
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

// WithMaxReply limits the answer to one request, in bytes. ZooKeeper itself sets no limit. In memory an answer takes up
// to five times its size (for a list of very short names). If the answer is larger, the operation fails with
// ErrReplyTooLarge and is not repeated: ask for less, with fewer reads in a [Client.MultiRead] for example, or raise
// the limit. A node with too many children to list should be split.
//
// The client skips the rest of a larger answer, so the connection, the session and all holds continue. But an answer
// that takes most of the session timeout to arrive costs the connection. Default 32 MiB, enough for the names of half a
// million children. The limit is never less than [WithMaxFrame], so that all data that can be written can be read.
func WithMaxReply(bytes int) Option {
	return checkedOption(bytes >= 1024 && bytes <= math.MaxInt32, func(o *options) { o.maxReply = bytes },
		"WithMaxReply", "%d bytes is out of range; give the size of the largest answer, or leave the "+
			"option out for 32 MiB",
		bytes)
}

// WithWindow limits the number of requests in flight. A request of more than 16 KiB counts as several. Further requests
// wait in the client, in order. The client begins with 32, and keeps fewer in flight when they delay answers by more
// than about a twenty-fourth of the session timeout.
//
// So a program that sends many or large requests does not delay the requests that keep the session and its holds alive.
// Three kinds of requests go ahead of all that wait: pings, the writes of [RuleHeartbeat], and the question whether the
// server is standalone. All other requests keep their order, clean-ups and releases included: the requests that a
// program has sent under a lock are executed before the lock is released. Default 1000, the server's own limit for all
// its clients together.
func WithWindow(requests int) Option {
	return checkedOption(requests >= 1, func(o *options) { o.window = requests },
		"WithWindow", "%d requests are too few; at least one must be allowed", requests)
}

// WithDefaultData sets the data of nodes that are created without data. That includes the nodes of recipes, except a
// latch's and those of revocable locks. Missing parents are created empty, as in Curator. Default: nil, which means no
// data. (Curator writes the host's IP address.)
func WithDefaultData(data []byte) Option {
	return func(o *options) error { o.defaultData = append([]byte{}, data...); return nil }
}

// WithCompression makes every operation compress the data that it writes and decompress the data that it
// reads, unless its builder says Uncompressed or Undecompressed. That includes the data of recipes, so all
// clients that share their nodes must agree on it, except for nodes whose data a recipe does not use. Missing
// parents are created without data, and empty data are read as they are. Default: data are compressed only
// where a builder says Compressed or Decompressed. Corresponds to Curator's enableCompression.
func WithCompression() Option { return func(o *options) error { o.compressed = true; return nil } }

// WithCompressionProvider sets how data are compressed and decompressed. Default: [Gzip]. Corresponds to
// Curator's compressionProvider.
func WithCompressionProvider(p CompressionProvider) Option {
	return checkedOption(p != nil, func(o *options) { o.compression = p },
		"WithCompressionProvider", "the provider is nil; leave the option out for gzip")
}

// WithDecompressedLimit limits how many bytes of decompressed data one call returns: a [Client.MultiRead], in total
// over its nodes, or a read of one node. A read that exceeds the rest of the limit fails by itself with
// ErrDecompressedTooLarge; the others are not affected, nor are smaller ones after it. Walk, in package tree,
// decompresses one node at a time and keeps none, so there the limit is for each node. [Gzip] stops decompressing at
// the limit. Another [CompressionProvider] runs to its end, and a result that is too large is dropped. Default 64 MiB.
func WithDecompressedLimit(bytes int) Option {
	return checkedOption(bytes > 0, func(o *options) { o.decompressed = bytes },
		"WithDecompressedLimit", "%d bytes is not a positive limit; leave the option out for the default",
		bytes)
}

// WithLogger sets the logger for connections and sessions. The keys are server, session (in hex), epoch and err.
// Passwords and credentials are never logged. Unprintable characters in names chosen by other clients are escaped.
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

// WithReadOnly lets the client use servers that have lost their quorum. They serve reads, possibly old ones,
// but none older than what this client has seen. On such a server writes fail with [ErrNotReadOnly], a recipe
// cannot join a queue, and nothing can be held (see [Session.WaitQuorum]). The client keeps looking for a
// server with a quorum. See [ReadOnly]. Default: off.
//
// The servers must allow it: by the system property readonlymode.enabled and, in 3.8, by
// localSessionsEnabled=true in their configuration, because a session that a server opens without a quorum is
// local to that server. Without localSessionsEnabled the client cannot connect there and reports
// ErrNotReadOnly.
func WithReadOnly() Option { return func(o *options) error { o.readOnly = true; return nil } }

// WithRule chooses how holds are kept safe, see [Rule]. Default [RuleAuto].
func WithRule(r Rule) Option {
	return checkedOption(r >= RuleAuto && r <= RuleHeartbeat, func(o *options) { o.rule = r },
		"WithRule", "there is no %v; choose RuleAuto, RuleBound or RuleHeartbeat", r)
}

// WithStaleServerBound sets D, the longest time for which a member of an ensemble may continue answering its clients
// after it has lost its leader, or the leader its quorum. D is (syncLimit + 1.5) × tickTime of the servers; (2 ×
// syncLimit + 1.5) × tickTime where links between members fail one way and later the other, or five members may be cut
// apart twice in a row; and a tick more behind an observer master. The client recognises a standalone server, which
// needs no bound. 0 means that members stop answering immediately. Default 13 s, for syncLimit=5 and tickTime=2000; for
// the Docker image (syncLimit=2) 7 s is enough. If tickTime is longer than 2 s, give [WithServerTick], too.
func WithStaleServerBound(d time.Duration) Option {
	return checkedOption(d >= 0, func(o *options) { o.bound = d },
		"WithStaleServerBound", "%v is negative; give (syncLimit + 1.5) × tickTime of the servers", d)
}

// WithServerTick sets the servers' tickTime: a member reports to its leader twice in a tick which sessions have sent
// something. Default 2 s, ZooKeeper's default, or more if the server grants a longer timeout than the client asked for.
// With 2 s, session timeouts from 2 s are long enough. Shorter timeouts need this option, because a client cannot find
// out that the tick is shorter. Never give less than the servers' tickTime.
func WithServerTick(d time.Duration) Option {
	return positiveDuration(d, "WithServerTick", func(o *options) *time.Duration { return &o.tick })
}

// WithSafetyMargin shortens the time for which a hold is valid. The margin covers the scheduling of this process and
// the difference between two clocks' rates. It also gives the work under the hold time to stop before the servers can
// give the lock to another client. (See [WithFenceGrace] for the client's own actions after a loss.) 0 means no margin.
//
// Default: a tenth of the session timeout, at least 10 ms and at most 1 s.
func WithSafetyMargin(d time.Duration) Option {
	return checkedOption(d >= 0, func(o *options) { o.margin = d }, "WithSafetyMargin",
		"%v is negative; give the longest time that a goroutine waits for a processor, or leave the option "+
			"out", d)
}

// WithFenceGrace sets the pause between the loss of a session and the beginning of the next session. When the next
// session begins, the client closes the old session at the server, if it may still be alive there, over a second
// connection. So the locks of the old session are passed on sooner. The pause gives their holders time to stop before
// the client itself passes them on. There is no connection during the pause. 0 means no pause.
//
// Default: a tenth of the session timeout, at least 10 ms and at most 1 s; a quarter of that after a session that a
// server has reported expired, when other clients have had the locks for a while. [WithSafetyMargin] sets the time that
// holders have if the servers expire the session first.
func WithFenceGrace(d time.Duration) Option {
	return checkedOption(d >= 0, func(o *options) { o.fenceGrace = d }, "WithFenceGrace", "%v is negative; give "+
		"0 or more", d)
}
