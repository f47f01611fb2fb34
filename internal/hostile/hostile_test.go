package hostile

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	from        = flag.Uint64("from", 1, "the first seed of the random scripts")
	count       = flag.Uint64("scripts", 0, "how many random scripts; 0: 25, 5 with -short, 200 with CURATOR_TEST_SCHEDULES=all")
	again       = flag.String("script", "", "one script to be played, as a failure prints it at its end")
	withLibrary = flag.Bool("library", false, "also use Client.Conn, whose decoder believes any count")
)

func check(t *testing.T, s script) outcome {
	t.Helper()
	o := play(t, s)
	t.Logf("%v: %d KiB allocated, %d KiB said, lies %02b", s, o.allocated>>10, o.sent>>10, o.untrue)
	for _, v := range o.violations {
		t.Errorf("%s\n%v", v, s)
	}
	return o
}

// TestTheCorpus checks that the fuzzer's first inputs use every trick at least once. With -short each trick is tried on a third of the messages, and
// may be used on none of them.
func TestTheCorpus(t *testing.T) {
	var used [tricks]int
	for i, s := range corpus()[:3*tricks] {
		if testing.Short() && i%3 != i/3%3 {
			continue
		}
		for k, n := range check(t, s).used {
			used[k] += n
		}
	}
	if testing.Short() {
		return
	}
	for k, n := range used {
		if n == 0 {
			t.Errorf("nobody tries %s", trickNames[k])
		}
	}
}

func TestRandomScripts(t *testing.T) {
	n := *count
	switch {
	case n == 0 && os.Getenv("CURATOR_TEST_SCHEDULES") == "all":
		n = 200
	case n == 0:
		if n = 25; testing.Short() {
			n = 5
		}
		t.Logf("figure: %d of 200 random scripts of a hostile server: CURATOR_TEST_SCHEDULES=all plays all", n)
	}
	for i := range n {
		t.Run(fmt.Sprint(*from+i), func(t *testing.T) { check(t, random(*from+i)) })
	}
}

// TestScript plays one script again: go test ./internal/hostile -run TestScript -v -args -script 00ff…
func TestScript(t *testing.T) {
	b, err := hex.DecodeString(*again)
	if err != nil {
		t.Fatal(err)
	}
	check(t, parse(b))
}

func FuzzHostileServer(f *testing.F) {
	if flag.Lookup("test.fuzz").Value.String() != "" { // then TestTheCorpus plays them
		for _, s := range corpus() {
			f.Add(s.bytes())
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) { check(t, parse(b)) })
}
