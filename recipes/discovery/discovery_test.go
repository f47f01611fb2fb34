package discovery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// Each client finds the registered instance, with the requests that the package documents.
func TestPlainUseAndTraffic(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		c := newClient(t, s)
		require.NoError(t, s.Create(path, nil))
		synctest.Wait()
		s.ResetCounts()
		r := register(t, c, web("a", "1"))
		recipetest.Counts(t, s, "register", map[string]int{"create2": 1, "exists": 1})
		data, stat, err := s.Get(path + "/a")
		require.NoError(t, err)
		ms := time.Now().UnixMilli()
		assert.Equal(t, fmt.Sprint(`{"name":"web","id":"a","address":"10.0.0.7","port":80,"sslPort":null,"payload":"1",`,
			`"registrationTimeUTC":`, ms, `,"serviceType":"DYNAMIC","uriSpec":null}`), string(data))
		assert.Equal(t, recipetest.Session(t, c), stat.EphemeralOwner)
		require.NoError(t, r.Update(background, web("a", "2")))
		recipetest.Counts(t, s, "update", map[string]int{"setData": 1, "exists": 1})
		other := register(t, newClient(t, s), web("", "3"))
		assert.Len(t, other.ID(), 36)
		recipetest.Requests(s)
		s.ResetCounts()

		d := services(t, c)
		names, err := d.Names(background)
		require.NoError(t, err)
		assert.Equal(t, []string{"web"}, names)
		recipetest.Counts(t, s, "names", map[string]int{"getChildren2": 1})
		all, err := d.Instances(background, "web")
		require.NoError(t, err)
		require.Len(t, all, 2)
		recipetest.Counts(t, s, "instances", map[string]int{"getChildren2": 1, "getData": 2})
		one, err := d.Instance(background, "web", "a")
		require.NoError(t, err)
		assert.Equal(t, instance{Name: "web", ID: "a", Address: "10.0.0.7", Port: 80, Payload: "2",
			RegistrationTime: time.UnixMilli(ms).UTC()}, one)
		recipetest.Counts(t, s, "instance", map[string]int{"getData": 1})

		require.NoError(t, r.Unregister(background))
		recipetest.Counts(t, s, "unregister", map[string]int{"delete": 1})
		require.NoError(t, r.Unregister(background))
		require.ErrorIs(t, r.Update(background, web("a", "4")), node.ErrClosed)
		require.NoError(t, other.Unregister(background))
		_, err = d.Instance(background, "web", "a")
		require.ErrorIs(t, err, framework.ErrNoNode)
		recipetest.Clean(t, s, path)
	})
}

func TestNothingThere(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		d := services(t, newClient(t, s))
		names, err := d.Names(background)
		require.NoError(t, err)
		assert.Empty(t, names)
		all, err := d.Instances(background, "web")
		require.NoError(t, err)
		assert.Empty(t, all)
		_, err = d.Instance(background, "web", "a")
		require.ErrorIs(t, err, framework.ErrNoNode)
	})
}

// Each type has its kind of node, and Unregister deletes each, also one with a number in its name.
func TestTypes(t *testing.T) {
	for kind, want := range map[discovery.Type]string{
		discovery.Dynamic: "a", discovery.Static: "a", discovery.Permanent: "a",
		discovery.DynamicSequential: "-a0000000000",
	} {
		t.Run(kind.String(), func(t *testing.T) {
			in(t, func(t *testing.T, s *zktest.Server) {
				c := newClient(t, s)
				i := web("a", "1")
				i.Type = kind
				r := register(t, c, i)
				assert.Equal(t, zktest.Container, s.Tree()[path].Mode)
				assert.True(t, strings.HasSuffix(r.Path(), want), r.Path())
				_, stat, err := s.Get(r.Path())
				require.NoError(t, err)
				dynamic := kind == discovery.Dynamic || kind == discovery.DynamicSequential
				assert.Equal(t, dynamic, stat.EphemeralOwner != 0)
				shows(t, watch(t, c), "a=1")
				require.NoError(t, s.Delete(r.Path()))
				soon(t, "made anew", func() bool { return s.Exists(r.Path()) && r.Status().State == node.There })
				require.NoError(t, r.Unregister(background))
				assert.False(t, s.Exists(r.Path()))
				if dynamic {
					return
				}
				require.NoError(t, c.Close())
				next := newClient(t, s)
				first := register(t, next, i)
				require.NoError(t, next.Close())
				assert.True(t, s.Exists(first.Path()), "it stays")
				again := register(t, newClient(t, s), i)
				require.NoError(t, again.Unregister(background))
				assert.False(t, s.Exists(first.Path()))
			})
		})
	}
}

// The session is lost during an update: the node that is created again has the update. No client sees another version.
func TestUpdateAcrossALostSession(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		c := newClient(t, s)
		seen := watch(t, newClient(t, s))
		r := register(t, c, web("a", "1"))
		shows(t, seen, "a=1")
		id := recipetest.Session(t, c)
		away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
		s.Cut(id)
		<-away.Struck()
		update := recipetest.Begin(t, func() (int, error) { return 0, r.Update(background, web("a", "2")) }).Waits()
		assert.Equal(t, node.Unknown, r.Status().State)
		shows(t, seen, "a=1")
		s.Expire(id)
		shows(t, seen, "")
		away.Release()
		update.End().OK()
		shows(t, seen, "a=2")
		require.NoError(t, s.Delete(path+"/a"))
		soon(t, "made anew", func() bool { return text(seen.Instances()) == "a=2" && s.Exists(path+"/a") })
		require.NoError(t, r.Unregister(background))
		require.NoError(t, seen.Close())
		recipetest.Clean(t, s, path)
	})
}

// A reconnect in the same session writes nothing: no client sees the registration change.
func TestReconnect(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		c := newClient(t, s)
		r := register(t, c, web("a", "1"))
		told := lists(t, watch(t, newClient(t, s)))
		assert.Equal(t, "a=1", told())
		before := r.Status()
		s.ResetCounts()
		recipetest.Cut(t, s, c)
		require.NoError(t, c.WaitConnected(background))
		time.Sleep(time.Second)
		assert.Equal(t, before, r.Status())
		assert.Zero(t, s.Counts()["create2"]+s.Counts()["delete"]+s.Counts()["setData"]+s.Counts()["multi"])
		assert.Empty(t, told())
		require.NoError(t, r.Unregister(background))
	})
}

// The node of a predecessor that was killed is replaced immediately; of two live processes the later one is registered, and the
// other waits.
func TestSuccessor(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		first := register(t, newClient(t, s), web("a", "1"))
		seen := watch(t, newClient(t, s))
		second := register(t, newClient(t, s), web("a", "2"))
		shows(t, seen, "a=2")
		time.Sleep(time.Minute)
		shows(t, seen, "a=2")
		assert.True(t, first.Status().Other)
		require.NoError(t, second.Unregister(background))
		soon(t, "the first is there again", func() bool { return text(seen.Instances()) == "a=1" })
		require.NoError(t, first.Unregister(background))
		shows(t, seen, "")
	})
}

// If Register's context ends, or Register is refused, nothing is left.
func TestRegisterFails(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		c := newClient(t, s)
		require.NoError(t, s.Create(path, nil))
		held := s.Inject(zktest.Fault{Session: recipetest.Session(t, c), Op: "create2", Action: zktest.Hold})
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := services(t, c).Register(ctx, web("a", "1"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		held.Release()
		time.Sleep(time.Minute)
		assert.False(t, s.Exists(path+"/a"))

		require.NoError(t, s.Create(path+"/b", []byte("theirs")))
		_, err = services(t, c).Register(background, web("b", "1"))
		require.ErrorIs(t, err, framework.ErrNodeExists)
		require.NoError(t, s.SetACL(path, zktest.ACL{Perms: 1, Scheme: "world", ID: "anyone"}))
		_, err = services(t, c).Register(background, web("c", "1"))
		require.ErrorIs(t, err, framework.ErrNoAuth)
		_, err = services(t, c).Register(background, web("a/b", "1"))
		require.ErrorIs(t, err, discovery.ErrInvalidInstance)
		time.Sleep(time.Minute)
		synctest.Wait()
		recipetest.Tidy(t, c)
		data, _, err := s.Get(path + "/b")
		require.NoError(t, err)
		assert.Equal(t, "theirs", string(data))
	})
}

// An update that is refused changes nothing.
func TestUpdateRefused(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		r := register(t, newClient(t, s), web("a", "1"))
		defer r.Unregister(background)
		static := web("a", "2")
		static.Type = discovery.Static
		for _, i := range []instance{web("b", "2"), {Name: "mail", ID: "a"}, static, {Name: "web", Port: -1}} {
			require.ErrorIs(t, r.Update(background, i), discovery.ErrInvalidInstance)
		}
		require.ErrorIs(t, r.Update(background, web("a", strings.Repeat("x", 2<<20))), framework.ErrTooLarge)
		one, err := services(t, newClient(t, s)).Instance(background, "web", "a")
		require.NoError(t, err)
		assert.Equal(t, "1", one.Payload)
		require.NoError(t, r.Update(background, instance{Name: "web", Payload: "2"}))
		two, err := services(t, newClient(t, s)).Instance(background, "web", "a")
		require.NoError(t, err)
		assert.Equal(t, instance{Name: "web", ID: "a", Payload: "2", RegistrationTime: one.RegistrationTime}, two)
	})
}

// Unregister works across an outage, even if its context ends.
func TestUnregisterAcrossAnOutage(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		c := newClient(t, s)
		r := register(t, c, web("a", "1"))
		id := recipetest.Session(t, c)
		away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
		s.Cut(id)
		<-away.Struck()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.ErrorIs(t, r.Unregister(ctx), context.DeadlineExceeded)
		assert.True(t, s.Exists(path+"/a"))
		away.Release()
		require.NoError(t, r.Unregister(background))
		assert.False(t, s.Exists(path+"/a"))
		assert.Equal(t, id, recipetest.Session(t, c))

		r = register(t, c, web("a", "1"))
		s.Stop()
		unregistered := make(chan error, 1)
		r.UnregisterInBackground(nil, func(err error) { unregistered <- err })
		require.NoError(t, s.Start())
		require.NoError(t, <-unregistered)
		assert.False(t, s.Exists(path+"/a"))
		require.NoError(t, c.Close())
		r.UnregisterInBackground()
	})
}

// A cache follows the changes, keeps its instances without a connection, and reports the differences after it.
func TestCacheAcrossAnOutage(t *testing.T) {
	for _, lose := range []bool{false, true} {
		for _, profile := range []zktest.Profile{zktest.V39, zktest.V35} {
			t.Run(fmt.Sprint(lose, profile), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := zktest.RunT(t, zktest.Config{Profile: profile})
					c := newClient(t, s)
					told := lists(t, watch(t, c))
					assert.Equal(t, "nobody", told())
					a := register(t, newClient(t, s), web("a", "1"))
					assert.Equal(t, "a=1", told())
					b := register(t, newClient(t, s), web("b", "1"))
					assert.Equal(t, "a=1 b=1", told())
					id := recipetest.Session(t, c)
					away := s.Inject(zktest.Fault{Session: id, Op: "connect", Action: zktest.Hold})
					s.Cut(id)
					<-away.Struck()
					require.NoError(t, a.Update(background, web("a", "2")))
					require.NoError(t, b.Unregister(background))
					d := register(t, newClient(t, s), web("d", "1"))
					assert.Empty(t, told())
					if lose {
						s.Expire(id)
					}
					away.Release()
					require.NoError(t, c.WaitConnected(background))
					time.Sleep(5 * time.Second)
					assert.Equal(t, "a=2 d=1", told())
					require.NoError(t, a.Unregister(background))
					assert.Equal(t, "d=1", told())
					require.NoError(t, d.Unregister(background))
					assert.Equal(t, "nobody", told())
				})
			})
		}
	}
}

// A node that is no instance is left out, listed in Failures, and logged once. The other instances are there, and so is this one
// when its data are corrected.
func TestCorruptInstances(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		var log recipetest.Log
		c := newClient(t, s, framework.WithLogger(log.Logger()))
		r := register(t, newClient(t, s), web("a", "1"))
		defer r.Unregister(background)
		for name, data := range map[string]string{
			"empty": "", "half": `{"name":`, "list": "[]", "number": `{"payload":{"k":1}}`,
			"large": `{"payload":"` + strings.Repeat("x", framework.ContenderDataLimit) + `"}`,
		} {
			require.NoError(t, s.Create(path+"/"+name, []byte(data)))
		}
		seen := watch(t, c)
		told := lists(t, seen)
		shows(t, seen, "a=1")
		failures := map[string]error{}
		for at, err := range seen.Failures() {
			failures[at] = err
		}
		require.Len(t, failures, 5)
		require.ErrorIs(t, failures[path+"/half"], discovery.ErrCorrupt)
		require.ErrorIs(t, failures[path+"/large"], framework.ErrDataTooLarge)
		told()
		require.NoError(t, s.Set(path+"/half", []byte(`{"name":"web",`)))
		assert.Equal(t, "a=1", told())
		require.NoError(t, s.Set(path+"/half", []byte(`{"name":"web","id":"half"}`)))
		assert.Equal(t, "a=1 half=", told())
		assert.Equal(t, 5+1, strings.Count(log.String(), "cannot read a service instance; ignoring it"))
		all, err := services(t, c).Instances(background, "web")
		require.NoError(t, err)
		assert.Equal(t, "a=1 half=", text(all))
		_, err = services(t, c).Instance(background, "web", "list")
		require.ErrorIs(t, err, discovery.ErrCorrupt)
	})
}

func TestCacheEnds(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		c := newClient(t, s)
		r := register(t, newClient(t, s), web("a", "1"))
		defer r.Unregister(background)
		closed, left := watch(t, c), watch(t, c)
		told, other := lists(t, closed), lists(t, left)
		assert.Equal(t, "a=1", told())
		assert.Equal(t, "a=1", other())
		require.NoError(t, closed.Close())
		require.NoError(t, closed.Close())
		assert.Contains(t, told(), cache.ErrClosed.Error())
		require.ErrorIs(t, closed.WaitSynced(background), cache.ErrClosed)
		assert.Equal(t, "a=1", text(closed.Instances()))
		ctx, cancel := context.WithCancel(background)
		cancel()
		for _, err := range left.Follow(ctx) {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.NoError(t, c.Close())
		assert.Contains(t, other(), framework.ErrClosed.Error())
		assert.Equal(t, "a=1", text(left.Instances()))
	})
}

func TestClientClosedAndBadArguments(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		c := newClient(t, s)
		for _, client := range []*framework.Client{nil, {}} {
			_, err := discovery.New[string](client, base)
			require.ErrorIs(t, err, framework.ErrNoClient)
		}
		for _, bad := range []string{"", "/", "services", "/a//b"} {
			_, err := discovery.New[string](c, bad)
			require.ErrorIs(t, err, framework.ErrInvalidPath, bad)
		}
		for _, opt := range []discovery.Option{nil, discovery.WithPayloadClass("")} {
			_, err := discovery.New[string](c, base, opt)
			require.ErrorIs(t, err, framework.ErrInvalidOption)
		}
		d := services(t, c)
		for _, bad := range []string{"", "a/b", "..", "\x00"} {
			_, err := d.Cache(bad)
			require.ErrorIs(t, err, framework.ErrInvalidPath, bad)
			_, err = d.Instances(background, bad)
			require.ErrorIs(t, err, framework.ErrInvalidPath, bad)
			_, err = d.Instance(background, "web", bad)
			require.ErrorIs(t, err, framework.ErrInvalidPath, bad)
		}
		inTeam, err := discovery.New[json.RawMessage](c.UsingNamespace("team"), "/")
		require.NoError(t, err)
		r, err := inTeam.Register(background, discovery.Instance[json.RawMessage]{Name: "web", ID: "a"})
		require.NoError(t, err)
		assert.True(t, s.Exists("/team/web/a"))
		require.NoError(t, c.Close())
		require.ErrorIs(t, r.Unregister(background), framework.ErrClosed)
		_, err = d.Register(background, web("a", ""))
		require.ErrorIs(t, err, framework.ErrClosed)
		assert.False(t, s.Exists("/team/web/a"))
	})
}

// A client that compresses writes compressed instances, and reads compressed and uncompressed ones.
func TestCompressed(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		c := newClient(t, s, framework.WithCompression())
		a, b := register(t, c, web("a", "1")), register(t, newClient(t, s), web("b", "1"))
		data, _, err := s.Get(path + "/a")
		require.NoError(t, err)
		assert.NotContains(t, string(data), "web")
		shows(t, watch(t, c), "a=1 b=1")
		require.NoError(t, a.Unregister(background))
		require.NoError(t, b.Unregister(background))
	})
}

// A dynamic instance in a node of no session is left out, since the node does not show that its process lives. That is reported.
// Once its process has registered it, it is listed.
func TestDynamicInstanceOfNoSession(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		var log recipetest.Log
		c := newClient(t, s, framework.WithLogger(log.Logger()))
		for name, kind := range map[string]string{"a": "DYNAMIC", "b": "STATIC", "c": "DYNAMIC_SEQUENTIAL"} {
			data := fmt.Sprintf(`{"name":"web","id":%q,"serviceType":%q}`, name, kind)
			require.NoError(t, s.Create(path+"/"+name, []byte(data)))
		}
		seen := watch(t, c)
		shows(t, seen, "b=")
		all, err := services(t, c).Instances(background, "web")
		require.NoError(t, err)
		assert.Equal(t, "b=", text(all))
		_, err = services(t, c).Instance(background, "web", "a")
		require.ErrorIs(t, err, discovery.ErrCorrupt)
		for _, err := range seen.Failures() {
			require.ErrorContains(t, err, "no session")
		}
		synctest.Wait() // until the log lines are written
		assert.Equal(t, 4, strings.Count(log.String(), "cannot read a service instance; ignoring it"))
		require.NoError(t, s.Delete(path+"/a"))
		r := register(t, newClient(t, s), web("a", "1"))
		defer r.Unregister(background)
		shows(t, seen, "a=1 b=")
	})
}

// A static instance that may not be overwritten is not registered, and the existing node stays.
func TestAStaticInstanceThatMayNotBeOverwritten(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		require.NoError(t, s.Create(path+"/a", []byte(`{"name":"web","id":"a","address":"10.0.0.1"}`)))
		require.NoError(t, s.SetACL(path+"/a", zktest.ACL{Perms: int32(framework.PermRead), Scheme: "world", ID: "anyone"}))
		mine := web("a", "mine")
		mine.Type = discovery.Static
		_, err := services(t, newClient(t, s)).Register(background, mine)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		time.Sleep(time.Minute)
		data, stat, err := s.Get(path + "/a")
		require.NoError(t, err)
		assert.Contains(t, string(data), "10.0.0.1")
		assert.Zero(t, stat.Version)
	})
}

// If one of the instances cannot be read, for any reason, Instances returns an error: a part would be taken for the whole.
func TestInstancesAreAllOrAnError(t *testing.T) {
	in(t, func(t *testing.T, s *zktest.Server) {
		for _, id := range []string{"a", "b", "c"} {
			defer register(t, newClient(t, s), web(id, "")).Unregister(background)
		}
		d := services(t, newClient(t, s, framework.WithRetry(retry.RetryNTimes{})))
		lost := s.Inject(zktest.Fault{Op: "getData", PathPrefix: path + "/b", Action: zktest.CutBefore})
		all, err := d.Instances(background, "web")
		require.ErrorIs(t, err, framework.ErrConnectionLoss)
		require.Empty(t, all)
		lost.Remove()
		require.NoError(t, s.SetACL(path+"/a", zktest.ACL{Perms: int32(framework.PermAdmin), Scheme: "world", ID: "anyone"}))
		all, err = d.Instances(background, "web")
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.Empty(t, all)
		require.NoError(t, s.Set(path+"/b", []byte("no instance")))
		require.NoError(t, s.SetACL(path+"/a", zktest.ACL{Perms: int32(framework.PermAll), Scheme: "world", ID: "anyone"}))
		all, err = d.Instances(background, "web")
		require.NoError(t, err)
		assert.Equal(t, "a= c=", text(all), "what is no instance is left out")
	})
}

// A cache shows nothing until it has read all instances, however long that takes: with a part of them a provider would send all
// work to that part.
func TestCacheShowsNoPartOfTheInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.RunT(t, zktest.Config{Profile: zktest.V35})
		for _, id := range []string{"a", "b", "c"} {
			register(t, newClient(t, s), web(id, "1"))
		}
		c := newClient(t, s)
		slow := zktest.Fault{Session: recipetest.Session(t, c), Op: "getData", PathPrefix: path + "/b", Action: zktest.DelayReply, Delay: 2 * time.Second}
		s.Inject(slow)
		slow.PathPrefix, slow.Action = path+"/c", zktest.Hold
		read := s.Inject(slow)
		w, err := services(t, c).Cache("web")
		require.NoError(t, err)
		t.Cleanup(func() { _ = w.Close() })
		told := lists(t, w)
		<-read.Struck()
		time.Sleep(5 * time.Second)
		shows(t, w, "")
		require.Empty(t, told())
		read.Release()
		shows(t, w, "a=1 b=1 c=1")
		require.Equal(t, "a=1 b=1 c=1", told())
	})
}
