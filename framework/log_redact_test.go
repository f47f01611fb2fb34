package framework

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// ears collect everything that a client reports, and find the secrets in it.
type ears struct {
	mu      sync.Mutex
	text    bytes.Buffer
	secrets map[string][]byte
}

func (e *ears) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(b)
}

// logged returns an option that sends a client's log to the ears.
func (e *ears) logged() Option {
	return WithLogger(slog.New(slog.NewTextHandler(e, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

// count returns how often the text contains what.
func (e *ears) count(what string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Count(e.text.String(), what)
}

// hear prints values that users have, with each verb that careless code may use, also in an unexported field, for which fmt
// calls no methods.
func (e *ears) hear(values ...any) {
	for _, v := range values {
		for _, verb := range verbs {
			fmt.Fprintf(e, verb+"\n", struct{ v any }{v})
		}
	}
	e.hearInside(values...)
}

var verbs = []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"}

// hearInside prints values that only this package has.
func (e *ears) hearInside(values ...any) {
	log := slog.New(slog.NewJSONHandler(e, nil))
	for _, v := range values {
		for _, verb := range verbs {
			fmt.Fprintf(e, verb+"\n", v)
		}
		log.Info("careless", "value", v)
		if b, err := json.Marshal(v); err == nil {
			_, _ = e.Write(b)
		}
		if err, ok := v.(error); ok {
			for ; err != nil; err = errors.Unwrap(err) {
				fmt.Fprintf(e, "%+v %#v\n", err, err)
			}
		}
	}
}

// leaks returns the names of the secrets that can be read in the collected text, with their form.
func (e *ears) leaks() (found []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := e.text.String()
	for name, secret := range e.secrets {
		var decimal, hexed []string
		for _, b := range secret {
			decimal, hexed = append(decimal, fmt.Sprint(b)), append(hexed, fmt.Sprintf("0x%x", b))
		}
		for form, s := range map[string]string{
			"plain": string(secret), "quoted": strings.Trim(fmt.Sprintf("%q", secret), `"`),
			"hex":    hex.EncodeToString(secret),
			"HEX":    strings.ToUpper(hex.EncodeToString(secret)),
			"base64": strings.TrimRight(base64.StdEncoding.EncodeToString(secret), "="),
			"%v":     strings.Join(decimal, " "), "%#v": strings.Join(hexed, ", "), "JSON": strings.Join(decimal, ","),
		} {
			if strings.Contains(text, s) {
				found = append(found, name+" as "+form)
			}
		}
	}
	return found
}

// The ears must find a secret if there is one.
func TestEarsHear(t *testing.T) {
	e := &ears{secrets: map[string][]byte{"it": []byte("hu\x01sh")}}
	assert.Empty(t, e.leaks())
	for _, v := range []any{"hu\x01sh", []byte("hu\x01sh"), struct{ b []byte }{[]byte("hu\x01sh")},
		errors.New("with hu\x01sh")} {
		e.text.Reset()
		e.hear(v)
		assert.NotEmpty(t, e.leaks(), "%v", v)
	}
}

// A client with all kinds of credentials meets all kinds of failures, and reports everything at debug level. No secret is
// in it.
func TestSecretsStaySecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &ears{secrets: map[string][]byte{"digest": []byte("hush-digest"),
			"wrong digest": []byte("hush-wrong"), "SASL": []byte("hush-sasl"),
			"wrong SASL": []byte("hush-login"), "odd": []byte("hush-odd")}}
		logs := []slog.Handler{
			slog.NewTextHandler(all, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}),
			slog.NewJSONHandler(all, &slog.HandlerOptions{Level: slog.LevelDebug}),
		}
		srv := zktest.RunT(t, zktest.Config{SASLUsers: map[string]string{"alice": "hush-sasl"}})
		digest := WithAuth("digest", []byte("user:hush-digest"))
		for i, opts := range [][]Option{
			{digest, WithSASLDigest("alice", "hush-sasl")},
			{digest, WithAuth("digest", []byte("user:hush-wrong")), WithSASLDigest("alice", "hush-sasl"),
				WithDefaultACL(DigestACL(PermAll, "user", "hush-digest"))},
			{WithAuth("digest", []byte("user:hush-wrong"))},
			{digest, WithSASLDigest("alice", "hush-login")},
			{digest, WithAuth("no such scheme", []byte("hush-odd"))},
		} {
			o := defaultOptions()
			for _, opt := range opts {
				require.NoError(t, opt(&o))
			}
			all.hearInside(o, &o, o.presentedCredentials(), o.sasl)
			all.hear(opts)
			opts = append(opts, WithLogger(slog.New(logs[i%2])), WithDialer(srv.Dial),
				WithSessionTimeout(10*time.Second), WithConnectionTimeout(2*time.Second),
				OnStateChange(func(c StateChange) { all.hear(c) }))
			c, err := New(srv.Addr(), opts...)
			require.NoError(t, err)
			all.hear(c)
			all.hearInside(*c) // behind a field fmt would read what other goroutines write
			try := func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				path, err := c.Create().WithMode(EphemeralSequential).WithProtection().ForPath(ctx, "/n-", []byte("x"))
				all.hear(path, err)
				_, err = c.GetData().ForPath(ctx, "/none")
				all.hear(err)
				acl, err := c.GetACL().ForPath(ctx, "/")
				all.hear(acl, err)
				_, err = c.Transaction(ctx, c.TransactionOp().Delete().ForPath("/none"))
				all.hear(err, c.WaitConnected(ctx))
				s, err := c.Session(ctx)
				all.hear(s, err)
				if err == nil {
					id, password := s.epoch.wire.Identity()
					all.secrets[fmt.Sprintf("password of %#x", id)] = password
					_, err := s.Hold(ctx, HoldOptions{Path: path})
					all.hear(err, s.Client(), s.epoch.wire.Err(), c.GetData(), c.Create())
				}
				all.hear(c.State(), c.Safety())
			}
			try()
			for _, f := range []zktest.Fault{
				{Op: "connect", Action: zktest.HalfHandshake}, {Op: "connect", Action: zktest.CutBefore},
				{Op: "connect", Action: zktest.ReplyError, Err: zktest.ErrSessionExpired},
				{Op: "auth", Action: zktest.CutBefore}, {Op: "auth", Action: zktest.DropRequest},
				{Op: "auth", Action: zktest.ReplyError, Err: zktest.ErrAuthFailed},
				{Op: "sasl", Action: zktest.CutBefore}, {Op: "sasl", Action: zktest.DropRequest},
				{Op: "create2", Action: zktest.LoseReply},
				{Op: "closeSession", Action: zktest.LoseReply},
			} {
				srv.Inject(f)
				srv.Cut(0)
				try()
			}
			for _, s := range srv.Sessions() {
				srv.Expire(s.ID)
			}
			try()
			all.hear(c.Close())
			try()
		}
		assert.GreaterOrEqual(t, len(all.secrets), 8)
		assert.Greater(t, all.text.Len(), 10_000)
		assert.Contains(t, all.text.String(), "[redacted]")
		assert.Empty(t, all.leaks())
	})
}

// outside is a connection that seems to leave the machine.
type outside struct{ net.Conn }

func (outside) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 2181} }

// A client that sends a password unencrypted over the network logs that once.
func TestCredentialsInClearAreTold(t *testing.T) {
	const message = "sending the credentials of WithAuth, passwords included, unencrypted"
	digest := WithAuth("digest", []byte("user:hush"))
	for name, test := range map[string]struct {
		away bool
		opts []Option
		want int
	}{
		"over the network": {true, []Option{digest}, 1}, "on the machine": {false, []Option{digest}, 0},
		"none":          {true, nil, 0},
		"a proof of it": {true, []Option{WithSASLDigest("alice", "hush")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				said := &ears{secrets: map[string][]byte{"it": []byte("hush")}}
				srv := zktest.RunT(t, zktest.Config{SASLUsers: map[string]string{"alice": "hush"}})
				c := dial(t, srv, append(test.opts, said.logged(),
					WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
						conn, err := srv.Dial(ctx, network, addr)
						if err == nil && test.away {
							conn = outside{conn}
						}
						return conn, err
					}))...)
				connected(t, c)
				srv.Cut(0)
				time.Sleep(10 * time.Second)
				connected(t, c)
				assert.Equal(t, test.want, said.count(message))
				assert.Empty(t, said.leaks())
			})
		})
	}
	assert.False(t, isUnprotected(tls.Client(outside{}, &tls.Config{})))
}
