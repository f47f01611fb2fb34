package inspecthttp_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func TestAViewerSeesWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		first, err := mutex.New(a, "/locks/orders", mutex.WithNodeData([]byte("billing"))).Acquire(background)
		require.NoError(t, err)
		v := look(t, newPage(t, a, "/locks"))
		assert.Equal(t, "/locks", v.config.Config.Root)
		assert.False(t, v.config.Config.Delete)
		assert.Empty(t, v.config.Config.Token)
		l := v.line("/locks/orders")
		assert.Equal(t, "mutex", l.Kind)
		assert.Equal(t, []string{"billing"}, v.texts(l.Holders))
		assert.Empty(t, l.Waiting)
		assert.Equal(t, head{Lines: 1, Held: 1}, v.top())
		require.Len(t, l.Grants, 1)
		assert.True(t, l.Grants[0].Before, "it was there when the page began to look")
		assert.Equal(t, v.health().Session, l.Holders[0].Session, "it is this client's")

		granted := make(chan *mutex.Lock)
		go func() {
			second, err := mutex.New(b, "/locks/orders", mutex.WithNodeData([]byte("shipping"))).Acquire(background)
			assert.NoError(t, err)
			granted <- second
		}()
		before := v.count()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Greater(t, v.count(), before)
		l = v.line("/locks/orders")
		assert.Equal(t, []string{"shipping"}, v.texts(l.Waiting))
		assert.Equal(t, 1, v.top().Waiting)

		require.NoError(t, first.Release(background))
		second := <-granted
		v.settle()
		l = v.line("/locks/orders")
		assert.Equal(t, []string{"shipping"}, v.texts(l.Holders))
		require.Len(t, l.Grants, 2)
		assert.NotZero(t, l.Grants[0].Ended)
		assert.False(t, l.Grants[1].Before)
		assert.Zero(t, l.Grants[1].Ended)
		assert.Equal(t, "shipping", l.Grants[1].Who.Data)

		require.NoError(t, second.Release(background))
		v.settle()
		l = v.line("/locks/orders")
		assert.Empty(t, l.Holders)
		assert.NotZero(t, l.Free, "it is remembered, and that nobody is in it")
		assert.NotZero(t, l.Grants[1].Ended)
		assert.Zero(t, v.top().Lines)
	})
}

// A thousand changes in a second are sent in a dozen messages, and the last of them has the present state.
func TestEventsAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		stand(t, c, "/locks/a/"+name+"0", "0")
		v := look(t, newPage(t, c, "/locks"))
		before := v.count()
		for i := range 1000 {
			require.NoError(t, s.Set("/locks/a/"+name+"0", fmt.Append(nil, i)))
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		assert.LessOrEqual(t, v.count()-before, 13)
		v.settle()
		assert.Equal(t, []string{"999"}, v.texts(v.line("/locks/a").Holders))
	})
}

// A viewer that reads nothing delays no other viewer. When it reads again it gets all changes in one message.
func TestASlowViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		stand(t, c, "/locks/a/"+name+"0", "0")
		stand(t, c, "/locks/gone/"+name+"0", "0")
		p := newPage(t, c, "/locks")
		slow, quick := look(t, p), look(t, p)
		release := slow.stall()
		defer release()
		before := slow.count()
		for i := range 100 {
			require.NoError(t, s.Set("/locks/a/"+name+"0", fmt.Append(nil, i)))
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, []string{fmt.Sprint(i)}, quick.texts(quick.line("/locks/a").Holders))
		}
		require.NoError(t, s.DeleteAll("/locks/gone"))
		quick.settle()
		assert.Equal(t, before, slow.count())
		release()
		synctest.Wait()
		assert.Equal(t, before+2, slow.count(), "the one that it did not take, and one with all since")
		assert.Equal(t, []string{"99"}, slow.texts(slow.line("/locks/a").Holders))
		assert.Equal(t, quick.line("/locks/gone"), slow.line("/locks/gone"))
	})
}

// All viewers share one cache. It is open while there is a viewer, and a while longer.
func TestOneCacheForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		stand(t, c, "/locks/a/"+name+"0", "0")
		s.ResetCounts()
		p := newPage(t, c, "/locks")
		time.Sleep(time.Minute)
		synctest.Wait()
		asked := s.Counts()
		delete(asked, "ping")
		assert.Empty(t, asked, "nothing before somebody looks")
		first := look(t, p)
		s.ResetCounts()
		second := look(t, p)
		asked = s.Counts()
		delete(asked, "ping")
		assert.Empty(t, asked, "nothing for another viewer")
		assert.Equal(t, first.line("/locks/a"), second.line("/locks/a"))
		first.leave()
		second.leave()
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		assert.NotEmpty(t, s.Watches())
		third := look(t, p)
		assert.Equal(t, first.line("/locks/a"), third.line("/locks/a"))
		time.Sleep(20 * time.Minute)
		third.leave()
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		assert.Empty(t, s.Watches())
		stand(t, c, "/locks/b/"+name+"0", "0")
		fourth := look(t, p)
		assert.Equal(t, []string{"0"}, fourth.texts(fourth.line("/locks/b").Holders))
	})
}

// Without a connection the page continues to show the last known state, and since when it is not current.
func TestWithoutConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		lock, err := mutex.New(c, "/locks/a", mutex.WithNodeData([]byte("me"))).Acquire(background)
		require.NoError(t, err)
		v := look(t, newPage(t, c, "/locks"))
		h := v.health()
		assert.True(t, h.Fine)
		assert.Equal(t, 1, h.Holds)
		assert.Positive(t, h.Margins[len(h.Margins)-1], "how long the hold is certain")
		assert.Positive(t, h.Steady)

		s.Stop()
		stopped := time.Now()
		v.settle()
		h = v.health()
		assert.False(t, h.Fine)
		assert.Equal(t, "Suspended", h.State)
		assert.InDelta(t, stopped.UnixMilli(), h.Away, 2000)
		assert.NotEmpty(t, h.Trouble)
		assert.Equal(t, []string{"me"}, v.texts(v.line("/locks/a").Holders))
		late := look(t, v.page(t, c))
		assert.False(t, late.health().Fine, "one that comes later is told, too")

		require.NoError(t, s.Start())
		time.Sleep(30 * time.Second)
		v.settle()
		h = v.health()
		assert.True(t, h.Fine)
		assert.Equal(t, "Reconnected", h.Changes[len(h.Changes)-1].State)
		assert.Equal(t, "Suspended", h.Changes[len(h.Changes)-2].State)
		assert.NotEmpty(t, h.Changes[len(h.Changes)-2].Why)
		_ = lock.Release(background)
	})
}

func (v *viewer) page(t *testing.T, c *framework.Client) http.Handler { return newPage(t, c, "/locks") }

// When the client is closed the page shows that.
func TestAClosedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		stand(t, c, "/locks/a/"+name+"0", "0")
		p := newPage(t, c, "/locks")
		v := look(t, p)
		require.NoError(t, c.Close())
		v.settle()
		assert.False(t, v.health().Fine)
		assert.Equal(t, "closed", v.health().State)
		assert.False(t, look(t, p).health().Fine)
	})
}

func TestTheRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		v := look(t, newPage(t, c, "/missing"))
		assert.Contains(t, v.top().Problem, "does not exist")
		stand(t, c, "/missing/lock/"+name+"0", "here")
		v.settle()
		assert.Empty(t, v.top().Problem)
		assert.Equal(t, []string{"here"}, v.texts(v.line("/missing/lock").Holders))

		require.NoError(t, s.Create("/secret", nil))
		_, err := c.SetACL().WithACL(framework.DigestACL(framework.PermAll, "o", "w")).ForPath(background, "/secret")
		require.NoError(t, err)
		v = look(t, newPage(t, c, "/secret"))
		assert.Contains(t, v.top().Problem, "no permission")
	})
}

func TestADeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		stand(t, a, "/locks/a/"+name+"0", "a")
		stand(t, b, "/locks/a/"+name+"1", "b")
		stand(t, b, "/locks/b/"+name+"0", "b")
		stand(t, a, "/locks/b/"+name+"1", "a")
		v := look(t, newPage(t, a, "/locks"))
		assert.Empty(t, v.top().Circles, "it may pass")
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Len(t, v.top().Circles, 1)
		assert.Len(t, v.top().Circles[0].Edges, 2)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Len(t, v.top().Circles, 1)
		require.NoError(t, s.Delete("/locks/b/"+name+"1"))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, v.top().Circles)
	})
}

// While the servers do not reply the page looks at the same old tree again: that a ring is in it twice proves nothing. When
// they reply again the page knows whether the ring is still there.
func TestARingThatNobodyCanConfirm(t *testing.T) {
	for how, away := range map[string]struct {
		begin func(s *zktest.Server)
		end   func(s *zktest.Server) error
	}{
		"silent":  {(*zktest.Server).Pause, func(s *zktest.Server) error { s.Resume(); return nil }},
		"stopped": {(*zktest.Server).Stop, (*zktest.Server).Start},
	} {
		for _, stays := range []bool{true, false} {
			t.Run(fmt.Sprint(how, ", and it stays: ", stays), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t)
					a, b := newClient(t, s), newClient(t, s)
					stand(t, a, "/locks/a/"+name+"0", "a")
					stand(t, b, "/locks/a/"+name+"1", "b")
					stand(t, b, "/locks/b/"+name+"0", "b")
					stand(t, a, "/locks/b/"+name+"1", "a")
					v := look(t, newPage(t, a, "/locks"))
					assert.Empty(t, v.top().Circles, "it may pass")
					away.begin(s)
					time.Sleep(15 * time.Second)
					synctest.Wait()
					assert.Empty(t, v.top().Circles, "nobody knows")
					if !stays {
						require.NoError(t, s.Delete("/locks/b/"+name+"1"))
					}
					require.NoError(t, away.end(s))
					time.Sleep(20 * time.Second)
					synctest.Wait()
					assert.Equal(t, stays, len(v.top().Circles) == 1)
				})
			})
		}
	}
}

// Two processes that lock in several goroutines form a ring again and again: it is never the same for long.
func TestRingsThatPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		a, b := newClient(t, s), newClient(t, s)
		stand(t, a, "/locks/a/"+name+"0", "a")
		stand(t, b, "/locks/b/"+name+"0", "b")
		stand(t, a, "/locks/b/"+name+"1", "a")
		v := look(t, newPage(t, a, "/locks"))
		for range 10 {
			stand(t, b, "/locks/a/"+name+"1", "b")
			time.Sleep(4 * time.Second)
			synctest.Wait()
			assert.Empty(t, v.top().Circles)
			require.NoError(t, s.Delete("/locks/a/"+name+"1"))
		}
		stand(t, b, "/locks/a/"+name+"1", "b")
		time.Sleep(12 * time.Second)
		synctest.Wait()
		assert.Len(t, v.top().Circles, 1)
	})
}

// Ten thousand waiters make no large message: it has the next ones, and the number of the others.
func TestTenThousandWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		session := s.Sessions()[0].ID
		require.NoError(t, s.Create("/locks", nil))
		require.NoError(t, s.Create("/locks/a", nil))
		for i := range 10_001 {
			_, err := s.CreateNode(fmt.Sprintf("/locks/a/%s%05d", name[:len(name)-5], i), []byte(strings.Repeat("x", 300)),
				zktest.Ephemeral, session)
			require.NoError(t, err)
		}
		v := look(t, newPage(t, c, "/locks"))
		l := v.line("/locks/a")
		assert.Equal(t, 10_000, l.Waits)
		assert.Len(t, l.Waiting, 100)
		assert.Equal(t, 10_000, v.top().Waiting)
		assert.Less(t, slices.Max(v.messages), 100_000)
	})
}

// Text that other clients have written is sent as printable text, of limited length, whatever it is.
func TestHostileText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		other := newClient(t, s, framework.WithAuth("digest", []byte("o:w")))
		session := s.Sessions()[0].ID
		script := "<script>alert(1)</script>\"'&"
		data := []string{script, "\x00\x1b[2J\r\n\ndata: {}\n\n", strings.Repeat("<b>", 1<<20/3), "\xff\xfe\xfd",
			"\u202egnp.exe\u2066", "", "</script>", strings.Repeat("\u0301", 300)}
		for _, dir := range []string{"/locks", "/locks/" + strings.ReplaceAll(script, "/", "|"), "/locks/rtl\u202etxt"} {
			require.NoError(t, s.Create(dir, nil))
			for i, text := range data {
				_, err := s.CreateNode(fmt.Sprintf("%s/_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-<img onerror=x>\u202e-lock-%010d", dir, i),
					[]byte(text), zktest.Ephemeral, session)
				require.NoError(t, err)
			}
		}
		stand(t, other, "/locks/unreadable/"+name+"0", "secret")
		_, err := other.SetACL().WithACL(framework.DigestACL(framework.PermAll, "o", "w")).ForPath(background, "/locks/unreadable/"+name+"0")
		require.NoError(t, err)
		stand(t, other, "/locks/closed/x", "secret")
		_, err = other.SetACL().WithACL(framework.DigestACL(framework.PermAll, "o", "w")).ForPath(background, "/locks/closed")
		require.NoError(t, err)

		v := look(t, newPage(t, c, "/locks"))
		require.Len(t, v.lines, 4)
		for _, l := range v.lines {
			texts := append([]string{l.Path, l.Kind}, append(l.Notes, l.Names...)...)
			for _, p := range slices.Concat(l.Holders, l.Waiting) {
				texts = append(texts, p.Name, p.Data, p.Error, p.Session)
			}
			for _, text := range texts {
				assert.True(t, utf8.ValidString(text), "%q", text)
				assert.LessOrEqual(t, utf8.RuneCountInString(text), 400)
				assert.NotRegexp(t, `[\x00-\x1f\x7f\x{202e}\x{2066}]`, text)
			}
		}
		l := v.line("/locks")
		assert.Equal(t, script, l.Holders[0].Data, "as it is: the page makes it text")
		assert.Equal(t, 1<<20-1, l.Waiting[1].Length)
		assert.Empty(t, l.Waiting[1].Data)
		assert.Equal(t, `\xff\xfe\xfd`, l.Waiting[2].Data)
		hidden := v.line("/locks/unreadable").Holders[0]
		assert.Equal(t, name+"0", hidden.Name)
		assert.Equal(t, "no permission", hidden.Error)
		assert.Equal(t, []string{"/locks/closed"}, v.top().Unreadable)
		assert.Less(t, slices.Max(v.messages), 100_000)
	})
}

func TestTooManyViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, newClient(t, zktest.RunT(t)), "/")
		var all []*viewer
		for range 65 {
			all = append(all, look(t, p))
		}
		assert.Zero(t, all[63].status)
		assert.Equal(t, http.StatusServiceUnavailable, all[64].status)
		all[0].leave()
		assert.Zero(t, look(t, p).status)
	})
}

// Close ends the streams, and all goroutines, as goleak checks.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t)
		c := newClient(t, s)
		p := newPage(t, c, "/")
		first, second := look(t, p), look(t, p)
		p.Close()
		<-first.done
		<-second.done
		synctest.Wait()
		assert.Empty(t, s.Watches())
		assert.Equal(t, http.StatusServiceUnavailable, look(t, p).status)
		assert.Equal(t, 200, get(p, "GET", "/").StatusCode, "the page itself says that there is no word")
		p.Close()
	})
}
