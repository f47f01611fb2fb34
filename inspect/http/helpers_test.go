package inspecthttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	inspecthttp "github.com/go-curator/curator/inspect/http"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

func newClient(t *testing.T, s *zktest.Server, opts ...framework.Option) *framework.Client {
	t.Helper()
	c, err := framework.New(s.Addr(), append([]framework.Option{framework.WithDialer(s.Dial)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.WaitConnected(t.Context()))
	synctest.Wait()
	return c
}

func newPage(t *testing.T, c *framework.Client, root string, opts ...inspecthttp.Option) *inspecthttp.Page {
	t.Helper()
	p, err := inspecthttp.New(c, root, opts...)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// The page's messages, as a viewer decodes them.
type (
	news struct {
		Now    int64
		Whole  bool
		Config *struct {
			Root   string
			Delete bool
			Token  string
		}
		Head   *head
		Client *client
		Lines  []line
		Gone   []int
	}
	head struct {
		Loading, Lines, Unsent, Held, Waiting, UnreadableCount int
		Problem, Stopped, Untold                               string
		Unreadable                                             []string
		Circles                                                []struct{ Edges []struct{ Path string } }
	}
	client struct {
		State, Session, Trouble, Rule string
		Fine                          bool
		Since, Away, Steady           int64
		Holds                         int
		Margins                       []int64
		Changes                       []struct{ State, Why string }
	}
	line struct {
		ID, Held, Waits, Foreign int
		Path, Kind               string
		Holders, Waiting         []participant
		Names, Notes             []string
		Free                     int64
		Grants                   []struct {
			Who    participant
			Seen   int64
			Before bool
			Ended  int64
		}
	}
	participant struct {
		Key, Name, Session, Data, Error, Library string
		Length                                   int
		Since, Heard                             int64
		Revoked, Away                            bool
	}
)

// viewer is a client of the page, with a response whose reader may be slow. It applies the messages.
type viewer struct {
	t      *testing.T
	header http.Header
	end    context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	status   int
	body     bytes.Buffer // the part after the last empty line
	messages []int        // their lengths
	lines    map[int]line
	config   news
	head     *head
	client   *client
	stalled  chan struct{} // while it is not nil, writes wait for it
}

func (v *viewer) Header() http.Header    { return v.header }
func (v *viewer) WriteHeader(status int) { v.mu.Lock(); v.status = status; v.mu.Unlock() }
func (v *viewer) Flush()                 {}

func (v *viewer) Write(b []byte) (int, error) {
	v.mu.Lock()
	stalled := v.stalled
	v.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.body.Write(b)
	for {
		message, rest, whole := strings.Cut(v.body.String(), "\n\n")
		if !whole {
			return len(b), nil
		}
		v.take(message)
		v.body.Reset()
		v.body.WriteString(rest)
	}
}

func (v *viewer) take(message string) {
	var n news
	text, isData := strings.CutPrefix(message, "data: ")
	assert.True(v.t, isData, "%.100q", message)
	assert.NotContains(v.t, text, "\n")
	if !assert.NoError(v.t, json.Unmarshal([]byte(text), &n)) {
		return
	}
	v.messages = append(v.messages, len(message))
	if n.Config != nil {
		v.config = n
	}
	if n.Whole {
		v.lines, v.head = map[int]line{}, nil
	}
	if n.Head != nil {
		v.head = n.Head
	}
	if n.Client != nil {
		v.client = n.Client
	}
	for _, l := range n.Lines {
		v.lines[l.ID] = l
	}
	for _, id := range n.Gone {
		assert.Contains(v.t, v.lines, id, "what is gone was there")
		delete(v.lines, id)
	}
}

// look opens a page; the end of the test closes it.
func look(t *testing.T, p http.Handler) *viewer {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	v := &viewer{t: t, header: http.Header{}, end: cancel, done: make(chan struct{}), lines: map[int]line{}}
	go func() {
		defer close(v.done)
		p.ServeHTTP(v, httptest.NewRequestWithContext(ctx, http.MethodGet, "/debug/curator/events", nil))
	}()
	t.Cleanup(v.leave)
	v.settle()
	return v
}

func (v *viewer) leave() { v.end(); <-v.done }

// settle waits until there are no more messages, except the client's health, which is sent each second.
func (v *viewer) settle() {
	time.Sleep(2500 * time.Millisecond)
	synctest.Wait()
}

func (v *viewer) stall() (release func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	stalled := make(chan struct{})
	v.stalled = stalled
	return sync.OnceFunc(func() {
		v.mu.Lock()
		v.stalled = nil
		v.mu.Unlock()
		close(stalled)
	})
}

func (v *viewer) count() int { v.mu.Lock(); defer v.mu.Unlock(); return len(v.messages) }

func (v *viewer) line(path string) line {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, l := range v.lines {
		if l.Path == path {
			return l
		}
	}
	require.FailNow(v.t, "no line "+path, "%+v", v.lines)
	return line{}
}

func (v *viewer) top() head {
	v.mu.Lock()
	defer v.mu.Unlock()
	require.NotNil(v.t, v.head)
	return *v.head
}
func (v *viewer) health() client { v.mu.Lock(); defer v.mu.Unlock(); return *v.client }

func (v *viewer) texts(of []participant) (texts []string) {
	for _, p := range of {
		texts = append(texts, p.Data)
	}
	return texts
}

const name = "_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-lock-000000000"

// stand creates a participant's node.
func stand(t *testing.T, c *framework.Client, path, data string) {
	t.Helper()
	create := c.Create().CreatingParentContainersIfNeeded().WithMode(framework.Ephemeral)
	_, err := create.ForPath(background, path, []byte(data))
	require.NoError(t, err)
}
