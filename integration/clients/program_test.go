package clients

import (
	"bufio"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
)

// page returns the lines that curator web shows to a new viewer.
func page(t *testing.T, url string) (lines []kit.Line) {
	t.Helper()
	request, err := http.NewRequestWithContext(kit.Context(t), http.MethodGet, url+"events", nil)
	require.NoError(t, err)
	stream, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer stream.Body.Close()
	messages := bufio.NewScanner(stream.Body)
	messages.Buffer(nil, 1<<20)
	for messages.Scan() {
		var news struct {
			Head  *struct{ Loading int }
			Lines []kit.Line
		}
		message, ok := strings.CutPrefix(messages.Text(), "data: ")
		if !ok {
			continue
		}
		require.NoError(t, json.Unmarshal([]byte(message), &news))
		if news.Head != nil && news.Head.Loading == 0 {
			return news.Lines
		}
	}
	require.FailNow(t, "the stream has ended", "%v", messages.Err())
	return nil
}

// The built program shows lines of Java's, kazoo's and its own contenders on an ensemble as they see them, and so does
// its page.
func TestTheProgramSeesAllLibraries(t *testing.T) {
	t.Parallel()
	node := zkserver.StartEnsemble(t, 3, zkserver.Options{})
	curator := kit.BuildProgram(t, node.ConnectString())
	python := connectKazoo(t, node.ConnectString())
	java := javapeer.Start(t)
	ctx := kit.Context(t)
	require.NoError(t, java.Connect(ctx, node.ConnectString(), 10*time.Second))

	held, err := java.Mutex(ctx, "first", "/locks/mixed")
	require.NoError(t, err)
	first, err := held.Acquire(ctx, javapeer.Forever)
	require.NoError(t, err)
	inLine := func(n int) {
		t.Helper()
		kit.Soon(t, strconv.Itoa(n)+" in line", func() bool {
			seen, err := java.Participants(ctx, "/locks/mixed")
			require.NoError(t, err)
			return len(seen) == n
		})
	}
	python.must(t, "lock", with{"name": "k", "path": "/locks/mixed", "layout": "curator"})
	waits := python.begin("acquire", with{"name": "k"})
	inLine(2)
	ran := filepath.Join(t.TempDir(), "ran")
	last := curator.Starts("lock", "/locks/mixed", "--id", "program", "--", "touch", ran)
	inLine(3)

	var line kit.Line
	assert.Zero(t, curator.Says(&line, "who", "/locks/mixed"))
	assert.Equal(t, "mutex", line.Kind)
	require.Len(t, line.Holders, 1)
	require.Len(t, line.Waiting, 2)
	id, err := java.SessionID(ctx)
	require.NoError(t, err)
	assert.Equal(t, "/locks/mixed/"+first, line.Holders[0].Node)
	assert.Equal(t, "0x"+strconv.FormatInt(id, 16), line.Holders[0].Session)
	id, err = strconv.ParseInt(python.must(t, "session", nil).(string), 10, 64)
	require.NoError(t, err)
	assert.Equal(t, "0x"+strconv.FormatInt(id, 16), line.Waiting[0].Session)
	assert.Equal(t, "program", line.Waiting[1].Data)
	for i, p := range append(line.Holders, line.Waiting...) {
		assert.Equal(t, []string{"java", "kazoo", "go"}[i], p.Library)
		assert.Contains(t, p.Client, "127.0.0.1:", "the server tells the address")
	}

	var locks struct{ Lines []kit.Line }
	assert.Zero(t, curator.Says(&locks, "locks", "/"))
	assert.Equal(t, []kit.Line{line}, locks.Lines)
	var why struct {
		Chains   [][]struct{ Waiter, Ahead struct{ Session string } }
		Findings []any
		Unknown  string `json:"connectionsUnknown"`
	}
	assert.Zero(t, curator.Says(&why, "why", "/locks/mixed"))
	assert.Empty(t, why.Findings)
	assert.Empty(t, why.Unknown)
	require.Len(t, why.Chains, 1)
	assert.Equal(t, line.Holders[0].Session, why.Chains[0][0].Ahead.Session)
	code, text, _ := curator.Runs("", "who", "/locks/mixed")
	assert.Zero(t, code)
	assert.Equal(t, 3, strings.Count(text, "lock-"), text)

	shown := page(t, curator.Web("/locks"))
	require.Len(t, shown, 1)
	for i, p := range append(shown[0].Holders, shown[0].Waiting...) {
		seen := append(line.Holders, line.Waiting...)[i]
		assert.Equal(t, []string{seen.Session, seen.Library, seen.Data}, []string{p.Session, p.Library, p.Data})
	}

	require.NoError(t, held.Release(ctx))
	_, err = waits(ctx)
	require.NoError(t, err)
	assert.NoFileExists(t, ran)
	python.must(t, "release", with{"name": "k"})
	require.NoError(t, last.Err())
	assert.FileExists(t, ran)
	line = kit.Line{}
	assert.Zero(t, curator.Says(&line, "who", "/locks/mixed"))
	assert.Empty(t, line.Holders)
	python.must(t, "close", nil)
}

// doctor reports the state of a real server; why names a holder whose process is stopped, before its session expires.
func TestTheProgramLooksAtARealServer(t *testing.T) {
	t.Parallel()
	node := zkserver.Start(t, zkserver.Options{TickTime: 2 * time.Second})
	curator := kit.BuildProgram(t, node.ConnectString())
	var report struct {
		Servers []struct {
			Role, Version           string
			TickTimeMs              int
			MaxSessionTimeoutMs     int
			MaxClientCnxns, Clients int
		}
		SessionTimeoutMs int
		Advice           []string
		ClockAheadMs     *float64
		ACL              []string
	}
	assert.Equal(t, 1, curator.Says(&report, "doctor", "--probe", "/"))
	require.Len(t, report.Servers, 1)
	server := report.Servers[0]
	assert.Equal(t, "standalone", server.Role)
	assert.Contains(t, server.Version, "3.")
	assert.Equal(t, 2000, server.TickTimeMs)
	assert.Equal(t, 40_000, server.MaxSessionTimeoutMs)
	assert.Equal(t, 30_000, report.SessionTimeoutMs)
	assert.Equal(t, []string{"world:anyone:cdrwa"}, report.ACL)
	require.NotNil(t, report.ClockAheadMs)
	assert.Less(t, max(*report.ClockAheadMs, -*report.ClockAheadMs), 10_000.0, "it is this machine's clock")
	require.Len(t, report.Advice, 1)
	assert.Contains(t, report.Advice[0], "the server is standalone")

	holder := curator.Starts("lock", "/locks/a", "--session-timeout", "30s", "--", "sleep", "600")
	stands := func(n int) {
		kit.Soon(t, "in line", func() bool {
			var line kit.Line
			curator.Says(&line, "who", "/locks/a")
			return len(line.Holders)+len(line.Waiting) == n
		})
	}
	stands(1)
	curator.Starts("lock", "/locks/a", "--", "sleep", "600")
	stands(2)
	require.NoError(t, holder.Signal(syscall.SIGSTOP))
	kit.Soon(t, "the holder is silent", func() bool {
		var why struct {
			Findings []struct{ Trouble, Text string }
		}
		if curator.Says(&why, "why", "/locks/a") == 0 {
			return false
		}
		require.Len(t, why.Findings, 1)
		assert.Equal(t, "silent", why.Findings[0].Trouble)
		assert.Contains(t, why.Findings[0].Text, "and expires after 30s")
		return true
	})
}
