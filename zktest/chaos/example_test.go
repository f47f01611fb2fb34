package chaos_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest/chaos"
)

// service is the tested service, with its conditions.
type service struct {
	careless bool
	right    *chaos.Right    // one replica at a time may have it
	exports  *chaos.Progress // continues after the faults
}

// export renders for twenty seconds under a lock, and then publishes. A careless one does not check in between whether
// it still holds the lock.
func (s service) export(p *chaos.Process, m *mutex.Mutex) error {
	lock, err := m.Acquire(p.Context())
	if err != nil {
		return err
	}
	defer lock.ReleaseInBackground()
	grant := s.right.Granted(p, lock.Context())
	defer grant.Done()
	time.Sleep(20 * time.Second)
	if !s.careless && !lock.Valid() {
		return errors.New("the lock was lost")
	}
	grant.Use("publish")
	s.exports.Made(p)
	return nil
}

// exporters starts three replicas of the service.
func exporters(careless bool) func(w *chaos.World) {
	return func(w *chaos.World) {
		s := service{careless, w.Exclusive("export"), w.Progress("exports")}
		for range 3 {
			w.Start("replica", func(p *chaos.Process) {
				client, err := framework.New(w.ConnectString(), framework.WithDialer(p.Dial),
					framework.WithSessionTimeout(w.SessionTimeout()))
				if err != nil {
					w.Errorf("%v", err)
					return
				}
				defer client.Close()
				m := mutex.New(client, "/locks/export")
				for p.Context().Err() == nil {
					if s.export(p, m) != nil {
						time.Sleep(time.Second)
					}
				}
			})
		}
	}
}

// testExporters is the service's test, TestExporters: ten schedules of faults.
func testExporters(t *testing.T) {
	chaos.Test(t, exporters(false), chaos.Config{Count: 10})
	if !t.Failed() {
		fmt.Fprintln(t.Output(), "no two have published at a time")
	}
}

// testCarelessExporters looks for a schedule in which the mistake is seen. It does not shrink the schedule, which takes
// a while.
func testCarelessExporters(t *testing.T) {
	failure := chaos.Find(t, exporters(true), chaos.Config{Count: 1000, Shrink: -1})
	if failure != nil {
		fmt.Fprintln(t.Output(), "violated:", failure.Violation.Check)
	}
}

// A service through schedules of faults. Examples have no testing.T, so this one runs "go test -v -run Exporters", and
// prints the tests' output.
func ExampleTest() {
	out, err := exec.Command(os.Args[0], "-test.run=Exporters$", "-test.v").CombinedOutput()
	if err != nil {
		log.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		switch text := strings.TrimSpace(line); {
		case strings.HasPrefix(text, "no two "), strings.HasPrefix(text, "violated:"):
			fmt.Println(text)
		}
	}
	// Output:
	// no two have published at a time
	// violated: export
}
