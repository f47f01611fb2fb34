package curatorhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	curatorhttp "github.com/go-curator/curator/contrib/http"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

type registration = discovery.Registration[any]

// service registers instances with a client each, and has a cache of them with another client.
type service struct {
	t      *testing.T
	server *zktest.Server
	cache  *discovery.Cache[any]
}

func newService(t *testing.T) *service {
	s := &service{t: t, server: zktest.RunT(t)}
	var err error
	s.cache, err = s.discovery().Cache("web")
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.cache.Close() })
	return s
}

func (s *service) discovery() *discovery.Discovery[any] {
	client, err := framework.New(s.server.Addr(), framework.WithDialer(s.server.Dial))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = client.Close() })
	d, err := discovery.New[any](client, "/services")
	require.NoError(s.t, err)
	return d
}

func (s *service) register(id, address string, port int) *registration {
	r, err := s.discovery().Register(background, discovery.Instance[any]{Name: "web", ID: id, Address: address, Port: port})
	require.NoError(s.t, err)
	return r
}

// until waits until the cache has so many instances.
func (s *service) until(n int) {
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	for list, err := range s.cache.Follow(ctx) {
		require.NoError(s.t, err)
		if len(list) == n {
			return
		}
	}
}

func (s *service) client(base http.RoundTripper, opts ...discovery.ProviderOption) *http.Client {
	p, err := discovery.NewProvider(s.cache, opts...)
	require.NoError(s.t, err)
	return &http.Client{Transport: curatorhttp.NewTransport(p, base)}
}

// Two real servers: requests go to both; when one is gone they go to the other, and none fails.
func TestInstanceGoesAway(t *testing.T) {
	s := newService(t)
	web := map[string]*httptest.Server{}
	registered := map[string]*registration{}
	for _, id := range []string{"a", "b"} {
		web[id] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, id+" "+r.Host+r.URL.Path+" "+string(body))
		}))
		defer web[id].Close()
		host, port, err := net.SplitHostPort(web[id].Listener.Addr().String())
		require.NoError(t, err)
		number, err := strconv.Atoi(port)
		require.NoError(t, err)
		registered[id] = s.register(id, host, number)
	}
	s.until(2)
	base := &http.Transport{DisableKeepAlives: true} // each request dials, so a stopped server gets none
	client := s.client(base)
	ask := func() string {
		t.Helper()
		response, err := client.Post("http://web/status", "text/plain", strings.NewReader("hello"))
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return string(text)
	}
	assert.ElementsMatch(t, []string{"a web/status hello", "b web/status hello"}, []string{ask(), ask()})
	web["a"].Close() // its instance is still registered
	for range 4 {
		assert.Equal(t, "b web/status hello", ask())
	}
	require.NoError(t, registered["a"].Unregister(background))
	s.until(1)
	assert.Equal(t, "b web/status hello", ask())
	require.NoError(t, registered["b"].Unregister(background))
	s.until(0)
	_, err := client.Get("http://web/")
	require.ErrorIs(t, err, discovery.ErrNoInstance)
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var errDial = &net.OpError{Op: "dial", Err: errors.New("refused")}

// A request that may have been sent is not sent again; one that was not sent goes to each instance once.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		for _, id := range []string{"a", "b", "c"} {
			defer s.register(id, "host-"+id, 0).Unregister(background)
		}
		s.until(3)
		var asked []string
		fail := func(err error) tripper {
			asked = nil
			return func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r.URL.Host)
				if r.Body != nil {
					_ = r.Body.Close()
				}
				return nil, err
			}
		}
		_, err := s.client(fail(errDial)).Get("http://web/")
		require.ErrorIs(t, err, errDial)
		assert.ElementsMatch(t, []string{"host-a", "host-b", "host-c"}, asked)
		_, err = s.client(fail(io.ErrUnexpectedEOF)).Get("http://web/")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Len(t, asked, 1)
		_, err = s.client(fail(errDial)).Post("http://web/", "text/plain", io.MultiReader(strings.NewReader("once")))
		require.ErrorIs(t, err, errDial)
		assert.Len(t, asked, 1)

		client := s.client(fail(io.ErrUnexpectedEOF), discovery.WithDownAfter(1, time.Minute))
		for range 3 {
			_, err = client.Get("http://web/")
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
		_, err = client.Get("http://web/")
		require.ErrorIs(t, err, discovery.ErrNoInstance, "all are down")
		assert.Len(t, asked, 3)

		ctx, cancel := context.WithCancel(background)
		client = s.client(tripper(func(r *http.Request) (*http.Response, error) { cancel(); return nil, r.Context().Err() }),
			discovery.WithDownAfter(1, time.Minute))
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://web/", nil)
		require.NoError(t, err)
		_, err = client.Do(request)
		require.ErrorIs(t, err, context.Canceled)
		ctx, cancel = context.WithCancel(background)
		defer cancel()
		_, err = client.Do(request.WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled, "it is not the instance's fault")
	})
}

func TestAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		d := s.discovery()
		for address, want := range map[string][2]string{
			"host": {"host:80", "host:443"}, "10.0.0.7": {"10.0.0.7:80", "10.0.0.7:443"}, "::1": {"[::1]:80", "[::1]:443"},
			"[::1]": {"[::1]:80", "[::1]:443"}, "fe80::1%eth0": {"[fe80::1%eth0]:80", "[fe80::1%eth0]:443"},
		} {
			for _, ports := range []bool{true, false} {
				i := discovery.Instance[any]{Name: "web", ID: "a", Address: address}
				if ports {
					i.Port, i.SSLPort = 80, 443
				}
				r, err := d.Register(background, i)
				require.NoError(t, err)
				s.until(1)
				var asked []string
				client := s.client(tripper(func(r *http.Request) (*http.Response, error) {
					asked = append(asked, r.URL.Host)
					assert.Equal(t, "web", r.Host)
					return &http.Response{StatusCode: 204, Body: http.NoBody}, nil
				}))
				for _, scheme := range []string{"http", "https"} {
					response, err := client.Get(scheme + "://web/")
					require.NoError(t, err)
					require.NoError(t, response.Body.Close())
				}
				if ports {
					assert.Equal(t, want[:], asked)
				} else {
					assert.Equal(t, []string{strings.TrimSuffix(want[0], ":80"), strings.TrimSuffix(want[1], ":443")}, asked)
				}
				require.NoError(t, r.Unregister(background))
				s.until(0)
			}
		}
	})
}

// An instance without an address does not mean this machine.
func TestAnInstanceWithoutAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		defer s.register("a", "", 80).Unregister(background)
		for _, strategy := range []discovery.Strategy{discovery.RoundRobin, discovery.Random, discovery.Sticky} {
			s.until(1)
			var asked []string
			client := s.client(tripper(func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r.URL.Host)
				return nil, errDial
			}), discovery.WithStrategy(strategy), discovery.WithDownAfter(1000, time.Minute))
			_, err := client.Get("http://web/")
			require.ErrorIs(t, err, discovery.ErrNoInstance)
			assert.Empty(t, asked)
			other := s.register("b", "host-b", 80)
			s.until(2)
			for range 10 {
				_, err = client.Get("http://web/")
				require.ErrorIs(t, err, errDial)
			}
			assert.Equal(t, slices.Repeat([]string{"host-b:80"}, 10), asked, "once for each request")
			require.NoError(t, other.Unregister(background))
		}
	})
}

// A redirect to another host goes to that host; a redirect to the service, with any port, goes to an instance.
func TestRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		defer s.register("a", "host-a", 80).Unregister(background)
		s.until(1)
		to := map[string]string{
			"/1": "/2", "/2": "http://elsewhere:81/3", "/3": "/4", "/4": "http://Web/5", "/5": "https://web:444/6",
			"/6": "http://10.0.0.7/7",
		}
		var asked []string
		client := s.client(tripper(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.URL.Host+r.URL.Path)
			response := &http.Response{StatusCode: 204, Body: http.NoBody, Header: http.Header{}}
			if next, more := to[r.URL.Path]; more {
				response.StatusCode = 302
				response.Header.Set("Location", next)
			}
			return response, nil
		}))
		response, err := client.Get("http://web/1")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, []string{"host-a:80/1", "host-a:80/2", "elsewhere:81/3", "elsewhere:81/4", "host-a:80/5", "host-a:80/6",
			"10.0.0.7/7"}, asked)
	})
}

// The base transport refuses a request without a URL.
func TestARequestWithoutAURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		defer s.register("a", "host-a", 80).Unregister(background)
		s.until(1)
		_, err := s.client(nil).Transport.RoundTrip(&http.Request{})
		require.ErrorContains(t, err, "nil Request.URL")
	})
}
