package recipetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
	"github.com/go-curator/curator/zktest"
)

// said checks the texts that a client logs or returns, and reports those that must not reach a terminal.
type said struct {
	t  *testing.T
	mu sync.Mutex
	n  int // texts in which something was escaped
}

func (s *said) text(what, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.True(s.t, utf8.ValidString(text), "%s: %q", what, text)
	for _, r := range text {
		if !strconv.IsPrint(r) {
			assert.Fail(s.t, "not printable", "%s: %q", what, text)
			break
		}
	}
	if strings.Contains(text, `\u202e`) {
		s.n++
	}
}

func (s *said) error(what string, err error) {
	var op *framework.OpError
	if err != nil {
		s.text(what, err.Error())
	}
	if errors.As(err, &op) {
		s.text(what, op.Error())
	}
}

// Handle implements slog.Handler, with WithAttrs and the others. It gets the same records as any other handler.
func (s *said) Handle(_ context.Context, r slog.Record) error {
	s.text("log", r.Message)
	r.Attrs(func(a slog.Attr) bool {
		s.text("log "+r.Message+" "+a.Key, a.Value.String())
		return true
	})
	return nil
}
func (s *said) Enabled(context.Context, slog.Level) bool { return true }
func (s *said) WithGroup(string) slog.Handler            { return s }
func (s *said) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		s.text("log "+a.Key, a.Value.String())
	}
	return s
}

// Texts that another client may have put into a name: legal for a server, or refused by each honest server.
const (
	legal   = "\u202egnp.exe\u2066\u200b"
	marker  = "XxEvilxX"
	illegal = "\x1b[\u202e\xff\x7f\n" // as long as the marker
)

// hostileConn is a connection to a server that sends the illegal text instead of the marker.
type hostileConn struct{ net.Conn }

func (c hostileConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	copy(b, bytes.ReplaceAll(b[:n], []byte(marker), []byte(illegal)))
	return n, err
}

func (c hostileConn) Write(b []byte) (int, error) {
	return c.Conn.Write(bytes.ReplaceAll(b, []byte(illegal), []byte(marker)))
}

// Whatever other clients have written into names and data, errors, log lines and String contain only printable characters.
func TestWhatOthersHaveWrittenIsPrintable(t *testing.T) {
	require.Len(t, illegal, len(marker))
	for name, evil := range map[string]string{"legal names": legal, "a hostile server": marker} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, s := zktest.RunT(t), &said{t: t}
				data := []byte("\x1b[2J\u009b\u202e\xff" + evil)
				for _, node := range []string{
					"/mutex/%slock-0000000000", "/rw/%s__WRIT__0000000000", "/sem/leases/%slease-0000000000",
					"/sem/locks/%slock-0000000000", "/latch/%slatch-0000000000", "/tree/%s",
					"/deep/%s", "/deep/%s/kid",
				} {
					require.NoError(t, srv.Create(fmt.Sprintf(node, evil), data))
				}
				require.NoError(t, srv.SetACL("/tree/"+evil, zktest.ACL{Perms: 2, Scheme: "world", ID: "anyone"}))
				require.NoError(t, srv.SetACL("/deep/"+evil, zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
				dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := srv.Dial(ctx, network, addr)
					return hostileConn{conn}, err
				}
				c, err := framework.New(srv.Addr(), framework.WithDialer(dial), framework.WithLogger(slog.New(s)),
					framework.WithSessionTimeout(10*time.Second))
				require.NoError(t, err)
				defer func() { _ = c.Close() }()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				soon := func() context.Context {
					ctx, cancel := context.WithTimeout(ctx, time.Second)
					t.Cleanup(cancel)
					return ctx
				}
				try := func(what string, f func() error) { s.error(what, f()) }

				m := mutex.New(c, "/mutex")
				try("participants", func() error { _, err := m.Participants(ctx); return err })
				try("holder", func() error { _, _, err := m.Holder(ctx); return err })
				try("try", func() error { _, err := m.TryAcquire(ctx); require.Error(t, err); return err })
				try("wait", func() error { _, err := m.Acquire(soon()); require.Error(t, err); return err })
				rw := rwlock.New(c, "/rw")
				try("rw participants", func() error { _, err := rw.Participants(ctx); return err })
				try("rw try", func() error { _, err := rw.ReadLock().TryAcquire(ctx); return err })
				try("rw wait", func() error { _, err := rw.WriteLock().Acquire(soon()); return err })
				sem := semaphore.New(c, "/sem", 1)
				try("sem participants", func() error { _, err := sem.Participants(ctx); return err })
				try("sem waiting", func() error { _, err := sem.Waiting(ctx); return err })
				try("sem try", func() error { _, err := sem.TryAcquire(ctx, 1); require.Error(t, err); return err })
				try("sem wait", func() error { _, err := sem.Acquire(soon(), 1); return err })
				latch, err := leader.NewLatch(c, "/latch")
				require.NoError(t, err)
				try("latch participants", func() error { _, err := latch.Participants(ctx); return err })
				for o, err := range leader.Observe(soon(), c, "/latch") {
					s.text("observation", o.String())
					s.error("observe", err)
					break
				}
				for _, err := range tree.Walk(c).ForPath(ctx, "/") {
					s.error("walk", err)
				}
				try("delete", func() error { return c.Delete().DeletingChildrenIfNeeded().ForPath(ctx, "/deep") })
				try("dump", func() error {
					_, err := tree.Dump(c).ForPath(ctx, "/tree", &bytes.Buffer{})
					require.Error(t, err)
					return err
				})
				var own []string
				own, err = c.GetChildren().ForPath(ctx, "/tree")
				require.NoError(t, err)
				require.Len(t, own, 1)
				try("get", func() error {
					_, err := c.GetData().ForPath(ctx, "/tree/"+own[0])
					require.Error(t, err)
					return err
				})
				try("create", func() error {
					_, err := c.Create().ForPath(ctx, "/none/"+own[0]+"/x", nil)
					require.Error(t, err)
					return err
				})

				copy, err := cache.New(c, "/", cache.WithDecoder(func(path string, data []byte) ([]byte, error) {
					if strings.HasPrefix(path, "/mutex/") {
						return nil, fmt.Errorf("cannot decode %s of %s", data, path)
					}
					return data, nil
				}))
				require.NoError(t, err)
				require.NoError(t, copy.WaitSynced(ctx))
				for ev, err := range copy.Events(soon()) {
					s.text("event", ev.String())
					s.error("events", err)
				}
				failures := 0
				for _, err := range copy.Failures() {
					s.error("failure", err)
					failures++
				}
				assert.NotZero(t, failures)
				require.NoError(t, copy.Close())
				for _, line := range srv.Trace() {
					s.text("trace", line)
				}
				s.text("health", c.Health().String())
				assert.Greater(t, s.n, 10, "it was there")
			})
		})
	}
}

// evilLogin is a SASL mechanism whose error repeats the server's text.
type evilLogin struct{}

func (evilLogin) Name() string { return "EVIL" }
func (l evilLogin) Start(context.Context, string) (framework.SASLLogin, error) {
	return l, nil
}
func (evilLogin) Step([]byte) ([]byte, bool, error) {
	return nil, false, errors.New("the server says \x1b[2J\u202e\nok")
}

// The same holds for texts from before the session: of addresses, name servers, mechanisms.
func TestWhatTheWayToTheServerSaysIsPrintable(t *testing.T) {
	for name, opts := range map[string][]framework.Option{
		"dialing": {framework.WithDialer(func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no such host \x1b]0;\u202e\n\xff")
		})},
		"login": {framework.WithSASL(evilLogin{})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, s := zktest.RunT(t), &said{t: t}
				opts := append([]framework.Option{framework.WithDialer(srv.Dial), framework.WithLogger(slog.New(s)),
					framework.WithConnectionTimeout(time.Second)}, opts...)
				c, err := framework.New(srv.Addr(), opts...)
				require.NoError(t, err)
				defer func() { _ = c.Close() }()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				s.error("wait", c.WaitConnected(ctx))
				_, err = c.GetData().ForPath(t.Context(), "/a")
				require.Error(t, err)
				s.error("get", err)
				_, err = mutex.New(c, "/m").Acquire(t.Context())
				require.Error(t, err)
				s.error("acquire", err)
				h := c.Health()
				s.text("health", h.String())
				s.error("health", h.Check(0))
				assert.Greater(t, s.n, 3, "it was there")
			})
		})
	}
}
