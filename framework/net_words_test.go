package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestFourLetterWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		c := dial(t, srv)
		connected(t, c)
		answer, err := c.FourLetterWord(t.Context(), c.Servers()[0], "srvr")
		require.NoError(t, err)
		assert.Contains(t, answer, "Mode: standalone")
		assert.Equal(t, 1, len(srv.Sessions()), "it opens no session")

		for _, word := range []string{"", "srv", "srvrs", "SRVR", "a\nbc", strings.Repeat("x", 1<<20)} {
			_, err = c.FourLetterWord(t.Context(), c.Servers()[0], word)
			assert.ErrorIs(t, err, ErrBadArguments, "%.10q", word)
			assert.Less(t, len(err.Error()), 2048)
		}
		//lint:ignore SA1012 that is what is tested
		_, err = c.FourLetterWord(nil, c.Servers()[0], "srvr")
		assert.ErrorIs(t, err, ErrNilContext)
		_, err = (*Client)(nil).FourLetterWord(t.Context(), "a:1", "srvr")
		assert.ErrorIs(t, err, ErrNoClient)

		srv.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err = c.FourLetterWord(ctx, c.Servers()[0], "srvr")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
		srv.Resume()

		require.NoError(t, c.Close())
		_, err = c.FourLetterWord(t.Context(), srv.Addr(), "srvr")
		assert.ErrorIs(t, err, ErrClosed)
	})
}

// A server that refuses a word replies so, or closes the connection; a server may also send a reply without an end.
func TestFourLetterWordThatIsNotAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		end    bool // of the reply
		err    error
	}{
		"refused":      {"cons is not executed because it is not in the whitelist.\n", true, ErrWordRefused},
		"closed":       {"", true, ErrWordRefused},
		"without end":  {"Zookeeper version: 3", false, context.DeadlineExceeded},
		"without stop": {strings.Repeat("x", maxWordReply+10), true, ErrReplyTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t)
				c := dial(t, srv, WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr != "words:1" {
						return srv.Dial(ctx, network, addr)
					}
					ours, theirs := net.Pipe()
					go func() {
						word := make([]byte, 4)
						_, _ = theirs.Read(word)
						_, _ = theirs.Write([]byte(tt.answer))
						if !tt.end {
							_, _ = theirs.Read(word) // until we close it
						}
						theirs.Close()
					}()
					return ours, nil
				}))
				connected(t, c)
				_, err := c.FourLetterWord(t.Context(), "words:1", "cons")
				assert.ErrorIs(t, err, tt.err)
			})
		})
	}
}

// A server that requires a certificate reports that after the client's part of the handshake. It is no refusal of the word.
func TestFourLetterWordOfAServerThatWantsACertificate(t *testing.T) {
	pem := selfSigned(t, "words", time.Now().Add(time.Hour))
	own, err := tls.X509KeyPair(pem, pem)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var served sync.WaitGroup
	defer served.Wait()
	defer listener.Close()
	served.Go(func() {
		theirs, err := listener.Accept()
		if !assert.NoError(t, err) {
			return
		}
		defer theirs.Close()
		_ = tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert}).Handshake()
		_, _ = io.Copy(io.Discard, theirs)
	})
	c, err := New("elsewhere:1", WithTLSFiles(TLSFiles{CA: writeFile(t, "ca.pem", pem)}),
		WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != "words:1" {
				return nil, errors.New("there is no such server")
			}
			var d net.Dialer
			return d.DialContext(ctx, network, listener.Addr().String())
		}))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.FourLetterWord(t.Context(), "words:1", "srvr")
	assert.ErrorIs(t, err, ErrTLS)
	assert.NotErrorIs(t, err, ErrWordRefused)
	assert.ErrorContains(t, err, "it may require a client certificate")
}
