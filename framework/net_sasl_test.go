package framework

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// The example of RFC 2831, section 4, with its service and realm.
func TestDigestMD5ByTheBook(t *testing.T) {
	l := &digestLogin{digestMD5: &digestMD5{user: "chris", password: "secret"}, cnonce: "OA6MHXh6VqTrRk"}
	got, done, err := l.Step(nil)
	require.NoError(t, err)
	assert.False(t, done)
	assert.Equal(t, []byte{}, got)
	got, done, err = l.Step([]byte(`realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",` +
		`qop="auth",algorithm=md5-sess,charset=utf-8`))
	require.NoError(t, err)
	assert.False(t, done)
	d, err := parseDirectives(got)
	require.NoError(t, err)
	response := d["response"]
	delete(d, "response")
	assert.Equal(t, map[string]string{"charset": "utf-8", "username": "chris", "realm": "elwood.innosoft.com",
		"nonce": "OA6MG9tEQGm2hh", "nc": "00000001",
		"cnonce": "OA6MHXh6VqTrRk", "digest-uri": digestURI, "qop": "auth"}, d)
	// The book's own digest-uri is "imap/elwood.innosoft.com", its response d388dad90d4bbd760a152321f2143af7.
	assert.Equal(t, "d388dad90d4bbd760a152321f2143af7",
		digestProof("chris:elwood.innosoft.com:secret", "OA6MG9tEQGm2hh", "OA6MHXh6VqTrRk",
			"AUTHENTICATE:imap/elwood.innosoft.com"))
	assert.Equal(t, digestProof("chris:elwood.innosoft.com:secret", "OA6MG9tEQGm2hh", "OA6MHXh6VqTrRk",
		"AUTHENTICATE:"+digestURI), response)
	_, done, err = l.Step([]byte("rspauth=" + digestProof("chris:elwood.innosoft.com:secret", "OA6MG9tEQGm2hh",
		"OA6MHXh6VqTrRk", ":"+digestURI)))
	require.NoError(t, err)
	assert.True(t, done)
}

func TestChallengesThatAreRefused(t *testing.T) {
	for name, challenge := range map[string]string{
		"none":          "",
		"no nonce":      `algorithm=md5-sess`,
		"algorithm":     `nonce="x",algorithm=sha-256`,
		"encryption":    `nonce="x",algorithm=md5-sess,qop="auth-int,auth-conf"`,
		"no UTF-8":      `nonce="x",algorithm=md5-sess`, // and the user needs it
		"open quote":    `nonce="x,algorithm=md5-sess`,
		"open escape":   `nonce="x\`,
		"no value":      `nonce`,
		"no key":        `="x"`,
		"quoted key":    `"a"=b`,
		"far too large": `nonce="` + strings.Repeat("x", 3000) + `",algorithm=md5-sess`,
	} {
		t.Run(name, func(t *testing.T) {
			l := &digestLogin{digestMD5: &digestMD5{user: "竜", password: "hush"}}
			_, _, err := l.Step(nil)
			require.NoError(t, err)
			_, _, err = l.Step([]byte(challenge))
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "hush")
		})
	}
	for _, word := range []string{"", "rspauth=", "rspauth=00", "rspauth", `rspauth="`} {
		l := &digestLogin{digestMD5: &digestMD5{user: "u", password: "hush"}}
		_, _, _ = l.Step(nil)
		_, _, err := l.Step([]byte(`nonce="x",algorithm=md5-sess,charset=utf-8`))
		require.NoError(t, err)
		_, done, err := l.Step([]byte(word))
		assert.ErrorIs(t, err, errServerUnproven)
		assert.False(t, done)
	}
}

func FuzzDirectives(f *testing.F) {
	f.Add([]byte(`realm="a\"b",nonce=x , qop="auth,auth-int"`))
	f.Fuzz(func(t *testing.T, challenge []byte) {
		d, err := parseDirectives(challenge)
		if err != nil {
			assert.ErrorIs(t, err, errMalformedChallenge)
		}
		for k := range d {
			assert.NotEmpty(t, k)
		}
	})
}

func TestSASLThroughReconnect(t *testing.T) {
	for user, password := range map[string]string{"alice": `p"a\ss, w=`, "päul": "pässwörÿ", "ryū": "竜"} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.RunT(t, zktest.Config{SASLUsers: map[string]string{user: password}, RequireSASL: true})
			c := dial(t, srv, WithSASLDigest(user, password), WithDefaultACL(CreatorACL()...))
			next := changesOf(t, c)
			next(StateChange{Connected, 1})
			s := connected(t, c)
			_, err := c.Create().WithMode(Ephemeral).ForPath(t.Context(), "/a", nil)
			require.NoError(t, err)
			acl, err := c.GetACL().ForPath(t.Context(), "/a")
			require.NoError(t, err)
			assert.Equal(t, []ACL{{PermAll, "sasl", user}}, acl)
			_, w, err := c.GetData().WithWatch().ForPath(t.Context(), "/a")
			require.NoError(t, err)
			srv.Cut(s.ID())
			next(StateChange{Suspended, 1}, StateChange{Reconnected, 1})
			_, err = c.SetData().ForPath(t.Context(), "/a", nil)
			require.NoError(t, err)
			assert.Equal(t, EventNodeDataChanged, (<-w.C).Type)
			// A new session, opened after the servers have ended the old one.
			srv.Expire(s.ID())
			next(StateChange{Suspended, 1}, StateChange{Lost, 1}, StateChange{Reconnected, 2})
			require.NoError(t, c.Close())
			assert.Empty(t, srv.Sessions())
		})
	}
}

func TestRefusedLogin(t *testing.T) {
	users := map[string]string{"alice": "right"}
	stranger := &digestLogin{digestMD5: &digestMD5{user: "bob", password: "hush"}, cnonce: "n"}
	for name, test := range map[string]struct {
		cfg  zktest.Config
		opt  Option
		why  error
		says string
	}{
		"wrong password": {zktest.Config{SASLUsers: users}, WithSASLDigest("alice", "hush"), nil, `user "alice"`},
		"stranger": {zktest.Config{SASLUsers: users, RequireSASL: true}, WithSASLDigest("bob", "hush"), nil,
			`user "bob"`},
		"no logins": {zktest.Config{}, WithSASLDigest("alice", "hush"), errNoSASL, ""},
		"nothing":   {zktest.Config{SASLUsers: users}, WithSASL(mechanism{}), nil, "OTHER: Start returned neither"},
		"another mechanism": {zktest.Config{SASLUsers: users}, WithSASL(mechanism{login: stranger}), nil,
			"the client by OTHER"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t, test.cfg)
				c := dial(t, srv, test.opt, WithConnectionTimeout(time.Second))
				changes := c.StateChanges(t.Context())
				_, err := c.GetData().ForPath(t.Context(), "/")
				assert.ErrorIs(t, err, ErrAuthFailed)
				assert.ErrorIs(t, err, ErrNotConnected)
				assert.NotContains(t, err.Error(), "hush")
				assert.ErrorContains(t, err, test.says)
				if test.why != nil {
					assert.ErrorIs(t, err, test.why)
				}
				time.Sleep(time.Minute)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.ErrorIs(t, c.WaitConnected(ctx), ErrAuthFailed)
				assert.Less(t, srv.Counts()["connect"], 40)
				assert.Empty(t, changes, "it has never been connected")
			})
		})
	}
}

// mechanism is a mechanism named OTHER with a given login. It sends the host that it gets to hosts.
type mechanism struct {
	login SASLLogin
	hosts chan string
}

func (mechanism) Name() string { return "OTHER" }
func (m mechanism) Start(_ context.Context, host string) (SASLLogin, error) {
	if host == "" {
		return nil, errors.New("no host")
	}
	if m.hosts != nil {
		m.hosts <- host
	}
	return m.login, nil
}

func TestSASLOptions(t *testing.T) {
	for _, opt := range []Option{WithSASL(nil), WithSASLDigest("", "x")} {
		_, err := New("zk", opt)
		assert.ErrorIs(t, err, ErrInvalidOption)
	}
}

func TestExtensionPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{SASLUsers: map[string]string{"alice": "x"}, RequireSASL: true})
		login := &digestLogin{digestMD5: &digestMD5{user: "alice", password: "x"}, cnonce: "n"}
		hosts := make(chan string, 1)
		connected(t, dial(t, srv, WithSASL(mechanism{login, hosts})))
		assert.Equal(t, srv.Addr(), net.JoinHostPort(<-hosts, "2181"), "without the port")
	})
}

// reticent is a mechanism whose Name returns once; the next call ends its goroutine.
type reticent struct {
	mechanism
	asked *once
	named bool
}

func (r *reticent) Name() string {
	if r.named {
		r.asked.call()
	}
	r.named = true
	return "OTHER"
}

// A mechanism is asked for its name by New, and not on the client's own goroutines.
func TestAMechanismIsAskedForItsNameOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t, zktest.Config{SASLUsers: map[string]string{"alice": "x"}})
		m := &reticent{asked: &once{}}
		c := dial(t, srv, WithSASL(m))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.ErrorContains(t, c.WaitConnected(ctx), "OTHER")
		assert.False(t, m.asked.struck.Load())
	})
}
