package framework

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// dialled records the addresses that a client dials. Only those of the server work.
type dialled struct {
	srv   *zktest.Server
	works func(addr string) bool

	mu    sync.Mutex
	addrs []string
}

func (d *dialled) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	d.addrs = append(d.addrs, addr)
	works := d.works == nil || d.works(addr)
	d.mu.Unlock()
	if !works {
		return nil, fmt.Errorf("nobody at %s", addr)
	}
	return d.srv.Dial(ctx, network, addr)
}

func (d *dialled) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.addrs)
}

// tracked starts a server, and a client of it that follows its configuration.
func tracked(t *testing.T, works func(addr string) bool,
	f func(srv *zktest.Server, c *Client, d *dialled, said *ears), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		said := &ears{}
		srv := zktest.RunT(t)
		d := &dialled{srv: srv, works: works}
		c := dial(t, srv, append([]Option{WithEnsembleTracking(), WithDialer(d.dial), said.logged()}, opts...)...)
		connected(t, c)
		time.Sleep(2 * time.Second) // it counts as steady
		f(srv, c, d, said)
	})
}

// configure sets a configuration in which the members have these client addresses. OWN stands for the host of the server.
func configure(t *testing.T, srv *zktest.Server, version int, clients ...string) {
	t.Helper()
	own, _, err := net.SplitHostPort(srv.Addr())
	require.NoError(t, err)
	var b strings.Builder
	for i, client := range clients {
		client = strings.ReplaceAll(client, "OWN", own)
		fmt.Fprintf(&b, "server.%d=m%d:2888:3888:participant;%s\n", i+1, i+1, client)
	}
	fmt.Fprintf(&b, "version=%x", version)
	require.NoError(t, srv.Set("/zookeeper/config", []byte(b.String())))
	time.Sleep(10 * time.Second)
}

// A process that may write the configuration could collect every client's password, session and data in clear: so the
// client dials only hosts that the user has named.
func TestTrackingDoesNotDialStrangersInClear(t *testing.T) {
	tracked(t, nil, func(srv *zktest.Server, c *Client, d *dialled, said *ears) {
		own := srv.Addr()
		configure(t, srv, 1, "evil.example:2181")
		assert.Equal(t, []string{own}, c.Servers())
		configure(t, srv, 2, "evil.example:2181", own, "198.51.100.7:2181")
		assert.Equal(t, []string{own}, c.Servers())
		host, _, err := net.SplitHostPort(own)
		require.NoError(t, err)
		configure(t, srv, 3, host+":2182", "evil.example:2181")
		assert.Equal(t, []string{host + ":2182"}, c.Servers(), "a port of a host that was named")
		srv.Cut(0)
		time.Sleep(time.Minute)
		for _, addr := range d.seen() {
			assert.Contains(t, []string{own, host + ":2182"}, addr)
		}
		assert.Equal(t, 3, said.count("ignoring hosts"), "once for each change")
		for _, s := range srv.Sessions() {
			srv.Expire(s.ID)
		}
		time.Sleep(time.Minute)
		assert.Equal(t, 3, said.count("ignoring hosts"), "not again in the next session")
		assert.Equal(t, 1, said.count("the list of servers changed"), "the third time")
	}, WithAuth("digest", []byte("user:hush")))
}

// A list that is given later replaces the tracked one until the configuration changes.
func TestSetServersWhileTracking(t *testing.T) {
	tracked(t, nil, func(srv *zktest.Server, c *Client, _ *dialled, _ *ears) {
		own := srv.Addr()
		configure(t, srv, 1, own, "OWN:2182")
		require.Len(t, c.Servers(), 2)
		require.NoError(t, c.SetServers(own))
		assert.Equal(t, []string{own}, c.Servers())
		configure(t, srv, 2, own, "OWN:2183")
		assert.Len(t, c.Servers(), 2)
	})
}

// If no server of the new list can be reached, the client tries all of them once and returns to the list that it was given.
func TestTrackingGoesBackToTheGivenList(t *testing.T) {
	given := ""
	tracked(t, func(addr string) bool {
		return addr == given || given == ""
	}, func(srv *zktest.Server, c *Client, d *dialled, _ *ears) {
		given = srv.Addr()
		host, _, err := net.SplitHostPort(given)
		require.NoError(t, err)
		s := connected(t, c)
		configure(t, srv, 1, host+":1", host+":2", host+":3")
		assert.ElementsMatch(t, []string{host + ":1", host + ":2", host + ":3"}, c.Servers())
		assert.Equal(t, s.ID(), connected(t, c).ID(), "the session lives on where it was")
		assert.Subset(t, d.seen(), []string{host + ":1", host + ":2", host + ":3"}, "they were tried first")
		assert.Equal(t, given, d.seen()[len(d.seen())-1])

		// The next session has both lists, too.
		srv.Expire(s.ID())
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 2, connected(t, c).Epoch())
		assert.ElementsMatch(t, []string{host + ":1", host + ":2", host + ":3"}, c.Servers())

		// A list that the user sets later replaces the given one.
		given = "elsewhere:2181"
		require.NoError(t, c.SetServers(given))
		time.Sleep(10 * time.Second)
		connected(t, c)
		assert.Equal(t, given, d.seen()[len(d.seen())-1])
	})
}

// A configuration that no ensemble has is refused as a whole, once for each change. The client neither dials its addresses
// nor logs them unescaped.
func TestTrackingRefusesWhatIsNoConfiguration(t *testing.T) {
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprintf("OWN:%d", i%65535+1)
	}
	bad := map[string][]string{
		"escapes": {"OWN:2182", "a\x1b[2Jb:2181"}, "unicode": {"OWN:2182", "a\u202eb:2181"},
		"a space": {"OWN:2182", "a b:2181"},
		"at":      {"OWN:2182", "user@a:2181"}, "port 0": {"OWN:0"}, "port 99999": {"OWN:99999"},
		"a port in words": {"OWN:http"}, "+": {"OWN:+1"},
		"a long name":  {"OWN:2182", strings.Repeat("a", 1<<18) + ":2181"},
		"a long label": {"OWN:2182", strings.Repeat("a", 64) + ":2181"},
		"brackets":     {"[a]:2181"}, "half an address": {"[::1:2181"}, "zone": {"[fe80::1%eth0]:2181"},
		"no label": {"a..b:2181"}, "too many": many[:1001],
	}
	tracked(t, nil, func(srv *zktest.Server, c *Client, d *dialled, said *ears) {
		n := 0
		for name, clients := range bad {
			n++
			configure(t, srv, n, clients...)
			assert.Equal(t, []string{srv.Addr()}, c.Servers(), name)
			assert.Equal(t, n, said.count("ignoring an invalid"), "%s: once for each change", name)
		}
		// A configuration larger than a request of this client could carry: only a hostile server sends it.
		var b strings.Builder
		for i, addr := range many {
			fmt.Fprintf(&b, "server.%d=m:1:2;%s\n", i, addr)
		}
		require.NoError(t, srv.Set("/zookeeper/config", []byte(b.String())))
		time.Sleep(10 * time.Second)
		require.NoError(t, srv.Set("/zookeeper/config", []byte("server.1="+strings.Repeat("h", 1<<20)+":1:2;2181")))
		time.Sleep(10 * time.Second)
		assert.Equal(t, n+2, said.count("ignoring an invalid"))
		assert.Equal(t, []string{srv.Addr()}, c.Servers())
		for _, addr := range d.seen() {
			assert.Equal(t, srv.Addr(), addr)
		}
		assert.Less(t, said.text.Len(), 100_000)
		for _, odd := range []string{"\x1b", "\u202e"} {
			assert.NotContains(t, said.text.String(), odd)
		}

		// The next valid configuration is used, with repetitions and all forms of an address.
		configure(t, srv, n+3, "OWN:2183", "OWN:2183", "[::ffff:OWN]:2184", "OWN:02183")
		own, _, err := net.SplitHostPort(srv.Addr())
		require.NoError(t, err)
		assert.Equal(t, []string{own + ":2183", own + ":2184"}, c.Servers())
	})
}

// A client with a function that recognizes its servers by their names, or with TLS that proves each of them, follows new
// ones.
func TestTrackingFollowsWhatIsAllowed(t *testing.T) {
	asked := map[string]bool{}
	allow := func(host string) bool {
		asked[host] = true
		return strings.HasSuffix(host, ".zk.internal") || host == "2001:db8::1"
	}
	tracked(t, nil, func(srv *zktest.Server, c *Client, d *dialled, said *ears) {
		configure(t, srv, 1, "ZK4.zk.internal:2181", "[2001:DB8:0::1]:2181", "zk.internal.evil.example:2181",
			"OWN:1")
		own, _, err := net.SplitHostPort(srv.Addr())
		require.NoError(t, err)
		assert.Equal(t, []string{own + ":1", "[2001:db8::1]:2181", "zk4.zk.internal:2181"}, c.Servers())
		assert.Equal(t, map[string]bool{"zk4.zk.internal": true, "2001:db8::1": true,
			"zk.internal.evil.example": true}, asked)
		assert.Equal(t, 1, said.count("hosts=zk.internal.evil.example"))
		assert.Contains(t, c.Servers(), d.seen()[len(d.seen())-1])
	}, WithEnsembleHosts(allow))
	for name, never := range map[string]func(string) bool{
		"no":     func(string) bool { return false },
		"Goexit": func(string) bool { runtime.Goexit(); return true },
	} {
		t.Run(name, func(t *testing.T) {
			tracked(t, nil, func(srv *zktest.Server, c *Client, _ *dialled, _ *ears) {
				configure(t, srv, 1, "a:1")
				assert.Equal(t, []string{srv.Addr()}, c.Servers())
			}, WithEnsembleHosts(never))
		})
	}
	_, err := New("h", WithEnsembleHosts(nil))
	assert.ErrorIs(t, err, ErrInvalidOption)
}

// Certificates prove the servers only if others cannot have them: with the user's own CAs, or for one given name.
func TestWhichTLSProvesServers(t *testing.T) {
	ca := writeFile(t, "ca.pem", selfSigned(t, "ca", time.Now().Add(time.Hour)))
	verify := func(tls.ConnectionState) error { return nil }
	for name, test := range map[string]struct {
		opts []Option
		want bool
	}{
		"no TLS":              {nil, false},
		"the system's CAs":    {[]Option{WithTLS(&tls.Config{})}, false},
		"the system's, files": {[]Option{WithTLSFiles(TLSFiles{})}, false},
		"own CAs":             {[]Option{WithTLS(&tls.Config{RootCAs: x509.NewCertPool()})}, true},
		"own CAs, files":      {[]Option{WithTLSFiles(TLSFiles{CA: ca})}, true},
		"one name":            {[]Option{WithTLS(&tls.Config{ServerName: "zk"})}, true},
		"one name, files":     {[]Option{WithTLSFiles(TLSFiles{ServerName: "zk"})}, true},
		"own CAs, not verified": {[]Option{WithTLS(&tls.Config{
			RootCAs: x509.NewCertPool(), InsecureSkipVerify: true})}, false},
		"verified by a function": {[]Option{WithTLSFiles(TLSFiles{CA: ca}),
			WithTLS(&tls.Config{InsecureSkipVerify: true, VerifyConnection: verify})},
			false}, // the client cannot see what the function checks: WithEnsembleHosts
	} {
		assert.Equal(t, test.want, configured(t, test.opts...).authenticatesServers(), name)
	}
	c := &clientCore{clientBase: clientBase{cfg: *configured(t, WithTLSFiles(TLSFiles{CA: ca}))}}
	c.servers.given = []string{"zk1:2181"}
	assert.True(t, c.trustedHosts()("other"))
	c.cfg.joinable = func(string) bool { return false }
	assert.False(t, c.trustedHosts()("other"), "who gives a function means it")
	assert.True(t, c.trustedHosts()("zk1"))
	c.servers.given = []string{"[2001:db8:0::1]:2181"}
	assert.True(t, c.trustedHosts()("2001:db8::1"))
}

// A process that writes the configuration often, or a server that reports so, cannot make the client read it, adopt it or
// log it all the time.
func TestTrackingReadsOnceInAWhile(t *testing.T) {
	for name, line := range map[string]string{
		"followed": "server.1=m1:2888:3888:participant;%s:%d",
		"no list":  "server.1=m1:2888:3888:participant;%s:x%d",
	} {
		t.Run(name, func(t *testing.T) {
			tracked(t, nil, func(srv *zktest.Server, c *Client, _ *dialled, said *ears) {
				own, _, err := net.SplitHostPort(srv.Addr())
				require.NoError(t, err)
				for i := range 100 {
					require.NoError(t, srv.Set("/zookeeper/config", fmt.Appendf(nil, line+"\nversion=%x", own, 3000+i, i+1)))
					synctest.Wait()
					time.Sleep(10 * time.Millisecond)
				}
				assert.LessOrEqual(t, said.count("servers changed")+said.count("ignoring an invalid"), 2)
				time.Sleep(2 * trackPause)
				if name == "followed" {
					assert.Equal(t, []string{own + ":3099"}, c.Servers(), "the last one counts")
				} else {
					assert.Equal(t, 2, said.count("ignoring an invalid"))
				}
			})
		})
	}
}
