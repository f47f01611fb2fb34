package zktest

import (
	"fmt"
	"regexp"
	"slices"
)

// TB is the part of a testing.TB that RunT needs.
type TB interface {
	Helper()
	Cleanup(func())
	Failed() bool
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// traceTail is the number of trace entries that a failed test prints.
const traceTail = 100

// RunT starts a server for a test and closes it when the test ends. A failed test prints the last requests, replies and
// events (of many pings in a row only two), and reports it if no client has connected. Only the first Config counts.
//
// With testing/synctest call it inside the bubble, with the bubble's t. Close the clients before the bubble's
// function returns, or it panics with "deadlock: main bubble goroutine has exited but blocked goroutines
// remain". Call synctest.Wait before you read variables that other goroutines have written: a time.Sleep does
// not order memory accesses for the race detector.
func RunT(t TB, cfg ...Config) *Server {
	t.Helper()
	var c Config
	if len(cfg) > 0 {
		c = cfg[0]
	}
	s, err := NewServer(c)
	if err != nil {
		t.Fatalf("zktest: %v", err)
		return nil
	}
	t.Cleanup(func() {
		s.Close()
		logTrace(t, s.Trace, s)
	})
	return s
}

// RunEnsembleT is [RunT] for an ensemble of size members.
func RunEnsembleT(t TB, size int, cfg ...Config) *Ensemble {
	t.Helper()
	var c Config
	if len(cfg) > 0 {
		c = cfg[0]
	}
	e, err := NewEnsemble(size, c)
	if err != nil {
		t.Fatalf("zktest: %v", err)
		return nil
	}
	t.Cleanup(func() {
		e.Close()
		logTrace(t, e.Trace, e.members...)
	})
	return e
}

// logTrace prints the end of the trace if the test has failed.
func logTrace(t TB, trace func() []string, servers ...*Server) {
	if !t.Failed() {
		return
	}
	if !slices.ContainsFunc(servers, (*Server).hadClient) {
		t.Logf("zktest: no client has connected%s", servers[0].unreachedReason())
	}
	lines := trace()
	t.Logf("zktest: the last of %d trace entries:", len(lines))
	lines = foldPings(lines)
	for _, line := range lines[max(0, len(lines)-traceTail):] {
		t.Logf("%s", line)
	}
}

var isPing = regexp.MustCompile(`^(\[\d+\] )? *[0-9.]+s #\d+ 0x[0-9a-f]+ ping xid=`)

// foldPings keeps two of many pings in a row, the first and the last.
func foldPings(lines []string) (kept []string) {
	for len(lines) > 0 {
		n := 0
		for n < len(lines) && isPing.MatchString(lines[n]) {
			n++
		}
		if n > 3 {
			kept = append(kept, lines[0], fmt.Sprintf("… %d pings …", n-2), lines[n-1])
		} else {
			n = max(n, 1)
			kept = append(kept, lines[:n]...)
		}
		lines = lines[n:]
	}
	return kept
}

// hadClient reports whether any client has ever connected.
func (s *Server) hadClient() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastConn > 0
}

// unreachedReason returns the usual reason: a client without a dialer, which dials the address over the real
// network.
func (s *Server) unreachedReason() string {
	if s.cfg.Listen != "" {
		return " to " + s.Addr()
	}
	return ": " + s.Addr() + " is in memory, and reached only by framework.WithDialer(server.Dial), " +
		"or an ensemble's Dial"
}
