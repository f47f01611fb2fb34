package framework

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// everything calls each exported method of the client; methods that block do so no longer than ctx.
var everything = map[string]func(ctx context.Context, c *Client){
	"CleanupLogger": func(_ context.Context, c *Client) { c.CleanupLogger().Info("asked") },
	"CheckExists":   func(ctx context.Context, c *Client) { _, _ = c.CheckExists().ForPath(ctx, "/") },
	"Close":         func(context.Context, *Client) {}, // not limited by ctx: see CloseContext
	"CloseContext": func(ctx context.Context, c *Client) {
		if c.Err() != nil { // the client is being closed already
			_ = c.CloseContext(ctx)
		}
	},
	"Conn": func(_ context.Context, c *Client) { c.Conn() },
	"Create": func(ctx context.Context, c *Client) {
		_, _ = c.Create().OrSetData().ForPath(ctx, "/asked", nil)
	},
	"CreateContainers": func(ctx context.Context, c *Client) { _ = c.CreateContainers(ctx, "/containers") },
	"Delete": func(ctx context.Context, c *Client) {
		_ = c.Delete().Guaranteed().ForPath(ctx, "/none")
	},
	"Ensure":        func(ctx context.Context, c *Client) { _ = c.Ensure(ctx, "/ensured") },
	"EnsureParents": func(ctx context.Context, c *Client) { _ = c.EnsureParents(ctx, "/ensured/node") },
	"Format":        func(_ context.Context, c *Client) { _ = fmt.Sprintf("%+v", c) },
	"FourLetterWord": func(ctx context.Context, c *Client) {
		_, _ = c.FourLetterWord(ctx, strings.Join(c.Servers(), ","), "ruok")
	},
	"ForRecipes":  func(_ context.Context, c *Client) { c.ForRecipes() },
	"GetACL":      func(ctx context.Context, c *Client) { _, _ = c.GetACL().ForPath(ctx, "/") },
	"GetChildren": func(ctx context.Context, c *Client) { _, _ = c.GetChildren().ForPath(ctx, "/") },
	"GetConfig":   func(ctx context.Context, c *Client) { _, _ = c.GetConfig(ctx) },
	"GetData": func(ctx context.Context, c *Client) {
		c.GetData().InBackground().ForPath(ctx, "/").Then(func(DataResult, error) {})
	},
	"Health": func(_ context.Context, c *Client) { _ = c.Health().Err() },
	"InSession": func(ctx context.Context, c *Client) {
		_ = c.InSession(ctx, func(context.Context, *Session) error { return nil })
	},
	"Logger": func(_ context.Context, c *Client) { c.Logger().Info("asked") },
	"MultiRead": func(ctx context.Context, c *Client) {
		_, _ = c.MultiRead().ForReads(ctx, ReadData("/"))
	},
	"Namespace":       func(_ context.Context, c *Client) { c.Namespace() },
	"Hooks":           func(_ context.Context, c *Client) { c.Hooks() },
	"Err":             func(_ context.Context, c *Client) { _ = c.Err() },
	"Later":           func(_ context.Context, c *Client) { c.Later(func() {}) },
	"Pause":           func(ctx context.Context, c *Client) { c.Pause(ctx, time.Hour) },
	"PendingCleanups": func(_ context.Context, c *Client) { c.PendingCleanups() },
	"Reconfigure":     func(ctx context.Context, c *Client) { _, _ = c.Reconfigure(ctx, nil, nil, nil, -1) },
	"WatchConfig": func(ctx context.Context, c *Client) {
		if _, w, err := c.WatchConfig(ctx); err == nil {
			w.Stop()
		}
	},
	"Retry": func(ctx context.Context, c *Client) {
		_ = c.Retry(ctx, func(context.Context) error { return nil }, retry.WithRetryable(Retryable))
	},
	"Safety":      func(_ context.Context, c *Client) { c.Safety() },
	"Servers":     func(_ context.Context, c *Client) { c.Servers() },
	"Session":     hold1,
	"SessionSoon": func(ctx context.Context, c *Client) { _, _ = c.SessionSoon(ctx) },
	"SetACL": func(ctx context.Context, c *Client) {
		_, _ = c.SetACL().WithACL(OpenACL()...).ForPath(ctx, "/asked")
	},
	"SetData":      func(ctx context.Context, c *Client) { _, _ = c.SetData().ForPath(ctx, "/asked", nil) },
	"SetServers":   func(_ context.Context, c *Client) { _ = c.SetServers(strings.Join(c.Servers(), ",")) },
	"Spawn":        func(_ context.Context, c *Client) { c.Spawn(func(context.Context) {}) },
	"State":        func(_ context.Context, c *Client) { c.State() },
	"StateChanges": func(ctx context.Context, c *Client) { c.StateChanges(ctx) },
	"IdempotentTransaction": func(ctx context.Context, c *Client) {
		_, _ = c.IdempotentTransaction(ctx, c.TransactionOp().Create().ForPath("/idempotent", nil))
	},
	"WaitError": func(ctx context.Context, c *Client) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		_ = c.WaitError(ctx, nil)
	},
	"AllMayRead":  func(_ context.Context, c *Client) { c.AllMayRead("/") },
	"FullPath":    func(_ context.Context, c *Client) { _, _ = c.FullPath("/") },
	"MaxFrame":    func(_ context.Context, c *Client) { c.MaxFrame() },
	"Place":       func(_ context.Context, c *Client) { c.Place("/") },
	"ReadsItsOwn": func(_ context.Context, c *Client) { c.ReadsItsOwn("/") },
	"Sync":        func(ctx context.Context, c *Client) { _ = c.Sync().ForPath(ctx, "/") },
	"Transaction": func(ctx context.Context, c *Client) {
		_, _ = c.Transaction(ctx, c.TransactionOp().Check().ForPath("/"))
	},
	"TransactionInBackground": func(ctx context.Context, c *Client) {
		c.TransactionInBackground(ctx, c.TransactionOp().Check().ForPath("/"))
	},
	"TransactionOp":    func(_ context.Context, c *Client) { c.TransactionOp() },
	"Compresses":       func(_ context.Context, c *Client) { c.Compresses() },
	"Unpacked":         func(_ context.Context, c *Client) { c.Unpacked("/", nil) },
	"UnpackedUpTo":     func(_ context.Context, c *Client) { c.UnpackedUpTo("/", nil, 1) },
	"UsingNamespace":   func(_ context.Context, c *Client) { c.UsingNamespace("ns") },
	"UsingRetry":       func(_ context.Context, c *Client) { c.UsingRetry(nil) },
	"WhenStateChanges": func(_ context.Context, c *Client) { c.WhenStateChanges(func() {})() },
	"WaitConnected":    func(ctx context.Context, c *Client) { _ = c.WaitConnected(ctx) },
	"Watches": func(ctx context.Context, c *Client) {
		if w, err := c.Watches().Add().ForPath(ctx, "/"); err == nil {
			w.Stop()
		}
	},
}

// hold1 calls the methods of a session.
func hold1(ctx context.Context, c *Client) {
	s, err := c.Session(ctx)
	if err != nil {
		return
	}
	_, _, _, _, _ = s.Epoch(), s.ID(), s.Timeout(), s.Connections(), s.Ended()()
	_, _ = s.Arm(ctx, 0, []string{"/asked"}, []string{"/none"}).Wait(ctx)
	_ = s.WaitQuorum(ctx)
	if h, err := s.Hold(ctx, HoldOptions{Path: "/asked"}); err == nil {
		h.Remaining()
		h.End(nil)
	}
}

// asker is user code that calls every method of the client, wherever the client calls it.
type asker struct {
	client atomic.Pointer[Client]
	mu     sync.Mutex
	asking int            // asking makes the client call us: guarded by mu
	at     map[string]int // guarded by mu
}

func (a *asker) ask(where string) {
	c := a.client.Load()
	if c == nil || !a.begin(where) {
		return
	}
	for _, call := range everything {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		call(ctx, c)
		cancel()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking--
}

// begin reports whether to ask: not during another call, except for the first two calls at each place.
func (a *asker) begin(where string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking > 0 && a.at[where] >= 2 {
		return false
	}
	a.asking++
	a.at[where]++
	return true
}

func (a *asker) asked(where string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at[where]
}

// Enabled, Handle, WithAttrs and WithGroup implement slog.Handler.
func (a *asker) Enabled(context.Context, slog.Level) bool { return true }
func (a *asker) Handle(_ context.Context, r slog.Record) error {
	// Log lines come all the time, and asking causes more of them.
	if where := "log: " + r.Message; a.asked(where) < 3 {
		a.ask(where)
	}
	return nil
}
func (a *asker) WithAttrs([]slog.Attr) slog.Handler { return a }
func (a *asker) WithGroup(string) slog.Handler      { return a }

func (a *asker) hooks() Hooks {
	return Hooks{
		Operation: func(context.Context, Operation) func(OperationEnd) {
			a.ask("operation")
			return func(OperationEnd) { a.ask("operation ended") }
		},
		Hold: func(ctx context.Context, _ HoldInfo) (context.Context, func(error)) {
			a.ask("hold")
			return ctx, func(error) { a.ask("hold ended") }
		},
		State:     func(StateReport) { a.ask("state") },
		RoundTrip: func(RoundTrip) { a.ask("round trip") },
	}
}

// hang ends the test with all stacks after some real time: a goroutine that waits for a lock stops the clock of a bubble.
func hang(t *testing.T, after time.Duration) {
	timer := time.AfterFunc(after, func() {
		stacks := make([]byte, 1<<20)
		panic(fmt.Sprintf("%s hangs: is a lock held while code of the user's is called?\n%s", t.Name(),
			stacks[:runtime.Stack(stacks, true)]))
	})
	t.Cleanup(func() { timer.Stop() })
}

// The client holds no lock while it calls a log handler, a hook, a dialer, a login, a codec or an ACL provider: they may
// call all its methods.
func TestWhatTheClientCallsMayAskItEverything(t *testing.T) {
	methods := reflect.TypeFor[*Client]()
	for i := range methods.NumMethod() {
		require.NotNil(t, everything[methods.Method(i).Name], "%s is a new method: call it here, too",
			methods.Method(i).Name)
	}
	hang(t, 2*time.Minute)
	synctest.Test(t, func(t *testing.T) {
		a := &asker{at: map[string]int{}}
		srv := zktest.RunT(t, zktest.Config{SASLUsers: map[string]string{"alice": "right"}})
		login := &changing{}
		login.password.Store("right")
		c := dial(t, srv, WithLogger(slog.New(a)), WithHooks(a.hooks()), OnStateChange(func(StateChange) {
			a.ask("OnStateChange")
		}),
			WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				a.ask("dialer")
				return srv.Dial(ctx, network, addr)
			}),
			WithSASL(askingLogin{login, a}), WithCompressionProvider(failingCodec{Gzip{}, func() { a.ask("codec") }}),
			WithACLProvider(func(string) []ACL { a.ask("ACL provider"); return OpenACL() }))
		a.client.Store(c)
		ctx := t.Context()
		back := func() { // asking takes time, in which the session may have ended
			require.NoError(t, c.WaitConnected(ctx))
		}
		back()
		s := connected(t, c)
		_, err := c.Create().WithMode(Ephemeral).Compressed().ForPath(ctx, "/lock", []byte("data"))
		require.NoError(t, err)
		h, err := s.Hold(ctx, HoldOptions{Path: "/lock"})
		require.NoError(t, err)
		_, _ = c.GetData().Decompressed().InBackground().ForPath(ctx, "/lock").Wait(ctx)
		time.Sleep(10 * time.Second)

		srv.Cut(connected(t, c).ID()) // suspended, and back
		time.Sleep(time.Second)
		back()
		<-h.Context().Done()

		srv.Expire(connected(t, c).ID())
		time.Sleep(time.Second)
		back()

		login.password.Store("wrong") // the servers refuse it
		srv.Cut(connected(t, c).ID())
		time.Sleep(time.Minute)
		login.password.Store("right")
		back()

		// An earlier session that cannot be closed.
		old := connected(t, c).ID()
		closing := srv.Inject(zktest.Fault{Session: old, Op: "closeSession", Action: zktest.CutBefore, Times: -1})
		srv.Stop()
		time.Sleep(time.Minute)
		require.NoError(t, srv.Start())
		time.Sleep(3 * time.Minute)
		closing.Remove()
		back()

		time.Sleep(time.Second)
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_ = c.CloseContext(bounded)
		for _, where := range []string{"operation", "operation ended", "hold", "hold ended", "state", "round trip",
			"OnStateChange", "dialer", "login", "codec", "ACL provider",
			"log: cannot close an earlier session of this client; its ephemeral nodes stay until it expires",
			"log: session lost, with all its holds; opening a new session",
			"log: connection lost, session suspended; reconnecting"} {
			assert.Positive(t, a.asked(where), "%s was never called", where)
		}
	})
}

type askingLogin struct {
	*changing
	a *asker
}

func (l askingLogin) Start(ctx context.Context, host string) (SASLLogin, error) {
	l.a.ask("login")
	return l.changing.Start(ctx, host)
}
