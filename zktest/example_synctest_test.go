package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// writeReports is the code under test: it writes a report every ten minutes, for as long as it has the lock.
func writeReports(ctx context.Context, client *framework.Client, write func()) error {
	return mutex.New(client, "/locks/report").Do(ctx, func(ctx context.Context) error {
		for {
			select {
			case <-time.After(10 * time.Minute):
				write()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// testReports is the test TestReports: an hour of work, and then the network fails silently.
func testReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time is virtual in here
		server := zktest.RunT(t)
		client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial),
			framework.WithSessionTimeout(30*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		began, outage, reports := time.Now(), 65*time.Minute, 0
		time.AfterFunc(outage, func() { server.BlackHole(0, zktest.Both) })
		err = writeReports(t.Context(), client, func() { reports++ })
		fmt.Fprintln(t.Output(), reports, "reports")
		fmt.Fprintln(t.Output(), "the session is lost:", errors.Is(err, framework.ErrSessionLost))
		if late := time.Since(began) - outage; late >= 30*time.Second {
			t.Errorf("the work went on for %v: somebody else may have the lock", late)
		}
	})
}

// Your own code, tested with an outage in virtual time. Examples have no testing.T, so this one runs "go test -v -run
// TestReports", and prints the test's output.
func Example_virtualTime() {
	out, err := exec.Command(os.Args[0], "-test.run=^TestReports$", "-test.v").CombinedOutput()
	if err != nil {
		log.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if text, said := strings.CutPrefix(line, "    "); said {
			fmt.Print(text)
		}
	}
	// Output:
	// 6 reports
	// the session is lost: true
}
