package framework

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// changing is a login with a password that can be corrected.
type changing struct{ password atomic.Value }

func (*changing) Name() string { return "DIGEST-MD5" }

func (m *changing) Start(context.Context, string) (SASLLogin, error) {
	return &digestLogin{digestMD5: &digestMD5{user: "alice", password: secretText(m.password.Load().(string))},
		cnonce: "n"}, nil
}

func TestRefusedCredentialsAreToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{SASLUsers: map[string]string{"alice": "right"}})
		login := &changing{}
		login.password.Store("wrong")
		// With the usual timeout and retries an operation would wait for over a minute.
		c := dial(t, srv, WithSASL(login))
		ctx, start := t.Context(), time.Now()
		_, err := c.GetData().ForPath(ctx, "/")
		require.ErrorIs(t, err, ErrAuthFailed)
		assert.ErrorIs(t, err, ErrNotConnected)
		assert.NotErrorIs(t, err, ErrOutcomeUnknown)
		assert.ErrorContains(t, err, srv.Addr()+": authentication failed: SASL", "it says who refused, and why")
		_, err = c.Create().WithProtection().ForPath(ctx, "/a", nil)
		require.ErrorIs(t, err, ErrAuthFailed)
		_, err = c.GetData().InBackground().ForPath(ctx, "/").Wait(ctx)
		require.ErrorIs(t, err, ErrAuthFailed)
		_, err = c.SessionSoon(ctx) // as recipes do
		require.ErrorIs(t, err, ErrAuthFailed)
		assert.False(t, Retryable(err))
		assert.Less(t, time.Since(start), time.Second)
		assert.Zero(t, c.PendingCleanups(), "nothing was sent")
		synctest.Wait()
		assert.ErrorIs(t, c.Health().Err(), ErrAuthFailed)

		login.password.Store("right")
		require.NoError(t, c.WaitConnected(ctx))
		_, err = c.GetData().ForPath(ctx, "/")
		require.NoError(t, err)
	})
}

// If one of several servers refuses the login, the client tries the others before it reports an error.
func TestOneServerThatRefusesIsNotAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		strict := zktest.RunT(t, zktest.Config{SASLUsers: map[string]string{"alice": "another"}})
		fine := zktest.RunT(t, zktest.Config{SASLUsers: map[string]string{"alice": "right"}})
		for range 20 { // the order of the servers is random
			c, err := New("strict:2181,fine:2181", WithSASLDigest("alice", "right"),
				WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
					if addr == "fine:2181" {
						return fine.Dial(ctx, network, fine.Addr())
					}
					return strict.Dial(ctx, network, strict.Addr())
				}))
			require.NoError(t, err)
			_, err = c.GetData().ForPath(t.Context(), "/")
			require.NoError(t, err)
			require.NoError(t, c.Close())
		}
	})
}

// While every server refuses the credentials nothing is sent. When they are right again the client does its clean-ups, in
// the session that has lived through that: otherwise the node of a contender that released a lock, or left a line, would
// stay.
func TestRefusedCredentialsDoNotForgetWhatIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{SASLUsers: map[string]string{"alice": "right"}})
		login := &changing{}
		login.password.Store("right")
		c := dial(t, srv, WithSASL(login), WithSessionTimeout(40*time.Second))
		ctx := t.Context()
		_, err := c.Create().WithMode(Ephemeral).ForPath(ctx, "/foreground", nil)
		require.NoError(t, err)
		_, err = c.Create().WithMode(Ephemeral).ForPath(ctx, "/background", nil)
		require.NoError(t, err)
		s, err := c.Session(ctx)
		require.NoError(t, err)
		_, err = c.Create().ForPath(ctx, "/data", nil)
		require.NoError(t, err)

		set := srv.Inject(zktest.Fault{Op: "setData", Action: zktest.LoseReply})
		login.password.Store("wrong")
		_, err = c.SetData().ForPath(ctx, "/data", []byte("1"))
		<-set.Struck()
		require.ErrorIs(t, err, ErrAuthFailed)
		require.ErrorIs(t, err, ErrOutcomeUnknown, "the first try was executed")

		require.ErrorIs(t, s.Client().Delete().Guaranteed().ForPath(ctx, "/foreground"), ErrAuthFailed)
		_, err = s.Client().Delete().Guaranteed().InBackground().ForPath(ctx, "/background").Wait(ctx)
		require.ErrorIs(t, err, ErrAuthFailed)
		assert.Equal(t, 2, c.PendingCleanups())

		login.password.Store("right")
		require.NoError(t, c.WaitConnected(ctx))
		time.Sleep(10 * time.Second)
		assert.Zero(t, c.PendingCleanups())
		assert.False(t, srv.Exists("/foreground"))
		assert.False(t, srv.Exists("/background"))
		assert.NoError(t, s.Context().Err(), "it is the same session")
	})
}
