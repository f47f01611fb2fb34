package inspect_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/zktest"
)

// reaching returns a client of some servers, with all connections made by dial. It need not be connected.
func reaching(t *testing.T, servers string, dial framework.Dialer, opts ...framework.Option) *framework.Client {
	t.Helper()
	c, err := framework.New(servers, append(opts, framework.WithDialer(dial))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// hanging returns a dialer of servers that accept connections and then do nothing.
func hanging(t *testing.T) framework.Dialer {
	ends := make(chan net.Conn, 1000)
	t.Cleanup(func() {
		for len(ends) > 0 {
			(<-ends).Close()
		}
	})
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		ends <- theirs
		return ours, nil
	}
}

// wantingTLS returns a dialer of servers that, as TLS libraries do, wait for the first five bytes of TLS, and hang up if
// they are something else. A four-letter word is shorter.
func wantingTLS(*testing.T) framework.Dialer {
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			_, _ = io.ReadFull(theirs, make([]byte, 5))
		}()
		return ours, nil
	}
}

// If no server can be reached it is unknown whether there is a quorum: the report has that, and the reasons why they cannot
// be reached.
func TestDoctorThatReachesNobody(t *testing.T) {
	for name, test := range map[string]struct {
		dial func(t *testing.T) framework.Dialer
		opts []framework.Option
		why  string // in the first advice
		next string // in the advice for each server
	}{
		"refused": {
			func(t *testing.T) framework.Dialer { s := zktest.RunT(t); s.Stop(); return s.Dial }, nil,
			"(refused: 2)", "refuses connections: it does not run, or not at this address",
		},
		"silent": {hanging, nil, "(silent: 2)", "has not replied for 3s: it hangs, its machine or the network is down"},
		"a handshake that hangs": {
			hanging, []framework.Option{framework.WithTLS(&tls.Config{})},
			"(silent: 2)", "has not replied for 3s: it hangs, its machine or the network is down, or a firewall drops the packets",
		},
		"a port that wants TLS": {
			wantingTLS, nil, "(silent: 2)",
			"a firewall drops the packets, or this port expects TLS (its secureClientPort), and the client uses none",
		},
		"a port without TLS": {
			func(t *testing.T) framework.Dialer { return zktest.RunT(t).Dial },
			[]framework.Option{framework.WithTLS(&tls.Config{})},
			"(no TLS connection: 2)", "cannot be reached through TLS: ",
		},
		"no such host": {
			func(*testing.T) framework.Dialer {
				return func(context.Context, string, string) (net.Conn, error) {
					return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
				}
			}, nil, "(unreachable: 2)", "no such host",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := doctor(t, reaching(t, "a:1,b:1", test.dial(t), test.opts...))
				require.Len(t, r.Advice, 3, "%q", r.Advice)
				assert.Contains(t, r.Advice[0], "cannot reach the servers: none that the client tries replies "+test.why)
				assert.Contains(t, r.Advice[0], "it is unknown whether there is a quorum")
				assert.NotContains(t, r.Advice[0], "there is no quorum")
				if trouble := r.Health.Trouble; trouble != nil {
					assert.True(t, strings.HasSuffix(r.Advice[0], "; the client's last attempt: "+trouble.Error()), r.Advice[0])
				}
				assert.Equal(t, strings.HasPrefix(test.why, "(silent") && !r.Health.Encrypted,
					strings.Contains(r.Advice[1], "expects TLS"), r.Advice[1])
				assert.Contains(t, r.Advice[1], test.next)
				assert.Contains(t, r.Advice[2], test.next)
			})
		})
	}
}

// The reply of a server without a quorum proves nothing about the servers that cannot be reached.
func TestDoctorThatReachesAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := zktest.RunEnsembleT(t, 3)
		c := reaching(t, e.ConnectString(), e.Dial)
		require.NoError(t, c.WaitConnected(t.Context()))
		e.Member(0).Stop()
		e.Member(1).Pause()
		time.Sleep(time.Minute)
		r := doctor(t, c)
		assert.Contains(t, r.Advice[0], "no server with a quorum can be reached: 1 reply that they have no quorum; the others "+
			"cannot be reached (refused: 1, silent: 1), and may have one; the client's last attempt: ")
		e.Member(1).Resume()
		e.Member(1).Stop()
		alone := reaching(t, e.Addrs()[2], e.Dial)
		time.Sleep(time.Second)
		r = doctor(t, alone)
		assert.Contains(t, r.Advice[0], "there is no quorum: each server that the client tries replies that it has none (1)")
	})
}

// The servers' replies until the context ends are not lost.
func TestServersUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		hang := hanging(t)
		c := reaching(t, "fine:1,away:1", func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasPrefix(addr, "away") {
				return hang(ctx, network, addr)
			}
			return s.Dial(ctx, network, s.Addr())
		})
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		began := time.Now()
		told, err := inspect.Servers(ctx, c)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
		require.Len(t, told, 2)
		modes := map[string]string{}
		for _, s := range told {
			modes[s.Address] = s.Role()
			assert.Equal(t, s.Address == "fine:1", s.MayServe())
		}
		assert.Equal(t, map[string]string{"fine:1": "standalone", "away:1": "silent"}, modes)
		assert.Contains(t, fmt.Sprint(inspect.Conclude(c, told, nil).Advice), "the server away:1 has not replied for 1s: it hangs")

		almost, cancel := context.WithTimeout(background, 999*time.Millisecond) // a second, less the time that it took to begin
		defer cancel()
		told, err = inspect.Servers(almost, c)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, fmt.Sprint(inspect.Conclude(c, told, nil).Advice), "the server away:1 has not replied for 1s: it hangs")

		moment, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		told, err = inspect.Servers(moment, c)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		advice := fmt.Sprint(inspect.Conclude(c, told, nil).Advice)
		assert.Contains(t, advice, "the server away:1 has not replied within 1ms: ")
		assert.NotContains(t, advice, "it hangs", "it had no time to answer")
	})
}

// Conclude draws its conclusions from given replies, without a request.
func TestConclude(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		told, err := inspect.Servers(background, c)
		require.NoError(t, err)
		s.ResetCounts()
		r := inspect.Conclude(c, told, errors.New("late"))
		synctest.Wait()
		assert.Empty(t, requests(s))
		assert.Equal(t, "the server does not reply to reads: late", r.Advice[0])
		assert.Equal(t, s.Addr(), r.Health.Server)
		assert.Equal(t, told, r.Told)
		assert.NotEmpty(t, r.Rule)
		none := []inspect.Server{{Address: s.Addr(), Mode: "read-only"}}
		r = inspect.Conclude(c, none, errors.New("late"))
		assert.Contains(t, r.Advice[0], "there is no quorum: ", "the client has not heard of it yet")
		assert.NotContains(t, fmt.Sprint(r.Advice), "late")
		assert.NotContains(t, fmt.Sprint(inspect.Conclude(c, none, nil).Advice), "there is no quorum: ", "it is connected to one")
		away := []inspect.Server{{Address: s.Addr(), Err: errors.New("no route")}}
		r = inspect.Conclude(c, away, errors.New("late"))
		assert.Contains(t, r.Advice[0], "cannot reach the servers: ")
		assert.Contains(t, r.Advice[0], "; the client's last attempt: late")
		s.Stop()
		time.Sleep(time.Second)
		r = inspect.Conclude(c, told, errors.New("late"))
		assert.Contains(t, r.Advice[0], "the client is not connected to a quorum: ")
		assert.NotContains(t, fmt.Sprint(r.Advice), "late", "why there is no connection says more")
		assert.NotEmpty(t, inspect.Conclude(nil, nil, nil).Advice)
		require.NoError(t, s.Start())
		require.NoError(t, c.WaitConnected(background))
	})
}
