package wire

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// A connection to a server that refuses a credential is not announced. The owner gets the error, and the client pauses
// between its attempts.
func TestRefusedCredentialsAreToldAndDoNotSpin(t *testing.T) {
	onServer(t, zktest.Config{}, func(t *testing.T, srv *zktest.Server) {
		c := open(t, srv.Dial, func(cfg *Config) {
			cfg.Credentials = []Credential{{"digest", []byte("a:b")}, {"nosuchscheme", []byte("hush")}}
		})
		ev := c.await(AuthFailed)
		assert.ErrorIs(t, ev.Err, ErrAuthFailed)
		assert.ErrorContains(t, ev.Err, `"nosuchscheme"`)
		assert.NotContains(t, ev.Err.Error(), "hush")
		time.Sleep(time.Minute)
		assert.Less(t, srv.Counts()["connect"], 30)
		kinds := c.seen()
		assert.NotEmpty(t, kinds)
		for _, k := range kinds {
			assert.Equal(t, AuthFailed, k, "nothing else is said")
		}
		start := time.Now()
		_ = c.Close(t.Context())
		assert.LessOrEqual(t, time.Since(start), time.Second)
	})
}

// The client can find out only by a request whether a server requires credentials: it loses one request by that. From then
// on such a request is the first on each connection.
func TestAServerThatWantsCredentialsThatNobodyHasIsLeftInPeace(t *testing.T) {
	onServer(t, zktest.Config{RequireAuth: true}, func(t *testing.T, srv *zktest.Server) {
		c := connected(t, srv.Dial)
		c.arm(Data, "/")
		ev := c.await(AuthFailed)
		assert.ErrorIs(t, ev.Err, ErrAuthFailed)
		c.await(Disconnected)
		r := c.start(jute.OpGetData, read("/"))
		time.Sleep(5 * time.Second)
		for _, k := range c.seen() {
			assert.Equal(t, AuthFailed, k, "never connected again")
		}
		assert.Less(t, srv.Counts()["connect"], 20)
		assert.Empty(t, r, "it is not sent where it would be lost")
		lost := c.await(Lost)
		assert.ErrorIs(t, lost.Err, ErrLapsed)
		assert.ErrorIs(t, (<-r).Err, ErrNotSent)
	})
}

// A server may reply to more credentials than there are: the surplus replies have no effect.
func TestMoreRefusalsThanCredentials(t *testing.T) {
	onScript(t, func(_ int, p *peer) {
		p.welcome(10 * time.Second)
		h, _ := p.request()
		for _, code := range []int32{0, jute.CodeAuthFailed, jute.CodeAuthFailed} {
			p.reply(h, 1, code)
		}
		p.obey()
	}, func(t *testing.T, f *fake) {
		c := connected(t, f.Dial, func(cfg *Config) { cfg.Credentials = []Credential{{"digest", []byte("a:b")}} })
		answered(t, c.sync(), jute.CodeOK)
		assert.Empty(t, c.seen())
	})
}

// A session whose credential is no longer accepted ends in time, although each attempt touches it at the server; and if a
// credential is accepted in time the session lives on.
func TestASessionThatIsRefusedLapses(t *testing.T) {
	for _, good := range []int{3, 1000} {
		onScript(t, func(n int, p *peer) {
			p.welcome(10 * time.Second)
			for {
				h, _ := p.request()
				if h.Op == jute.OpAuth && n > 1 && n < good {
					p.reply(h, 0, jute.CodeAuthFailed)
					return
				}
				p.reply(h, 1, 0)
				if h.Op == jute.OpSync {
					return
				}
			}
		}, func(t *testing.T, f *fake) {
			c := connected(t, f.Dial, func(cfg *Config) { cfg.Credentials = []Credential{{"digest", []byte("a:b")}} })
			r := c.sync()
			require.NoError(t, r.Err)
			c.await(Disconnected)
			start := time.Now()
			if good == 3 {
				c.await(Connected)
				return
			}
			ev := c.await(Lost)
			assert.ErrorIs(t, ev.Err, ErrLapsed)
			assert.LessOrEqual(t, time.Since(start), 10*time.Second)
		})
	}
}

// steps returns a login whose messages are given: the client's first, the server's reply, and so on.
func steps(words ...string) func(context.Context, string) (LoginStep, error) {
	return func(context.Context, string) (LoginStep, error) {
		said := 0
		return func(challenge []byte) ([]byte, bool, error) {
			if said > 0 && string(challenge) != words[said-1] {
				return nil, false, fmt.Errorf("%q instead of %q", challenge, words[said-1])
			}
			if said >= len(words) {
				return nil, true, nil
			}
			said += 2
			return []byte(words[said-2]), said > len(words), nil
		}, nil
	}
}

func TestLoginBeforeAnythingElse(t *testing.T) {
	for _, words := range [][]string{{"hello", "who", "me", "fine"}, {"", "who", "me"}, {"me"}} {
		bubble(t, func(t *testing.T) {
			var orders [3][]int32
			f := scripted(t, func(n int, p *peer) {
				p.welcome(10 * time.Second)
				said := 0
				for {
					h, body := p.request()
					if n < len(orders) && (h.Op != jute.OpPing || len(orders[n]) < 5) {
						orders[n] = append(orders[n], h.Op)
					}
					switch h.Op {
					case jute.OpSASL:
						assert.Equal(t, jute.Marshal(saslToken(words[said])), body)
						if said+1 < len(words) {
							p.reply(h, 0, 0, saslToken(words[said+1]))
						} else {
							p.reply(h, 0, 0, saslToken(nil))
						}
						said += 2
					case jute.OpSync:
						return
					default:
						p.reply(h, 1, 0)
					}
				}
			})
			c := connected(t, f.Dial, func(cfg *Config) {
				cfg.Credentials = []Credential{{"digest", []byte("a:b")}}
				cfg.Login = func(ctx context.Context, server string) (LoginStep, error) {
					assert.Equal(t, "one:2181", server)
					_, limited := ctx.Deadline()
					assert.True(t, limited)
					return steps(words...)(ctx, server)
				}
			})
			c.watch(Data, "/a")
			assert.ErrorIs(t, c.sync().Err, ErrConnectionLost)
			c.await(Connected)
			c.do(jute.OpGetData, read("/b"))
			var want []int32
			for range (len(words) + 1) / 2 {
				want = append(want, jute.OpSASL)
			}
			want = append(want, jute.OpAuth, jute.OpPing)
			assert.Equal(t, append(want, jute.OpSetWatches), orders[2][:len(want)+1])
		})
	}
}

func TestRefusedLogins(t *testing.T) {
	broken := errors.New("no ticket")
	step := func(f LoginStep) func(context.Context, string) (LoginStep, error) {
		return func(context.Context, string) (LoginStep, error) { return f, nil }
	}
	for name, login := range map[string]func(context.Context, string) (LoginStep, error){
		"by the server":    steps("no"),
		"by the mechanism": steps("hello", "not this answer", "me"),
		"at the start":     func(context.Context, string) (LoginStep, error) { return nil, broken },
		"without end":      step(func([]byte) ([]byte, bool, error) { return []byte("again"), false, nil }),
		"without a word":   step(func([]byte) ([]byte, bool, error) { return nil, false, nil }),
	} {
		t.Run(name, bubbled(func(t *testing.T) {
			f := scripted(t, func(_ int, p *peer) {
				p.welcome(10 * time.Second)
				for {
					h, body := p.request()
					if h.Op == jute.OpCloseSession { // no client is going to use it
						p.reply(h, 1, 0)
						return
					}
					assert.Equal(t, jute.OpSASL, h.Op)
					if string(body[4:]) == "no" {
						p.reply(h, 0, jute.CodeAuthFailed, saslToken(nil))
						return
					}
					p.reply(h, 0, 0, saslToken("more"))
				}
			})
			c := open(t, f.Dial, func(cfg *Config) { cfg.Login = login })
			ev := c.await(AuthFailed)
			assert.ErrorIs(t, ev.Err, ErrAuthFailed)
			assert.Equal(t, name == "at the start", errors.Is(ev.Err, broken))
			time.Sleep(time.Minute)
			assert.NotContains(t, c.seen(), Connected)
			assert.Less(t, len(f.dials()), 30)
		}))
	}
}

// A login without a reply from the server, or whose mechanism waits for a third party, takes no longer than a silent
// handshake.
func TestLoginsEnd(t *testing.T) {
	for _, asks := range []bool{false, true} {
		onScript(t, func(_ int, p *peer) {
			p.welcome(10 * time.Second)
			p.swallow()
		}, func(t *testing.T, f *fake) {
			c := open(t, f.Dial, func(cfg *Config) {
				cfg.Login = steps("hello")
				if asks {
					cfg.Login = func(ctx context.Context, _ string) (LoginStep, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					}
				}
			})
			start := time.Now()
			if asks {
				c.await(AuthFailed)
			} else {
				c.await(Failed)
			}
			assert.LessOrEqual(t, time.Since(start), 5*time.Second)
			start = time.Now()
			c.Abort(ErrClosed)
			c.Wait()
			assert.Zero(t, time.Since(start))
		})
	}
}

// The close of the old session requires a login, too.
func TestFencingWithALogin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ops [3][]int32
		f := scripted(t, func(n int, p *peer) {
			r := p.welcome(10 * time.Second)
			assert.Equal(t, n == 2, r.SessionID == 77)
			assert.EqualValues(t, 10_000, r.Timeout)
			for {
				h, _ := p.request()
				if n < len(ops) {
					ops[n] = append(ops[n], h.Op)
				}
				if h.Op == jute.OpSASL {
					p.reply(h, 0, 0, saslToken("fine"))
				} else {
					p.reply(h, 1, 0)
				}
				if h.Op == jute.OpCloseSession {
					return
				}
			}
		})
		c := open(t, f.Dial, func(cfg *Config) {
			cfg.Login = steps("hello", "fine")
			cfg.Fences = []Fence{{SessionID: 77, Password: make([]byte, 16), Until: time.Now().Add(time.Minute)}}
			cfg.Credentials = []Credential{{"digest", []byte("a:b")}}
		})
		c.await(Connected)
		assert.Equal(t, []int32{jute.OpSASL, jute.OpAuth, jute.OpPing}, ops[1][:3])
		assert.Equal(t, []int32{jute.OpSASL, jute.OpAuth, jute.OpCloseSession}, ops[2])
	})
}

func TestSecretsAreNotPrinted(t *testing.T) {
	secret := []byte("hush!")
	cfg := Config{Auth: Auth{Credentials: []Credential{{"digest", secret}}},
		Fences: []Fence{{SessionID: 1, Password: secret}}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		for _, v := range []any{cfg, cfg.Credentials, cfg.Fences[0], &cfg.Fences[0], cfg.Fences} {
			text := fmt.Sprintf(verb, v)
			for _, form := range []string{"hush!", "6875736821", "104 117 115 104", "0x68, 0x75"} {
				assert.NotContains(t, text, form, verb)
			}
		}
	}
}

// Errors name the user of a digest. The text that other schemes have before a colon may be secret.
func TestNamesOfCredentials(t *testing.T) {
	assert.Contains(t, Credential{"digest", []byte("ann:hush")}.displayName(), `user "ann"`)
	for _, c := range []Credential{{"digest", []byte("hush")}, {"token", []byte("hush:ann")}} {
		assert.NotContains(t, c.displayName(), "hush")
	}
}

// The error names the code, unless that only means that the credential was refused.
func TestTheErrorOfARefusedCredential(t *testing.T) {
	for code, want := range map[int32]string{
		jute.CodeAuthFailed:  "authentication failed: SASL: the server refused ann",
		jute.CodeSystemError: "authentication failed: SASL: the server refused ann: " + jute.CodeName(jute.CodeSystemError),
	} {
		assert.EqualError(t, authRefusalError("SASL: ", "ann", code), want)
	}
}
