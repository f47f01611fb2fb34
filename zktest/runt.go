package zktest

// TB is the part of a testing.TB that RunT needs.
type TB interface {
	Helper()
	Cleanup(func())
	Failed() bool
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// traceTail is how much of the trace a failed test prints.
const traceTail = 100

// RunT starts a server for a test and closes it when the test ends. A failed test prints the last requests,
// replies and events. Only the first Config counts. With testing/synctest call it inside the bubble, with the
// bubble's t.
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
		logTrace(t, s.Trace)
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
		logTrace(t, e.Trace)
	})
	return e
}

// logTrace prints the end of the trace if the test has failed.
func logTrace(t TB, trace func() []string) {
	if !t.Failed() {
		return
	}
	lines := trace()
	t.Logf("zktest: the last of %d trace entries:", len(lines))
	for _, line := range lines[max(0, len(lines)-traceTail):] {
		t.Logf("%s", line)
	}
}
