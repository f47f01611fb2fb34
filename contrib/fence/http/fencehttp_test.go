package fencehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/contrib/fence"
	"github.com/go-curator/curator/contrib/fence/fencetest"
	fencehttp "github.com/go-curator/curator/contrib/fence/http"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tokenKey is the context key of these tests' tokens.
type tokenKey struct{}

func tokenOf(ctx context.Context) (int64, error) {
	token, ok := ctx.Value(tokenKey{}).(int64)
	if !ok {
		return 0, fence.ErrNoHold
	}
	return token, nil
}

// byPath guards all methods but GET.
func byPath(r *http.Request) (string, bool) {
	return strings.TrimPrefix(r.URL.Path, "/"), r.Method != http.MethodGet
}

// service is a server with logs, to which it writes slowly.
type service struct {
	url    string
	client *http.Client

	mu   sync.Mutex
	logs map[string][]string
}

func serve(t *testing.T, wrap func(http.Handler) http.Handler) *service {
	s := &service{logs: map[string][]string{}}
	server := httptest.NewServer(wrap(s))
	t.Cleanup(server.Close)
	base := server.Client().Transport.(*http.Transport)
	base.MaxIdleConnsPerHost = 10
	s.url, s.client = server.URL, &http.Client{Transport: fencehttp.NewTransport(base, tokenOf)}
	return s
}

func guarded(gate *fence.Gate) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return fencehttp.NewHandler(gate, byPath, next) }
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for range rand.IntN(20) {
		runtime.Gosched()
	}
	resource := strings.TrimPrefix(r.URL.Path, "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet {
		fmt.Fprint(w, strings.Join(s.logs[resource], " "))
		return
	}
	entry, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.logs[resource] = append(s.logs[resource], string(entry))
}

func (s *service) post(ctx context.Context, resource, entry string, tokens ...string) (*http.Response, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/"+resource, strings.NewReader(entry))
	if err != nil {
		return nil, "", err
	}
	for _, token := range tokens {
		request.Header.Add(fencehttp.Token, token)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response, strings.TrimSpace(string(text)), err
}

// Append implements fencetest.Store.
func (s *service) Append(ctx context.Context, resource string, token int64, entry string) error {
	response, text, err := s.post(context.WithValue(ctx, tokenKey{}, token), resource, entry)
	if err != nil {
		return err
	}
	if err := fencehttp.Outdated(response); err != nil || response.StatusCode == http.StatusOK {
		return err
	}
	return fmt.Errorf("%s: %s", response.Status, text)
}

// Log implements fencetest.Store.
func (s *service) Log(_ context.Context, resource string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[resource], nil
}

func TestALateRequestIsRefused(t *testing.T) {
	s := serve(t, guarded(fence.NewGate(fence.NewMemory(10))))
	ctx := t.Context()
	require.NoError(t, s.Append(ctx, "orders", 17, "first"))
	require.NoError(t, s.Append(ctx, "orders", 23, "second"))
	require.NoError(t, s.Append(ctx, "orders", 23, "third"))
	err := s.Append(ctx, "orders", 17, "late")
	var outdated *fence.OutdatedError
	require.ErrorAs(t, err, &outdated)
	assert.Equal(t, fence.OutdatedError{Resource: "orders", Token: 17, Newest: 23}, *outdated)
	require.NoError(t, s.Append(ctx, "größe", 1, "other"))
	require.NoError(t, s.Append(ctx, "größe", 2, "other"))
	require.ErrorAs(t, s.Append(ctx, "größe", 1, "late"), &outdated)
	assert.Equal(t, "größe", outdated.Resource)
}

func TestWhatIsRefused(t *testing.T) {
	away := errors.New("the store is away")
	s := serve(t, guarded(fence.NewGate(failing{fence.NewMemory(1), away})))
	ctx := t.Context()
	for _, c := range []struct {
		resource string
		tokens   []string
		status   int
		text     string
	}{
		{"orders", []string{"x"}, 400, "Fencing-Token is not one number"},
		{"orders", []string{"1", "2"}, 400, "Fencing-Token is not one number"},
		{"orders", []string{"-1"}, 400, "not positive"},
		{strings.Repeat("x", 256), []string{"1"}, 400, "255 bytes"},
		{"away", []string{"1"}, 503, "the store is away"},
		{"a", []string{"5"}, 200, ""},
		{"b", []string{"6"}, 200, ""},
		{"a", []string{"4"}, 412, "perhaps forgotten"},
	} {
		response, text, err := s.post(ctx, c.resource, "entry", c.tokens...)
		require.NoError(t, err)
		assert.Equal(t, c.status, response.StatusCode, "%v", c)
		assert.Contains(t, text, c.text)
		assert.NoError(t, fencehttp.Outdated(response), "not certainly")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/orders", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	assert.Equal(t, http.StatusPreconditionRequired, response.StatusCode)

	_, _, err = s.post(ctx, "orders", "entry")
	assert.ErrorIs(t, err, fence.ErrNoHold, "nothing is sent without a token")
	response, err = http.Get(s.url + "/orders")
	require.NoError(t, err)
	response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	assert.Equal(t, http.StatusOK, response.StatusCode, "reads need none")
}

// failing returns err for one resource.
type failing struct {
	fence.Store
	err error
}

func (f failing) Admit(ctx context.Context, resource string, token int64) error {
	if resource == "away" {
		return f.err
	}
	return f.Store.Admit(ctx, resource, token)
}

func TestNoLateRequestGetsThrough(t *testing.T) {
	fencetest.Run(t, serve(t, guarded(fence.NewGate(fence.NewMemory(1<<20)))))
	fencetest.Catches(t, serve(t, func(next http.Handler) http.Handler { return next }))
}

func Example() {
	zk, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		panic(err)
	}
	defer zk.Close()
	curator, err := framework.New(zk.Addr(), framework.WithDialer(zk.Dial))
	if err != nil {
		panic(err)
	}
	defer curator.Close()

	gate := fence.NewGate(fence.NewMemory(100_000))
	stock := httptest.NewServer(fencehttp.NewHandler(gate,
		func(r *http.Request) (string, bool) { return r.URL.Path, true },
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fmt.Println("written") })))
	defer stock.Close()

	orders := mutex.New(curator, "/locks/orders")
	client := &http.Client{Transport: fencehttp.NewTransport(stock.Client().Transport, nil)}
	var former string
	for range 2 {
		err = orders.Do(context.Background(), func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodPut, stock.URL+"/apples", nil)
			if err != nil {
				return err
			}
			response, err := client.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if former == "" {
				former = response.Request.Header.Get(fencehttp.Token)
			}
			return fencehttp.Outdated(response)
		})
		if err != nil {
			panic(err)
		}
	}
	late, err := http.NewRequest(http.MethodPut, stock.URL+"/apples", nil)
	if err != nil {
		panic(err)
	}
	late.Header.Set(fencehttp.Token, former)
	response, err := client.Do(late)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status, errors.Is(fencehttp.Outdated(response), fence.ErrOutdated))
	// Output:
	// written
	// written
	// 412 Precondition Failed true
}

type answer struct{ request *http.Request }

func (a *answer) RoundTrip(r *http.Request) (*http.Response, error) {
	a.request = r
	return &http.Response{}, nil
}

// A request that was not made by http.NewRequest may have no header; http.Client gives it one.
func TestARequestWithoutAHeader(t *testing.T) {
	base := &answer{}
	_, err := fencehttp.NewTransport(base, tokenOf).RoundTrip(
		(&http.Request{}).WithContext(context.WithValue(t.Context(), tokenKey{}, int64(17))))
	require.NoError(t, err)
	assert.Equal(t, "17", base.request.Header.Get(fencehttp.Token))
}
