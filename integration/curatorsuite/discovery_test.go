package curatorsuite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/recipes/discovery"
)

const services = "/services"

func below(t *testing.T, c *framework.Client, base string) *discovery.Discovery[string] {
	t.Helper()
	d, err := discovery.New[string](c, services+base)
	require.NoError(t, err)
	return d
}

func register(t *testing.T, d *discovery.Discovery[string], name, id, payload string) *discovery.Registration[string] {
	t.Helper()
	r, err := d.Register(kit.Context(t), discovery.Instance[string]{Name: name, ID: id, Payload: payload, Port: 80})
	require.NoError(t, err)
	return r
}

func ids(all []discovery.Instance[string]) (names []string) {
	for _, i := range all {
		names = append(names, i.ID+"="+i.Payload)
	}
	return names
}

// follow returns a cache, closed with the test, and a channel with the instances that it shows after each change.
func follow(t *testing.T, d *discovery.Discovery[string], name string) (*discovery.Cache[string], <-chan []string) {
	t.Helper()
	c, err := d.Cache(name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.WaitSynced(kit.Context(t)))
	return c, heard(t, func(ctx context.Context, hear func([]string)) {
		for all, err := range c.Follow(ctx) {
			if err == nil {
				hear(ids(all))
			}
		}
	})
}

func TestServiceDiscovery(t *testing.T) {
	behave(t, map[string]func(t *testing.T, w *world){
		"an instance is registered, found, changed, unregistered": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			d := below(t, w.client, "/basic")
			names, err := d.Names(ctx)
			require.NoError(t, err) // Java returns an error where no service exists yet
			require.Empty(t, names)
			r := register(t, d, "one", "1", "thing")
			names, err = d.Names(ctx)
			require.NoError(t, err)
			require.Equal(t, []string{"one"}, names)
			one, err := d.Instance(ctx, "one", "1")
			require.NoError(t, err)
			require.Equal(t, "thing", one.Payload)
			one.Payload = "other"
			require.NoError(t, r.Update(ctx, one))
			one, err = d.Instance(ctx, "one", "1")
			require.NoError(t, err)
			require.Equal(t, "other", one.Payload)
			require.NoError(t, r.Unregister(ctx))
			require.NoError(t, r.Unregister(ctx)) // a second call does nothing
			all, err := d.Instances(ctx, "one")
			require.NoError(t, err)
			require.Empty(t, all)
			_, err = d.Instance(ctx, "one", "1")
			require.ErrorIs(t, err, framework.ErrNoNode)
		},
		"several instances of several services": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			d := below(t, w.client, "/several")
			var all []*discovery.Registration[string]
			for _, name := range []string{"one", "two"} {
				for _, id := range []string{"1", "2"} {
					all = append(all, register(t, d, name, id, name))
				}
			}
			names, err := d.Names(ctx)
			require.NoError(t, err)
			require.Equal(t, []string{"one", "two"}, names)
			found, err := d.Instances(ctx, "two")
			require.NoError(t, err)
			require.Equal(t, []string{"1=two", "2=two"}, ids(found))
			for _, r := range all {
				require.NoError(t, r.Unregister(ctx))
			}
			w.gone(t, services+"/several")
		},
		"after a lost session instances are registered again": func(t *testing.T, w *world) {
			client, _ := w.connect(t)
			d := below(t, client, "/session")
			for _, id := range []string{"1", "2"} {
				r := register(t, d, "s", id, "x")
				defer r.Unregister(kit.Context(t))
			}
			w.expire(t, client)
			kit.Soon(t, "both", func() bool {
				all, err := d.Instances(kit.Context(t), "s")
				return err == nil && len(all) == 2
			})
		},
		"after a server's restart instances are registered again": func(t *testing.T, w *world) {
			d := below(t, w.client, "/restart")
			r := register(t, d, "s", "1", "x")
			w.Kill()
			w.Start()
			kit.Soon(t, "it is there", func() bool {
				all, err := d.Instances(kit.Context(t), "s")
				return err == nil && len(all) == 1
			})
			require.NoError(t, r.Unregister(kit.Context(t)))
		},
		"an unregistered instance is not registered in the next session": func(t *testing.T, w *world) {
			client, _ := w.connect(t)
			d := below(t, client, "/clean")
			r := register(t, d, "s", "1", "x")
			require.NoError(t, r.Unregister(kit.Context(t)))
			w.expire(t, client)
			stays := register(t, d, "s", "2", "x")
			all, err := d.Instances(kit.Context(t), "s")
			require.NoError(t, err)
			require.Equal(t, []string{"2=x"}, ids(all))
			require.NoError(t, stays.Unregister(kit.Context(t)))
		},
		"static instances stay": func(t *testing.T, w *world) {
			client, _ := w.connect(t)
			d := below(t, client, "/static")
			_, err := d.Register(kit.Context(t), discovery.Instance[string]{Name: "s", ID: "1", Type: discovery.Static})
			require.NoError(t, err)
			require.NoError(t, client.Close())
			all, err := below(t, w.client, "/static").Instances(kit.Context(t), "s")
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.EqualValues(t, 0, w.stat(t, services+"/static/s/1").EphemeralOwner)
		},
		"a node without data is no instance, and hides no other": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			d := below(t, w.client, "/empty")
			r := register(t, d, "s", "1", "x")
			_, err := w.client.Create().ForPath(ctx, services+"/empty/s/2", []byte{})
			require.NoError(t, err)
			all, err := d.Instances(ctx, "s")
			require.NoError(t, err)
			require.Equal(t, []string{"1=x"}, ids(all))
			require.NoError(t, r.Unregister(ctx))
		},
	})
}

func TestServiceCache(t *testing.T) {
	behave(t, map[string]func(t *testing.T, w *world){
		"the instances at the start, then each change": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			d := below(t, w.client, "/cache")
			one := register(t, d, "s", "1", "a")
			other, _ := w.connect(t)
			cache, said := follow(t, below(t, other, "/cache"), "s")
			require.Equal(t, []string{"1=a"}, kit.Receive(t, "what there is", said))
			two := register(t, d, "s", "2", "a")
			require.Equal(t, []string{"1=a", "2=a"}, kit.Receive(t, "another", said))
			elsewhere := register(t, d, "another service", "3", "a")
			require.NoError(t, one.Update(ctx, discovery.Instance[string]{Name: "s", Payload: "b"}))
			require.Equal(t, []string{"1=b", "2=a"}, kit.Receive(t, "a change", said))
			require.NoError(t, two.Unregister(ctx))
			require.Equal(t, []string{"1=b"}, kit.Receive(t, "that it is gone", said))
			require.Equal(t, []string{"1=b"}, ids(cache.Instances()))
			require.NoError(t, one.Unregister(ctx))
			require.NoError(t, elsewhere.Unregister(ctx))
			require.NoError(t, cache.Close())
			require.NoError(t, cache.Close()) // Java refuses to close it again
		},
		"a service without instances": func(t *testing.T, w *world) {
			cache, said := follow(t, below(t, w.client, "/later"), "s")
			require.Empty(t, cache.Instances())
			require.Empty(t, kit.Receive(t, "that there is none", said))
			require.Nil(t, w.stat(t, services+"/later/s")) // Java creates its node
			r := register(t, below(t, w.client, "/later"), "s", "1", "a")
			require.Equal(t, []string{"1=a"}, kit.Receive(t, "the first", said))
			require.NoError(t, r.Unregister(kit.Context(t)))
		},
		"changes during a gap": func(t *testing.T, w *world) {
			client, way := w.connect(t)
			d := below(t, w.client, "/away")
			one := register(t, d, "s", "1", "a")
			cache, said := follow(t, below(t, client, "/away"), "s")
			require.Equal(t, []string{"1=a"}, kit.Receive(t, "what there is", said))
			way.Cut()
			two := register(t, d, "s", "2", "a")
			require.NoError(t, one.Unregister(kit.Context(t)))
			require.Equal(t, []string{"1=a"}, ids(cache.Instances()))
			way.Heal()
			kit.Soon(t, "the other", func() bool { return slices.Equal(ids(cache.Instances()), []string{"2=a"}) })
			require.NoError(t, two.Unregister(kit.Context(t)))
		},
	})
}

func TestServiceProvider(t *testing.T) {
	provider := func(
		t *testing.T, w *world, base string, opts ...discovery.ProviderOption,
	) (*discovery.Provider[string], []*discovery.Registration[string]) {
		d := below(t, w.client, base)
		cache, _ := follow(t, d, "s")
		var all []*discovery.Registration[string]
		for i := range 3 {
			all = append(all, register(t, d, "s", fmt.Sprint(i), "a"))
		}
		kit.Soon(t, "all three", func() bool { return len(cache.Instances()) == 3 })
		p, err := discovery.NewProvider(cache, opts...)
		require.NoError(t, err)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
			defer cancel()
			for _, r := range all {
				_ = r.Unregister(ctx)
			}
		})
		return p, all
	}
	next := func(t *testing.T, p *discovery.Provider[string]) string {
		i, err := p.Instance()
		require.NoError(t, err)
		return i.ID
	}
	behave(t, map[string]func(t *testing.T, w *world){
		"round robin": func(t *testing.T, w *world) {
			p, _ := provider(t, w, "/robin")
			first, err := strconv.Atoi(next(t, p)) // any
			require.NoError(t, err)
			for i := range 9 {
				require.Equal(t, fmt.Sprint((first+1+i)%3), next(t, p))
			}
		},
		"a random instance": func(t *testing.T, w *world) {
			p, _ := provider(t, w, "/random", discovery.WithStrategy(discovery.Random))
			seen := map[string]int{}
			for range 300 {
				seen[next(t, p)]++
			}
			require.Len(t, seen, 3)
		},
		"the same instance until it is deleted": func(t *testing.T, w *world) {
			p, all := provider(t, w, "/sticky", discovery.WithStrategy(discovery.Sticky))
			first := next(t, p)
			for range 10 {
				require.Equal(t, first, next(t, p))
			}
			for _, r := range all {
				if r.ID() == first {
					require.NoError(t, r.Unregister(kit.Context(t)))
				}
			}
			kit.Soon(t, "another", func() bool { return next(t, p) != first })
			second := next(t, p)
			require.Equal(t, second, next(t, p))
		},
		"no disabled instance": func(t *testing.T, w *world) {
			p, all := provider(t, w, "/disabled")
			require.NoError(t, all[1].Update(kit.Context(t), discovery.Instance[string]{Name: "s", Disabled: true}))
			kit.Soon(t, "two", func() bool { return len(p.Instances()) == 2 })
			for range 6 {
				require.NotEqual(t, "1", next(t, p))
			}
		},
		"no instance that has failed lately": func(t *testing.T, w *world) {
			p, _ := provider(t, w, "/down", discovery.WithDownAfter(2, time.Second))
			down := p.Instances()[0]
			p.NoteError(down)
			require.Len(t, p.Instances(), 3)
			p.NoteError(down)
			require.Len(t, p.Instances(), 2)
			kit.Soon(t, "it is tried again", func() bool { return len(p.Instances()) == 3 })
		},
		"only instances that a filter accepts, or none": func(t *testing.T, w *world) {
			keep := "2"
			p, all := provider(t, w, "/filter",
				discovery.WithFilter(func(i discovery.Instance[string]) bool { return i.ID == keep }))
			require.Equal(t, "2", next(t, p))
			require.Equal(t, "2", next(t, p))
			require.NoError(t, all[2].Unregister(kit.Context(t)))
			kit.Soon(t, "none", func() bool { return len(p.Instances()) == 0 })
			_, err := p.Instance()
			require.ErrorIs(t, err, discovery.ErrNoInstance) // Java returns null
		},
	})
}

// JSON that is written is as Java's, and reading requires no field that Java does not require.
func TestInstanceJSON(t *testing.T) {
	behave(t, map[string]func(t *testing.T, w *world){
		"keys in Java's order, null for missing values": func(t *testing.T, w *world) {
			d := below(t, w.client, "/json")
			r, err := d.Register(kit.Context(t), discovery.Instance[string]{Name: "n", ID: "i", Address: "h",
				Port: 10, Payload: "p", RegistrationTime: time.UnixMilli(5), URISpec: "{scheme}://h"})
			require.NoError(t, err)
			w.data(t, r.Path(), `{"name":"n","id":"i","address":"h","port":10,"sslPort":null,"payload":"p",`+
				`"registrationTimeUTC":5,"serviceType":"DYNAMIC","uriSpec":{"parts":[`+
				`{"value":"scheme","variable":true},{"value":"://h","variable":false}]}}`)
			require.NoError(t, r.Unregister(kit.Context(t)))
		},
		"unknown keys, and missing keys": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			_, err := w.client.Create().CreatingParentsIfNeeded().ForPath(ctx, services+"/json/n/x",
				[]byte(`{"name":"n","id":"x","more":[1]}`))
			require.NoError(t, err)
			i, err := below(t, w.client, "/json").Instance(ctx, "n", "x")
			require.NoError(t, err)
			require.Equal(t, discovery.Instance[string]{Name: "n", ID: "x"}, i) // enabled
		},
		"payloads of another type": func(t *testing.T, w *world) {
			ctx := kit.Context(t)
			_, err := w.client.Create().CreatingParentsIfNeeded().ForPath(ctx, services+"/json/n/y",
				[]byte(`{"name":"n","id":"y","payload":{"@class":"com.example.Info","a":1}}`))
			require.NoError(t, err)
			_, err = below(t, w.client, "/json").Instance(ctx, "n", "y")
			require.ErrorIs(t, err, discovery.ErrCorrupt)
			maps, err := discovery.New[map[string]int](w.client, services+"/json")
			require.NoError(t, err)
			i, err := maps.Instance(ctx, "n", "y")
			require.NoError(t, err)
			require.Equal(t, map[string]int{"a": 1}, i.Payload)
			raw, err := discovery.New[json.RawMessage](w.client, services+"/json")
			require.NoError(t, err)
			whole, err := raw.Instance(ctx, "n", "y")
			require.NoError(t, err)
			require.JSONEq(t, `{"@class":"com.example.Info","a":1}`, string(whole.Payload))
		},
		"a URI made of fields": func(t *testing.T, w *world) {
			i := discovery.Instance[string]{Name: "n", ID: "i", Address: "h", Port: 80, SSLPort: 443,
				URISpec: "{scheme}://{address}:{ssl-port}/{name}{[}{one}{]}{unknown}"}
			require.Equal(t, "https://h:443/n{two}", i.URI(map[string]string{"one": "two"}))
			i.SSLPort = 0
			require.Equal(t, "http://h:/n{}", i.URI(nil))
		},
	})
}
