package curatorgrpc_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health_v1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	curatorgrpc "github.com/go-curator/curator/contrib/grpc"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

type instance = discovery.Instance[any]

func services(t *testing.T, s *zktest.Server) (*discovery.Discovery[any], *framework.Client) {
	t.Helper()
	client, err := framework.New(s.Addr(), framework.WithDialer(s.Dial))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	d, err := discovery.New[any](client, "/services")
	require.NoError(t, err)
	return d, client
}

func register(t *testing.T, s *zktest.Server, i instance) *discovery.Registration[any] {
	t.Helper()
	d, _ := services(t, s)
	i.Name = "web"
	r, err := d.Register(background, i)
	require.NoError(t, err)
	return r
}

// Two real servers and a real connection: calls go to both, and when one unregisters, only to the other.
func TestInstanceGoesAway(t *testing.T) {
	s := zktest.RunT(t)
	registered := map[string]*discovery.Registration[any]{}
	var all []string
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := grpc.NewServer()
		health_v1.RegisterHealthServer(server, health.NewServer())
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		t.Cleanup(func() { server.Stop(); <-served })
		at := listener.Addr().(*net.TCPAddr)
		registered[at.String()] = register(t, s, instance{Address: at.IP.String(), Port: at.Port})
		all = append(all, at.String())
	}
	d, _ := services(t, s)
	connection, err := grpc.NewClient("curator:///web", grpc.WithResolvers(curatorgrpc.NewBuilder(d)),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	require.NoError(t, err)
	defer connection.Close()
	ctx, cancel := context.WithTimeout(background, 2*time.Minute)
	defer cancel()
	call := func() string {
		t.Helper()
		var who peer.Peer
		_, err := health_v1.NewHealthClient(connection).Check(ctx, &health_v1.HealthCheckRequest{},
			grpc.WaitForReady(true), grpc.Peer(&who))
		require.NoError(t, err)
		return who.Addr.String()
	}
	for seen := map[string]bool{}; len(seen) < 2; seen[call()] = true {
	}
	require.NoError(t, registered[all[0]].Unregister(background))
	for inARow := 0; inARow < 20; inARow++ { // until then calls went to both in turn
		if call() != all[1] {
			inARow = -1
		}
	}
	require.NoError(t, registered[all[1]].Unregister(background))
	for err == nil {
		_, err = health_v1.NewHealthClient(connection).Check(ctx, &health_v1.HealthCheckRequest{})
	}
	assert.Equal(t, codes.Unavailable, status.Code(err))
}

// conn records the calls that the resolver makes to gRPC.
type conn struct {
	resolver.ClientConn
	states chan []string
	errs   chan error
}

func (c *conn) UpdateState(s resolver.State) error {
	all := []string{}
	for _, a := range s.Addresses {
		all = append(all, a.Addr)
	}
	c.states <- all
	return errors.New("the balancer does not like it")
}

func (c *conn) ReportError(err error) { c.errs <- err }

func target(text string) resolver.Target {
	u, _ := url.Parse(text)
	return resolver.Target{URL: *u}
}

func TestAddressesAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		d, client := services(t, s)
		b := curatorgrpc.NewBuilder(d)
		assert.Equal(t, "curator", b.Scheme())
		cc := &conn{states: make(chan []string, 100), errs: make(chan error, 100)}
		for _, bad := range []string{"curator://server/web", "curator:///", "curator:///a/b"} {
			_, err := b.Build(target(bad), cc, resolver.BuildOptions{})
			require.Error(t, err, bad)
		}
		r, err := b.Build(target("curator:///web"), cc, resolver.BuildOptions{})
		require.NoError(t, err)
		assert.Empty(t, <-cc.states)
		r.ResolveNow(resolver.ResolveNowOptions{})
		for _, i := range []instance{
			{ID: "a", Address: "10.0.0.1", Port: 80, SSLPort: 443}, {ID: "b", Address: "::1", SSLPort: 443},
			{ID: "c", Address: "10.0.0.1", Port: 80}, {ID: "d", Address: "10.0.0.4"}, {ID: "e", Port: 80},
			{ID: "f", Address: "10.0.0.6", Port: 80, Disabled: true},
			{ID: "g", Address: "[::2]", Port: 80},
		} {
			defer register(t, s, i).Unregister(background)
			synctest.Wait()
		}
		var last []string
		for len(cc.states) > 0 {
			last = <-cc.states
		}
		assert.Equal(t, []string{"10.0.0.1:80", "[::1]:443", "[::2]:80"}, last)
		r.Close()
		assert.Empty(t, cc.errs)

		require.NoError(t, s.SetACL("/services/web", zktest.ACL{Perms: 4, Scheme: "world", ID: "anyone"}))
		r, err = b.Build(target("curator:///web"), cc, resolver.BuildOptions{})
		require.NoError(t, err)
		defer r.Close()
		require.ErrorIs(t, <-cc.errs, framework.ErrNoAuth)
		require.NoError(t, s.SetACL("/services/web", zktest.ACL{Perms: 31, Scheme: "world", ID: "anyone"}))
		require.NoError(t, client.Close())
		for err := range cc.errs {
			if errors.Is(err, framework.ErrClosed) {
				return
			}
		}
	})
}
