package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

var rawCode = regexp.MustCompile(`\bcode -?[0-9]|error -[0-9]`)

// saidOnce checks that an error has no phrase twice, and no error code in place of words.
func saidOnce(t *testing.T, err error) {
	t.Helper()
	if phrase := doubled(err.Error()); phrase != "" {
		t.Errorf("twice %q in: %v", phrase, err)
	}
	assert.NotRegexp(t, rawCode, err.Error())
}

// doubled returns a phrase, between colons, commas, semicolons or parentheses, that a text has twice, or "".
func doubled(text string) string {
	seen := map[string]bool{}
	for _, phrase := range regexp.MustCompile(`: |; |, |\(|\)`).Split(text, -1) {
		phrase = strings.TrimSpace(phrase)
		if len(phrase) > 8 && seen[phrase] {
			return phrase
		}
		seen[phrase] = true
	}
	return ""
}

func TestDoubled(t *testing.T) {
	assert.Equal(t, "invalid path", doubled("cache: invalid path: invalid path: it is empty"))
	assert.Equal(t, "authentication failed", doubled("authentication failed (h:1: authentication failed)"))
	assert.Empty(t, doubled("getData /x: node does not exist"))
}

// troubleWith returns the error that a client of a server at addr reports about its failed attempts to connect.
func troubleWith(t *testing.T, addr string, opts ...Option) error {
	t.Helper()
	// With this timeout even a busy machine replies before an attempt times out.
	c, err := New(addr, append([]Option{WithSessionTimeout(time.Minute)}, opts...)...)
	require.NoError(t, err)
	defer c.Close()
	for c.Health().Trouble == nil {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = c.WaitConnected(ctx)
	require.Error(t, err)
	saidOnce(t, err)
	return err
}

// answering starts a server that sends a text to each client after its first bytes, and closes the connection.
func answering(t *testing.T, text string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1024))
			_, _ = conn.Write([]byte(text))
			conn.Close()
		}
	})
	t.Cleanup(func() { listener.Close(); done.Wait() })
	return listener
}

// The error names the kind of server at the address if that is not a ZooKeeper server.
func TestStrangersAreNamed(t *testing.T) {
	for text, words := range map[string][]string{
		"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n": {"a web server answered"},
		"\x15\x03\x01\x00\x02\x02\x46":                          {"TLS", "secureClientPort"},
		"SSH-2.0-OpenSSH_9.2\r\n":                               {`begins with "SSH-"`},
		"\xff\xff\xff\xff\x00":                                  {"begins with ff ff ff ff"},
		"": {"closed the connection without an answer",
			"secureClientPort", "WithTLS"},
	} {
		err := troubleWith(t, answering(t, text).Addr().String())
		for _, word := range words {
			assert.ErrorContains(t, err, word, "%q", text)
		}
	}

	patient := httptest.NewServer(http.NotFoundHandler()) // it waits for the end of a line
	defer patient.Close()
	assert.ErrorContains(t, troubleWith(t, patient.Listener.Addr().String(), WithSessionTimeout(time.Second)),
		"no answer from the server: is it a ZooKeeper server?")

	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	assert.ErrorContains(t, troubleWith(t, secure.Listener.Addr().String()), "secureClientPort")
	// With TLS the hint is another one.
	err := troubleWith(t, answering(t, "").Addr().String(), WithTLS(&tls.Config{}))
	assert.ErrorIs(t, err, ErrTLS)
	assert.NotContains(t, err.Error(), "WithTLS")
}

// The error names the identity that a server refuses, and contains nothing else of the credential.
func TestARefusedIdentityIsNamed(t *testing.T) {
	for _, tc := range []struct {
		cfg  zktest.Config
		opt  Option
		want string
	}{
		{zktest.Config{}, WithAuth("nosuchscheme", []byte("token:hush")),
			`the server refused the credential of scheme "nosuchscheme"`},
		{zktest.Config{SASLUsers: map[string]string{"alice": "right"}}, WithSASLDigest("alice", "hush"),
			`the server refused the login of user "alice" by DIGEST-MD5`},
		{zktest.Config{SASLUsers: map[string]string{"alice": "right"}, RequireSASL: true},
			WithAuth("digest", []byte("bob:hush")), "requires its clients to authenticate"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.RunT(t, tc.cfg)
			c := dial(t, srv, tc.opt)
			_, err := c.GetData().ForPath(t.Context(), "/")
			require.ErrorIs(t, err, ErrAuthFailed)
			assert.ErrorContains(t, err, tc.want)
			assert.NotContains(t, err.Error(), "hush")
			saidOnce(t, err)
			synctest.Wait()
			saidOnce(t, c.Health().Err())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			saidOnce(t, c.WaitConnected(ctx))
		})
	}
}

// Errors of many kinds have each phrase once, and words in place of error codes.
func TestErrorsAreReadOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		errs := map[string]error{}
		_, errs["missing parent"] = c.Create().ForPath(ctx, "/none/x", nil)
		_, errs["missing parent in the background"] = c.Create().InBackground().ForPath(ctx, "/none/x",
			nil).Wait(ctx)
		_, errs["missing parent in a transaction"] = c.Transaction(ctx,
			c.TransactionOp().Create().ForPath("/none/x", nil))
		_, errs["missing parent of a protected node"] = c.Create().WithProtection().ForPath(ctx, "/none/x", nil)
		for what := range errs {
			require.ErrorIs(t, errs[what], ErrNoNode)
			assert.ErrorContains(t, errs[what], "the parent /none", what)
		}
		_, errs["path"] = c.GetData().ForPath(ctx, "no path")
		_, errs["no node"] = c.GetData().ForPath(ctx, "/none")
		_, errs["large"] = c.Create().ForPath(ctx, "/large", make([]byte, 1<<21))
		require.ErrorIs(t, errs["large"], ErrTooLarge)
		assert.NotErrorIs(t, errs["large"], ErrOutcomeUnknown)
		for _, word := range []string{"2097", "1048575", "WithMaxFrame"} {
			assert.ErrorContains(t, errs["large"], word)
		}
		_, errs["namespace"] = c.UsingNamespace("a//b").GetData().ForPath(ctx, "/x")
		_, errs["mode"] = c.Create().WithMode(CreateMode(77)).ForPath(ctx, "/x", nil)
		_, errs["option"] = New("h", WithMaxFrame(1))
		_, errs["connect string"] = New("h1 h2")
		_, errs["chroot"] = New("h1/a//b")
		for code := int32(-130); code < 0; code++ {
			srv.Inject(zktest.Fault{Op: "exists", PathPrefix: "/code", Action: zktest.ReplyError,
				Err: zktest.Error(code), Times: 1})
			_, errs[fmt.Sprint("answer ", code)] = c.CheckExists().InBackground().ForPath(ctx, "/code").Wait(ctx)
		}
		require.NoError(t, c.WaitConnected(ctx))
		srv.Pause()
		errs["close"] = c.Close()
		require.ErrorIs(t, errs["close"], ErrUnacknowledged)
		srv.Resume()
		_, errs["closed"] = c.GetData().ForPath(ctx, "/x")
		for what, err := range errs {
			if err != nil {
				t.Log(what)
				saidOnce(t, err)
			}
		}
	})
}

// The server closes the connection on a request that is too large for it, and would do so each time. So the request is sent
// twice at most, and the error names the cause, not only the lost connection.
func TestARequestAboveTheServersLimit(t *testing.T) {
	write := func(t *testing.T, limit, size int, ours ...Option) (time.Duration, int, error) {
		var took time.Duration
		var tries int
		var err error
		bubbleOf(t, zktest.Config{MaxFrame: limit}, func(t *testing.T, srv *zktest.Server, c *Client) {
			began, links := time.Now(), c.Health().Connections
			_, err = c.Create().ForPath(t.Context(), "/large", make([]byte, size))
			took = time.Since(began)
			tries = int(c.Health().Connections - links)
			require.NoError(t, c.WaitConnected(t.Context()))
			require.False(t, srv.Exists("/large"))
			_, err := c.Create().ForPath(t.Context(), "/small", nil)
			require.NoError(t, err)
		}, ours...)
		return took, tries, err
	}
	took, _, err := write(t, 0, 2<<20, WithMaxFrame(4<<20))
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorIs(t, err, ErrOutcomeUnknown, "nobody can know")
	assert.Less(t, took, time.Second, "no server takes that by default: it is not tried again")
	for _, word := range []string{"create /large", "2097", "1048575", "jute.maxbuffer", "WithMaxFrame"} {
		assert.ErrorContains(t, err, word)
	}
	saidOnce(t, err)

	took, _, err = write(t, 100_000, 200_000)
	require.ErrorIs(t, err, ErrTooLarge)
	assert.Less(t, took, 3*time.Second, "once more, since it may have been something else")
	assert.ErrorContains(t, err, "jute.maxbuffer")
	assert.False(t, Retryable(err))
	saidOnce(t, err)

	// If a connection is lost by chance under a large request, the error is no other than usual.
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		make1(t, c, "/large", "")
		srv.Inject(zktest.Fault{Op: "setData", Action: zktest.CutBefore, Times: 1})
		_, err := c.SetData().ForPath(t.Context(), "/large", make([]byte, 200_000))
		assert.NoError(t, err, "the second try")
		srv.Inject(zktest.Fault{Op: "setData", Action: zktest.CutBefore, Times: 1})
		_, err = c.SetData().InBackground().ForPath(t.Context(), "/large", make([]byte, 200_000)).Wait(t.Context())
		require.ErrorIs(t, err, ErrConnectionLoss)
		assert.NotErrorIs(t, err, ErrTooLarge)
		assert.ErrorContains(t, err, "may be more than the server's jute.maxbuffer")
		saidOnce(t, err)
	})
}

// The same on a real connection, which ends in the middle of the request.
func TestARequestAboveTheServersLimitOverTCP(t *testing.T) {
	srv, err := zktest.NewServer(zktest.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	defer srv.Close()
	c, err := New(srv.Addr(), WithMaxFrame(64<<20))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.WaitConnected(t.Context()))
	for _, size := range []int{2 << 20, 32 << 20} {
		_, err = c.Create().ForPath(t.Context(), "/large", make([]byte, size))
		require.ErrorIs(t, err, ErrTooLarge)
		require.ErrorIs(t, err, ErrOutcomeUnknown)
		saidOnce(t, err)
	}
}
