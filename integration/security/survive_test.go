package security

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
)

func contextOf(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func unauthenticated(err error) bool { return errors.Is(err, framework.ErrAuthFailed) }

func noTLS(err error) bool { return errors.Is(err, framework.ErrTLS) }

// because reports whether there is an error of the type within ErrTLS.
func because[E error](err error) bool {
	var e E
	return noTLS(err) && errors.As(err, &e)
}

func objected(err error) bool {
	return because[*net.OpError](err) && strings.Contains(err.Error(), "remote error")
}

func digest(user, password string) framework.Option {
	return framework.WithAuth("digest", []byte(user+":"+password))
}

// The server shows a certificate; clients have another credential and need none.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, elsewhere := newAuthority(t), newAuthority(t)
	port := zkserver.FreePort(t)
	secure := fmt.Sprintf("127.0.0.1:%d", port)
	node := start(t, zkserver.Options{Config: ca.server(port, ca.issue("server", time.Hour), "none")})
	auth := digest("user", "secret")
	survives(t, secure, node.Addr(), []framework.Option{auth},
		framework.WithTLSFiles(framework.TLSFiles{CA: ca.ca}), auth)

	for what, c := range map[string]struct {
		addr  string
		files framework.TLSFiles
		why   func(error) bool
	}{
		"another authority": {secure, framework.TLSFiles{CA: elsewhere.ca}, because[x509.UnknownAuthorityError]},
		"another server": {
			secure, framework.TLSFiles{CA: ca.ca, ServerName: "zk.example.com"}, because[x509.HostnameError],
		},
		"a port in the clear": {node.Addr(), framework.TLSFiles{CA: ca.ca}, noTLS},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			refused(t, c.addr, c.why, framework.WithTLSFiles(c.files))
		})
	}
}

// A server with an expired certificate is refused.
func TestExpiredServer(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	port := zkserver.FreePort(t)
	start(t, zkserver.Options{Config: ca.server(port, ca.issue("server", -time.Hour), "none")})
	err := refused(t, fmt.Sprintf("127.0.0.1:%d", port), because[x509.CertificateInvalidError],
		framework.WithTLSFiles(framework.TLSFiles{CA: ca.ca}))
	var invalid x509.CertificateInvalidError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, x509.Expired, invalid.Reason)
}

// Both sides show certificates; the client's is its identity, and is renewed while it runs.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	ca, elsewhere := newAuthority(t), newAuthority(t)
	port := zkserver.FreePort(t)
	secure := fmt.Sprintf("127.0.0.1:%d", port)
	start(t, zkserver.Options{Config: ca.server(port, ca.issue("server", time.Hour), "need")})
	files := ca.client("worker")
	insider := []framework.Option{framework.WithTLSFiles(files)}
	c := survives(t, secure, secure, insider, framework.WithTLSFiles(files))
	acl, err := c.GetACL().ForPath(kit.Context(t), "/mine")
	require.NoError(t, err)
	assert.Equal(t, []framework.ACL{{Perms: framework.PermAll, Scheme: "x509",
		ID: framework.X509Identity("CN=worker").ID}}, acl)

	for what, files := range map[string]framework.TLSFiles{
		"nobody":   {CA: ca.ca},
		"stranger": {CA: ca.ca, Cert: elsewhere.issue("stranger", time.Hour), Key: elsewhere.dir + "/stranger.pem"},
		"expired":  {CA: ca.ca, Cert: ca.issue("late", -time.Hour), Key: ca.dir + "/late.pem"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			refused(t, secure, objected, framework.WithTLSFiles(files))
		})
	}
	t.Run("renewed", func(t *testing.T) {
		t.Parallel()
		files := ca.client("mover") // to be replaced
		link := proxy.New(t, secure)
		c, s := kit.Connected(t, link.Addr(), framework.WithTLSFiles(files), framework.WithSessionTimeout(calm))
		states := kit.Watch(t, c)
		states.Next(framework.Connected, 1)
		reconnect := func() {
			link.Cut()
			states.Next(framework.Suspended, 1)
			link.Heal()
			states.Next(framework.Reconnected, 1)
		}
		who := func(path string) string {
			_, err := c.Create().WithACL(framework.CreatorACL()...).ForPath(kit.Context(t), path, nil)
			require.NoError(t, err)
			acl, err := c.GetACL().ForPath(kit.Context(t), path)
			require.NoError(t, err)
			return acl[0].ID
		}
		assert.Equal(t, "CN=mover", who("/a"))
		require.NoError(t, os.WriteFile(files.Cert, []byte("half a f"), 0o600))
		reconnect()
		assert.Equal(t, "CN=mover", who("/b"), "what cannot be read does not count")
		pair, err := os.ReadFile(ca.issue("moved", time.Hour))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(files.Cert, pair, 0o600))
		reconnect()
		assert.Equal(t, "CN=moved", who("/c"))
		assert.NoError(t, s.Context().Err(), "the same session")
	})
}

func TestDigestACLs(t *testing.T) {
	t.Parallel()
	node := start(t, zkserver.Options{})
	auth := digest("user", "secret")
	survives(t, node.Addr(), node.Addr(), []framework.Option{auth}, auth)
	for _, stranger := range []framework.Option{digest("user", "wrong"), digest("other", "secret"),
		framework.WithReadOnly()} {
		c, _ := kit.Connected(t, node.Addr(), stranger)
		_, err := c.GetData().ForPath(kit.Context(t), "/mine/data")
		assert.ErrorIs(t, err, framework.ErrNoAuth)
		assert.ErrorIs(t, c.Delete().ForPath(kit.Context(t), "/mine/data"), framework.ErrNoAuth)
	}
	err := refused(t, node.Addr(), unauthenticated, framework.WithAuth("nosuchscheme", []byte("secret")))
	assert.ErrorIs(t, err, framework.ErrAuthFailed)
	assert.NotContains(t, err.Error(), "secret")
}

var users = map[string]string{"alice": `p"a\ss, word=`, "bob": "bobs", "päul": "pässwörd", "ryū": "竜",
	"java": "cup"}

func sasl(user string) framework.Option { return framework.WithSASLDigest(user, users[user]) }

// The server refuses any session without a login.
func TestSASLRequired(t *testing.T) {
	t.Parallel()
	node := start(t, zkserver.Options{Config: []string{"sessionRequireClientSASLAuth=true",
		"requireClientAuthScheme=sasl"}}.WithSASL(t, users))
	c := survives(t, node.Addr(), node.Addr(), []framework.Option{sasl("alice")}, sasl("alice"))
	acl, err := c.GetACL().ForPath(kit.Context(t), "/mine")
	require.NoError(t, err)
	assert.Equal(t, []framework.ACL{{Perms: framework.PermAll, Scheme: "sasl",
		ID: framework.SASLIdentity("alice").ID}}, acl)
	for _, user := range []string{"päul", "ryū"} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			c, _ := kit.Connected(t, node.Addr(), sasl(user))
			path, err := c.Create().WithACL(framework.CreatorACL()...).ForPath(kit.Context(t), "/of-"+user, nil)
			require.NoError(t, err)
			acl, err := c.GetACL().ForPath(kit.Context(t), path)
			require.NoError(t, err)
			assert.Equal(t, user, acl[0].ID)
		})
	}
	for what, opts := range map[string][]framework.Option{
		"wrong password": {framework.WithSASLDigest("alice", "hush-hush")},
		"unknown user":   {framework.WithSASLDigest("mallory", "hush-hush")},
		"another scheme": {digest("user", "hush-hush")},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			err := refused(t, node.Addr(), unauthenticated, opts...)
			assert.ErrorIs(t, err, framework.ErrAuthFailed)
			assert.NotContains(t, err.Error(), "hush")
		})
	}
	t.Run("nobody", func(t *testing.T) { t.Parallel(); unwelcome(t, node.Addr()) })
}

// unwelcome connects a client that the server refuses only at its first request: the client may report Connected once,
// and not again.
func unwelcome(t *testing.T, addr string, opts ...framework.Option) {
	t.Helper()
	link := proxy.New(t, addr)
	c := kit.Dial(t, link.Addr(), append(opts, framework.WithSessionTimeout(calm),
		framework.WithConnectionTimeout(time.Second))...)
	var last error
	kit.Soon(t, "the reason is told", func() bool {
		ctx, cancel := contextOf(t, 300*time.Millisecond)
		defer cancel()
		_, last = c.GetData().ForPath(ctx, "/")
		require.Error(t, last)
		return errors.Is(c.WaitConnected(ctx), framework.ErrAuthFailed)
	})
	time.Sleep(2 * time.Second)
	states := kit.Watch(t, c)
	states.Next(framework.Suspended, 1)
	ctx, cancel := contextOf(t, time.Second)
	defer cancel()
	err := c.WaitConnected(ctx)
	assert.ErrorIs(t, err, framework.ErrAuthFailed)
	assert.False(t, states.Heard(), "no flapping")
	assert.LessOrEqual(t, link.Stats().Accepted, int64(20))
	t.Logf("%d connections; the errors: %v; %v", link.Stats().Accepted, last, err)
}

// Enforced authentication, by either scheme.
func TestEnforcedAuth(t *testing.T) {
	t.Parallel()
	for scheme, c := range map[string]struct{ right, wrong framework.Option }{
		"digest": {digest("user", "secret"), framework.WithAuth("ip", nil)},
		"sasl":   {sasl("bob"), digest("user", "secret")},
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			node := start(t, zkserver.Options{Config: []string{"enforce.auth.enabled=true", "enforce.auth.schemes=" +
				scheme}}.WithSASL(t, users))
			survives(t, node.Addr(), node.Addr(), []framework.Option{c.right}, c.right)
			t.Run("wrong", func(t *testing.T) { t.Parallel(); refused(t, node.Addr(), unauthenticated, c.wrong) })
			t.Run("nobody", func(t *testing.T) { t.Parallel(); unwelcome(t, node.Addr()) })
		})
	}
}

// A server without a JAAS section has no logins. The client returns an error instead of waiting forever.
func TestNoSASL(t *testing.T) {
	t.Parallel()
	node := start(t, zkserver.Options{})
	err := refused(t, node.Addr(), unauthenticated, sasl("bob"))
	assert.ErrorIs(t, err, framework.ErrAuthFailed)
	assert.ErrorContains(t, err, "JAAS")
}
