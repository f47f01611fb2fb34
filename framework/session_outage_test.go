package framework

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestOutage(t *testing.T) {
	type attempt struct {
		at             time.Duration
		server, reason string
		told           bool
	}
	every := func(n int, pause time.Duration, told map[int]bool, reason func(i int) string) (as []attempt) {
		for i := range n {
			as = append(as, attempt{time.Duration(i) * pause, "a", reason(i), told[i]})
		}
		return as
	}
	refused := func(int) string { return "refused" }
	for name, attempts := range map[string][]attempt{
		"reminders": every(
			3000, time.Second,
			map[int]bool{0: true, 60: true, 180: true, 420: true, 900: true, 1860: true, 2820: true}, refused,
		),
		"each change": {
			{0, "a", "refused", true}, {1, "a", "reset", true}, {2, "a", "refused", true}, {3, "a", "refused", false},
		},
		"one reason of all servers": {
			{0, "a", "refused", true}, {1, "b", "refused", false}, {2, "c", "refused", false},
			{3, "a", "refused", false},
		},
		"each server has its own": {{0, "a", "refused", true}, {1, "b", "silent", true}, {2, "c", "unknown", true},
			{3, "a", "refused", false}, {4, "b", "silent", false}, {5, "c", "unknown", false},
			{6, "b", "unknown", true}},
		"changes that do not end": every(75, time.Second,
			map[int]bool{
				0: true, 1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true, 8: true, 9: true, 10: true,
				60: true, 61: true, 62: true, 63: true, 64: true, 65: true, 66: true, 67: true, 68: true, 69: true,
				70: true},
			func(i int) string { return []string{"refused", "reset"}[i%2] }),
	} {
		t.Run(name, func(t *testing.T) {
			var o connectionOutage
			began := time.Now()
			for i, a := range attempts {
				assert.Equal(t, a.told, o.recordAttempt(began.Add(a.at), a.server, a.reason), "attempt %d at %v", i, a.at)
			}
			assert.Equal(t, len(attempts), o.attempts)
			assert.Equal(t, time.Hour, o.endOutage(began.Add(time.Hour)))
			assert.True(t, o.recordAttempt(began, "a", "refused"), "a new one")
		})
	}
	var o connectionOutage
	assert.Zero(t, o.endOutage(time.Now()), "there was none")
}

func TestReasonOf(t *testing.T) {
	same := func(a, b string) bool {
		return failureReason("left.example:2181", errors.New(a)) == failureReason("right.example:2181", errors.New(b))
	}
	assert.True(
		t,
		same(
			"dial tcp 10.0.0.1:2181: connect: connection refused",
			"dial tcp 10.0.0.2:2181: connect: connection refused",
		),
	)
	assert.True(
		t, same("read tcp 10.1.1.1:34567->10.0.0.1:2181: reset", "read tcp 10.1.1.1:34568->10.0.0.2:2181: reset"),
	)
	assert.True(t, same("no answer from the server for 999ms", "no answer from the server for 1.01s"))
	assert.True(t, same("lookup left.example: no such host", "lookup right.example: no such host"))
	assert.False(t, same("connection refused", "connection reset"))
	assert.Empty(t, failureReason("zk1:2181", nil))
}

// records keeps log lines from a level on: the time since the beginning, the level, the message, and the attributes.
type records struct {
	mu    sync.Mutex
	began time.Time
	buf   bytes.Buffer
}

func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(b)
}

// logging returns a logger, and a function that returns the lines since its last call.
func logging(level slog.Level) (*slog.Logger, func() []string) {
	r := &records{began: time.Now()}
	replace := func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey:
			return slog.String("at", time.Since(r.began).Round(10*time.Millisecond).String())
		case "session":
			return slog.Attr{}
		}
		return a
	}
	h := slog.NewTextHandler(r, &slog.HandlerOptions{Level: level, ReplaceAttr: replace})
	return slog.New(h), func() []string {
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		text := strings.TrimSpace(r.buf.String())
		r.buf.Reset()
		if text == "" {
			return nil
		}
		return strings.Split(text, "\n")
	}
}

func containing(lines []string, words ...string) (found []string) {
lines:
	for _, line := range lines {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		found = append(found, line)
	}
	return found
}

// A client that cannot connect logs that once, and again when the reason changes. At the end of the outage it logs how long
// it took. Each attempt is logged once at DEBUG.
func TestAnOutageIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		srv.Stop()
		var fault error
		var mu sync.Mutex
		var attempts int
		dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			if attempts++; fault != nil {
				return nil, fault
			}
			return srv.Dial(ctx, network, addr)
		}
		log, take := logging(slog.LevelDebug)
		c := dial(t, srv, WithLogger(log), WithDialer(dialer))
		time.Sleep(50 * time.Second)
		lines := take()
		failures := containing(lines, "connect", "refused")
		assert.Len(t, containing(failures, "level=DEBUG"), attempts, "each attempt once")
		require.Len(t, containing(lines, "level=WARN"), 1, "%v", lines)
		assert.Contains(t, containing(lines, "level=WARN")[0], `msg="cannot connect; retrying"`)

		mu.Lock()
		fault = errors.New("no route to host")
		mu.Unlock()
		time.Sleep(2 * time.Hour)
		warned := containing(take(), "level=WARN")
		assert.Contains(t, warned[0], "no route to host")
		assert.Greater(t, len(warned), 5, "reminders")
		assert.Less(t, len(warned), 15, "but rare ones")
		assert.Contains(t, warned[len(warned)-1], "attempts=")

		mu.Lock()
		fault = nil
		mu.Unlock()
		require.NoError(t, srv.Start())
		time.Sleep(10 * time.Second)
		lines = containing(take(), "level=INFO", "msg=connected")
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], "away=2h0m5")

		srv.Stop()
		time.Sleep(3 * time.Second)
		warned = containing(take(), "level=WARN")
		require.Len(t, warned, 2)
		assert.Contains(t, warned[0], `msg="connection lost, session suspended; reconnecting"`)
		assert.Contains(t, warned[1], "refused")
		require.NoError(t, srv.Start())
		require.NoError(t, c.WaitConnected(t.Context()))
		lines = take()
		require.Len(t, containing(lines, "level=INFO", "msg=connected", "away="), 1)
		require.NoError(t, c.Close())
		assert.Empty(t, containing(take(), "level=WARN"))
	})
}

// The close of a client is not logged as a loss.
func TestACleanCloseIsNoWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		log, take := logging(slog.LevelDebug)
		c := dial(t, srv, WithLogger(log))
		connected(t, c)
		require.NoError(t, c.Close())
		lines := take()
		assert.Empty(t, containing(lines, "level=WARN"))
		assert.Empty(t, containing(lines, "session lost"))
		assert.Len(t, containing(lines, "level=INFO", `msg="client closed"`), 1)
		assert.Empty(t, containing(lines, "msg=connected", "away="), "the first attempt connected")
	})
}

// A refused login is logged as an error, and no more often than any other failure.
func TestARefusedLoginIsToldRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		log, take := logging(slog.LevelInfo)
		dial(t, srv, WithLogger(log), WithAuth("nosuchscheme", nil))
		time.Sleep(time.Hour)
		lines := take()
		failed := containing(lines, "level=ERROR", "nosuchscheme")
		assert.Greater(t, len(failed), 3)
		assert.Less(t, len(failed), 10)
		assert.Equal(t, lines, failed, "and nothing else")
	})
}

// A timeout that was requested and not granted is logged: everything that depends on it is shorter.
func TestACutTimeoutIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		log, take := logging(slog.LevelWarn)
		c := dial(t, srv, WithLogger(log), WithSessionTimeout(10*time.Minute))
		connected(t, c)
		lines := take()
		require.Len(t, lines, 1)
		assert.Contains(t, lines[0], "asked=10m0s")
		assert.Contains(t, lines[0], "granted=40s")
		srv.Cut(0)
		time.Sleep(time.Second)
		require.Len(t, containing(take(), "asked"), 0, "once")

		log, take = logging(slog.LevelWarn)
		c, err := New(srv.Addr(), WithDialer(srv.Dial), WithLogger(log))
		require.NoError(t, err)
		defer c.Close()
		connected(t, c)
		assert.Empty(t, take(), "nobody has asked for the default")
	})
}
