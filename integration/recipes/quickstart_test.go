package recipes

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/child"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/mutex"
)

var (
	grantLine  = regexp.MustCompile(`^\s*([0-9.]+)s  grant\s+(\d+): worker (\d+), fencing token (\d+), waited`)
	unplugLine = regexp.MustCompile(`^\s*worker (\d+) holds the lock and is unplugged`)
	stopLine   = regexp.MustCompile(`^\s*worker (\d+) stops, (\S+) later: (.*)$`)
)

// shift is a time for which somebody had the lock, on the clock of this process.
type shift struct {
	who      string
	token    int64
	from, to time.Time
}

// The quickstart on a real server, with a Java program taking part at the same path at the same time.
func TestQuickstartWithJava(t *testing.T) {
	t.Parallel()
	const workers, rounds = 4, 5
	const path = "/examples/quickstart"
	program := filepath.Join(t.TempDir(), "quickstart")
	build := exec.Command("go", "build", "-o", program, "./examples/quickstart")
	build.Dir = "../.."
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)

	node := zkserver.Start(t, zkserver.Options{TickTime: tick})
	ctx := kit.Context(t)
	observer, _ := kit.Connected(t, node.ConnectString())
	m := mutex.New(observer, path)
	_, lock := javaLock(t, node.ConnectString(), path, 4*time.Second)

	cmd := exec.Command(program, "-servers", node.Addr(), "-path", path, "-workers", strconv.Itoa(workers),
		"-rounds", strconv.Itoa(rounds))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	// Java takes part until the program has ended.
	var spans []shift
	var together int
	ended := make(chan struct{})
	javaDone := make(chan struct{})
	go func() {
		defer close(javaDone)
		for {
			select {
			case <-ended:
				return
			default:
			}
			name, err := lock.Acquire(ctx, javapeer.Forever)
			if !assert.NoError(t, err) {
				return
			}
			s := shift{who: "java", from: time.Now()}
			stat, err := observer.CheckExists().ForPath(ctx, path+"/"+name)
			if assert.NoError(t, err) && assert.NotNil(t, stat) {
				s.token = stat.Czxid
			}
			line, err := m.Participants(ctx)
			assert.NoError(t, err)
			theirs, err := lock.Participants(ctx)
			assert.NoError(t, err)
			if assert.NotEmpty(t, line) {
				assert.Equal(t, name, line[0].Name)
			}
			if len(line) > 1 && slices.Contains(theirs, line[1].Name) &&
				strings.HasPrefix(string(line[1].Data), "worker ") {
				together++
			}
			time.Sleep(20 * time.Millisecond)
			s.to = time.Now()
			if !assert.NoError(t, lock.Release(ctx)) {
				return
			}
			spans = append(spans, s)
		}
	}()
	process, err := child.Start(cmd)
	require.NoError(t, err)

	// The program's clock, by the line that took the shortest time to get here.
	type grant struct {
		at           time.Duration
		worker, last string // the last is how long an unplugged one holds
		token        int64
	}
	var grants []grant
	var began time.Time
	var lines []string
	for scan := bufio.NewScanner(out); scan.Scan(); {
		now, line := time.Now(), scan.Text()
		lines = append(lines, line)
		if f := grantLine.FindStringSubmatch(line); f != nil {
			seconds, err := strconv.ParseFloat(f[1], 64)
			require.NoError(t, err)
			token, err := strconv.ParseInt(f[4], 10, 64)
			require.NoError(t, err)
			at := time.Duration(seconds * float64(time.Second))
			if start := now.Add(-at); began.IsZero() || start.Before(began) {
				began = start
			}
			grants = append(grants, grant{at: at, worker: f[3], token: token})
		} else if f := stopLine.FindStringSubmatch(line); f != nil {
			require.NotEmpty(t, grants)
			grants[len(grants)-1].last = f[2]
			assert.Equal(t, grants[len(grants)-1].worker, f[1])
			assert.Contains(t, f[3], "session lost")
		}
	}
	exit := process.Err()
	close(ended)
	<-javaDone
	for _, line := range lines {
		t.Log(line)
	}
	require.NoError(t, exit, complaints.String())
	require.NotEmpty(t, lines)
	assert.Equal(t, fmt.Sprintf("quickstart: %d grants to %d workers, never two at once", workers*rounds,
		workers), lines[len(lines)-1])
	assert.Len(t, grants, workers*rounds)
	assert.True(t, slices.ContainsFunc(lines, unplugLine.MatchString), "one is unplugged")

	java := len(spans)
	for _, g := range grants {
		work := 25 * time.Millisecond // it is 30, less what the clocks may differ by
		if g.last != "" {
			lasted, err := time.ParseDuration(g.last)
			require.NoError(t, err)
			work = lasted - 10*time.Millisecond
		}
		from := began.Add(g.at)
		spans = append(spans, shift{"worker " + g.worker, g.token, from, from.Add(work)})
	}
	slices.SortFunc(spans, func(a, b shift) int { return a.from.Compare(b.from) })
	for i, next := range spans[1:] {
		assert.Greater(t, next.from.Sub(spans[i].to), -5*time.Millisecond, "%s holds while %s does", next.who,
			spans[i].who)
		assert.Greater(t, next.token, spans[i].token, "%s after %s: the order of the line", next.who, spans[i].who)
	}
	kit.Figure(t, "%d turns of Java among %d of the quickstart; %d times both were in the line that both saw",
		java, len(grants), together)
	assert.GreaterOrEqual(t, java, rounds-2)
	assert.Positive(t, together)
}
