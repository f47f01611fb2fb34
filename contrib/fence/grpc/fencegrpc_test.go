package fencegrpc_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/go-curator/curator/contrib/fence"
	"github.com/go-curator/curator/contrib/fence/fencetest"
	fencegrpc "github.com/go-curator/curator/contrib/fence/grpc"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service writes to logs, slowly. gRPC's health service is used for it: the name of a service is "resource entry", and
// Watch is the stream.
type service struct {
	health.UnimplementedHealthServer
	client health.HealthClient
	stream bool

	mu   sync.Mutex
	logs map[string][]string
}

func (s *service) write(name string) {
	for range rand.IntN(20) {
		runtime.Gosched()
	}
	resource, entry, _ := strings.Cut(name, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs[resource] = append(s.logs[resource], entry)
}

func (s *service) Check(_ context.Context, r *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	s.write(r.Service)
	return &health.HealthCheckResponse{}, nil
}

func (s *service) Watch(r *health.HealthCheckRequest, stream health.Health_WatchServer) error {
	s.write(r.Service)
	if err := stream.Context().Err(); err != nil && !errors.Is(context.Cause(stream.Context()), fence.ErrOutdated) {
		return err
	}
	return stream.Send(&health.HealthCheckResponse{})
}

type tokenKey struct{}

func tokenOf(ctx context.Context) (int64, error) {
	token, ok := ctx.Value(tokenKey{}).(int64)
	if !ok {
		return 0, fence.ErrNoHold
	}
	return token, nil
}

// byService returns the resource of a request. A stream's request comes later: its resource is in the metadata.
func byService(ctx context.Context, method string, request any) (string, bool) {
	if r, ok := request.(*health.HealthCheckRequest); ok {
		resource, _, _ := strings.Cut(r.Service, " ")
		return resource, resource != "free"
	}
	names := metadata.ValueFromIncomingContext(ctx, "resource")
	return strings.Join(names, ""), method == health.Health_Watch_FullMethodName
}

func serve(t testing.TB, gate *fence.Gate, tokens fencegrpc.Tokens) *service {
	s := &service{logs: map[string][]string{}}
	var opts []grpc.ServerOption
	if gate != nil {
		opts = append(opts, grpc.UnaryInterceptor(fencegrpc.UnaryServer(gate, byService)),
			grpc.StreamInterceptor(fencegrpc.StreamServer(gate, byService)))
	}
	server, l := grpc.NewServer(opts...), bufconn.Listen(1<<16)
	health.RegisterHealthServer(server, s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	connection, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithUnaryInterceptor(fencegrpc.UnaryClient(tokens)), grpc.WithStreamInterceptor(fencegrpc.StreamClient(tokens)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connection.Close()
		server.Stop()
		serving.Wait()
	})
	s.client = health.NewHealthClient(connection)
	return s
}

// Append implements fencetest.Store.
func (s *service) Append(ctx context.Context, resource string, token int64, entry string) error {
	ctx = context.WithValue(ctx, tokenKey{}, token)
	request := &health.HealthCheckRequest{Service: resource + " " + entry}
	if !s.stream {
		_, err := s.client.Check(ctx, request)
		return err
	}
	stream, err := s.client.Watch(metadata.AppendToOutgoingContext(ctx, "resource", resource), request)
	if err != nil {
		return err
	}
	if _, err = stream.Recv(); err == nil {
		_, end := stream.Recv() // waits for the end of the stream
		if end == nil {
			return errors.New("the stream goes on")
		}
	}
	return err
}

// Log implements fencetest.Store.
func (s *service) Log(_ context.Context, resource string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[resource], nil
}

func TestALateCallIsRefused(t *testing.T) {
	s := serve(t, fence.NewGate(fence.NewMemory(10)), tokenOf)
	for _, s.stream = range []bool{false, true} {
		resource := fmt.Sprint("orders-", s.stream)
		require.NoError(t, s.Append(t.Context(), resource, 17, "first"))
		require.NoError(t, s.Append(t.Context(), resource, 23, "second"))
		require.NoError(t, s.Append(t.Context(), resource, 23, "third"))
		err := s.Append(t.Context(), resource, 17, "late")
		var outdated *fence.OutdatedError
		require.ErrorAs(t, err, &outdated)
		assert.Equal(t, fence.OutdatedError{Resource: resource, Token: 17, Newest: 23}, *outdated)
		assert.Equal(t, codes.FailedPrecondition, status.Code(err), "it is still the call's error")
		assert.Equal(t, []string{"first", "second", "third"}, s.logs[resource])
	}
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

func TestWhatIsRefused(t *testing.T) {
	s := serve(t, fence.NewGate(failing{fence.NewMemory(1), errors.New("the store is away")}), tokenOf)
	for _, c := range []struct {
		service string
		tokens  []string
		code    codes.Code
		text    string
	}{
		{"orders x", []string{"x"}, codes.InvalidArgument, "not a number"},
		{"orders x", []string{"1", "2"}, codes.InvalidArgument, "2 values"},
		{"orders x", []string{"0"}, codes.InvalidArgument, "not positive"},
		{"away x", []string{"1"}, codes.Unavailable, "the store is away"},
		{"free x", []string{"x"}, codes.OK, ""},
		{"a x", []string{"5"}, codes.OK, ""},
		{"b x", []string{"6"}, codes.OK, ""},
		{"a x", []string{"4"}, codes.FailedPrecondition, "perhaps forgotten"},
	} {
		ctx := t.Context()
		for _, token := range c.tokens {
			ctx = metadata.AppendToOutgoingContext(ctx, fencegrpc.Token, token)
		}
		_, err := s.client.Check(ctx, &health.HealthCheckRequest{Service: c.service})
		assert.Equal(t, c.code, status.Code(err), "%v: %v", c, err)
		assert.Contains(t, fmt.Sprint(err), c.text)
		assert.NotErrorIs(t, err, fence.ErrOutdated)
	}
	_, err := s.client.Check(t.Context(), &health.HealthCheckRequest{Service: "orders x"})
	assert.ErrorIs(t, err, fence.ErrNoHold, "nothing is sent without a token")
	_, err = s.client.Watch(t.Context(), &health.HealthCheckRequest{Service: "orders x"})
	assert.ErrorIs(t, err, fence.ErrNoHold)
}

func TestNoLateCallGetsThrough(t *testing.T) {
	for _, stream := range []bool{false, true} {
		s := serve(t, fence.NewGate(fence.NewMemory(1<<20)), tokenOf)
		s.stream = stream
		fencetest.Run(t, s)
		s = serve(t, nil, tokenOf)
		s.stream = stream
		fencetest.Catches(t, s)
	}
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
	server, client := connected(fence.NewGate(fence.NewMemory(100_000)))
	defer server()

	orders := mutex.New(curator, "/locks/orders")
	var former int64
	for range 2 {
		err := orders.Do(context.Background(), func(ctx context.Context) error {
			if former == 0 {
				former = mutex.LockOf(ctx).FencingToken()
			}
			_, err := client.Check(ctx, &health.HealthCheckRequest{Service: "apples written"})
			return err
		})
		fmt.Println("in time:", err)
	}
	late := metadata.AppendToOutgoingContext(context.Background(), fencegrpc.Token, fmt.Sprint(former))
	_, err = client.Check(late, &health.HealthCheckRequest{Service: "apples late"})
	fmt.Println("late:", status.Code(err), errors.Is(err, fence.ErrOutdated))
	// Output:
	// in time: <nil>
	// in time: <nil>
	// late: FailedPrecondition true
}

// connected starts a server behind the gate, and returns a client that sends the tokens of its locks.
func connected(gate *fence.Gate) (stop func(), client health.HealthClient) {
	server, l := grpc.NewServer(grpc.UnaryInterceptor(fencegrpc.UnaryServer(gate, byService))), bufconn.Listen(1<<16)
	health.RegisterHealthServer(server, &service{logs: map[string][]string{}})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	connection, err := grpc.NewClient("passthrough:///example", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithUnaryInterceptor(fencegrpc.UnaryClient(nil)))
	if err != nil {
		panic(err)
	}
	return func() {
		_ = connection.Close()
		server.Stop()
		serving.Wait()
	}, health.NewHealthClient(connection)
}
