package browser_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
)

// picture makes the test write docs/curator-web.png again; docs/cli.md has the command.
var picture = flag.Bool("picture", false, "write the picture of TestTheProgramsPage to docs/curator-web.png")

// The page of the built program, on a real server, with participants of Java's and of Go: it shows the lines of
// "curator who", in the same order.
func TestTheProgramsPage(t *testing.T) {
	node := zkserver.Start(t, zkserver.Options{})
	curator := kit.BuildProgram(t, node.ConnectString())
	ctx := kit.Context(t)
	java := javapeer.Start(t)
	require.NoError(t, java.Connect(ctx, node.ConnectString(), 30*time.Second))
	stand := func(path string, holds, waits int) {
		t.Helper()
		kit.Soon(t, fmt.Sprintf("%d hold and %d wait at %s", holds, waits, path), func() bool {
			var line kit.Line
			curator.Says(&line, "who", path)
			return len(line.Holders) == holds && len(line.Waiting) == waits
		})
	}
	joins := func(holds, waits int, who, kind, path string, more ...string) {
		t.Helper()
		args := append([]string{kind, path, "--id", who, "--session-timeout", "30s"}, more...)
		curator.Starts(append(args, "--", "sleep", "600")...)
		stand(path, holds, waits)
	}
	candidate, err := java.Selector(ctx, "leader", "/shop/leaders/billing", "billing-java")
	require.NoError(t, err)
	_, err = candidate.AwaitLeader(ctx)
	require.NoError(t, err)
	joins(1, 1, "billing-go", "lead", "/shop/leaders/billing")
	held, err := java.Mutex(ctx, "lock", "/shop/locks/orders/4711")
	require.NoError(t, err)
	_, err = held.Acquire(ctx, javapeer.Forever)
	require.NoError(t, err)
	joins(1, 1, "shipping-1", "lock", "/shop/locks/orders/4711")
	joins(1, 2, "invoices-2", "lock", "/shop/locks/orders/4711")
	joins(1, 0, "labels-1", "permit", "/shop/printers", "--of", "2")
	joins(2, 0, "labels-2", "permit", "/shop/printers", "--of", "2")
	joins(1, 0, "report-1", "lock", "/shop/prices", "--shared")
	joins(2, 0, "report-2", "lock", "/shop/prices", "--shared")
	joins(2, 1, "price-import", "lock", "/shop/prices", "--exclusive")

	v := newViewer(t, 1180, 744)
	v.dark(false)
	v.open(curator.Web("/shop"))
	for i := range 6 { // a line whose grants are seen
		curator.OK("lock", "/shop/locks/till", "--id", fmt.Sprint("till-", i%3+1), "--", "sleep", "0.3")
	}
	joins(1, 0, "till-3", "lock", "/shop/locks/till")
	v.has("billing-java", "billing-go", "price-import", "labels-2", "grants seen")
	paths := []string{"/shop/leaders/billing", "/shop/locks/orders/4711", "/shop/printers", "/shop/prices", "/shop/locks/till"}
	for _, path := range paths {
		var line kit.Line
		curator.Says(&line, "who", path)
		var sessions []string
		for _, p := range append(line.Holders, line.Waiting...) {
			sessions = append(sessions, p.Session)
		}
		v.until("the page agrees with who about "+path, fmt.Sprintf(`[...document.querySelectorAll('.line')].some(l =>
			l.querySelector('h3').textContent === %q &&
			[...l.querySelectorAll('.part .link')].map(e => e.textContent).join() === %q)`, path, strings.Join(sessions, ",")))
	}
	shot := v.shoot("program")
	v.fine()
	if !*picture {
		return
	}
	assert.Less(t, len(shot), 200_000, "bytes of the picture")
	require.NoError(t, os.WriteFile("../../docs/curator-web.png", shot, 0o644))
}
