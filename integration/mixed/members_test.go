package mixed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/recipes/group"
	"github.com/go-curator/curator/recipes/node"
)

const (
	nodesPath    = "/kept"
	groupPath    = "/members"
	servicesPath = "/services"
)

// presence is what must be there of each process, by name: what it has set last, at each of the three.
type presence struct {
	mu   sync.Mutex
	last map[string]string
}

func (w *presence) set(p *process, what, data string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[what+" "+p.name] = data
}

func (w *presence) of(what string, p *process) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[what+" "+p.name]
}

// golang keeps a node, is a member of the group, and registers an instance; and changes all of them.
func (w *presence) golang(c *crowd, p *process, stay <-chan struct{}) {
	ctx := context.WithoutCancel(p.ctx)
	kept, err := node.NewKeeper(p.client, nodesPath+"/"+p.name, []byte("0"))
	require.NoError(c.t, err)
	member, err := group.Join(p.client, groupPath, p.name, []byte("0"))
	require.NoError(c.t, err)
	services, err := discovery.New[string](p.client, servicesPath)
	require.NoError(c.t, err)
	cache, err := services.Cache("web")
	require.NoError(c.t, err)
	defer cache.Close()
	instance := discovery.Instance[string]{Name: "web", ID: p.name, Payload: "0"}
	var mine *discovery.Registration[string]
	for n := 1; p.ctx.Err() == nil && !closed(stay); n++ {
		data := fmt.Sprint(n)
		w.set(p, "node", data)
		if kept.SetData(p.ctx, []byte(data)) == nil && kept.WaitCreated(p.ctx) == nil {
			c.did(p, "node")
		}
		if n%5 == 0 && member.Leave(p.ctx) == nil { // and comes back
			member, err = group.Join(p.client, groupPath, p.name, []byte("0"))
			require.NoError(c.t, err)
		}
		w.set(p, "member", data)
		if member.SetData(p.ctx, []byte(data)) == nil {
			c.did(p, "member")
		}
		if mine != nil && n%5 == 0 && mine.Unregister(p.ctx) == nil {
			mine = nil
		}
		w.set(p, "instance", data)
		if instance.Payload = data; mine == nil {
			if mine, err = services.Register(p.ctx, instance); err != nil {
				mine = nil
			}
		}
		if mine != nil && mine.Update(p.ctx, instance) == nil {
			c.did(p, "instance")
		}
		nap(p.ctx)
	}
	if closed(stay) {
		c.sees(p.name, func() (members, instances []string) {
			all, _ := member.Members()
			for _, m := range all {
				members = append(members, m.ID+"="+string(m.Data))
			}
			for _, i := range cache.Instances() {
				instances = append(instances, i.ID+"="+i.Payload)
			}
			return members, instances
		}, w)
		<-p.ctx.Done()
	}
	if p.killed.Load() {
		return
	}
	require.NoError(c.t, kept.Close(ctx))
	require.NoError(c.t, member.Leave(ctx))
	if mine != nil {
		require.NoError(c.t, mine.Unregister(ctx))
	}
}

// java does the same in Java.
func (w *presence) java(c *crowd, p *process, stay <-chan struct{}) {
	ctx := context.WithoutCancel(p.ctx) // what is asked of a process that is killed has an end
	fail := func(err error) bool { return err != nil && (p.killed.Load() || p.ctx.Err() != nil) }
	kept, err := p.peer.Node(ctx, "node", nodesPath+"/"+p.name, "EPHEMERAL", false, "0")
	if fail(err) {
		return
	}
	require.NoError(c.t, err)
	member, err := p.peer.Member(ctx, "member", groupPath, p.name, "0")
	if fail(err) {
		return
	}
	require.NoError(c.t, err)
	services, err := p.peer.Discovery(ctx, "services", servicesPath, false, false)
	if fail(err) {
		return
	}
	require.NoError(c.t, err)
	cache, err := services.Cache(ctx, "cache", "web")
	if fail(err) {
		return
	}
	require.NoError(c.t, err)
	fields := []string{"name=web", "id=" + p.name, "time=5"}
	registered := false
	for n := 1; p.ctx.Err() == nil && !closed(stay); n++ {
		data := fmt.Sprint(n)
		if w.set(p, "node", data); kept.Set(p.ctx, data) == nil {
			c.did(p, "node")
		}
		if w.set(p, "member", data); member.Set(p.ctx, data) == nil {
			c.did(p, "member")
		}
		w.set(p, "instance", data)
		with := append(slices.Clone(fields), "text="+data)
		if !registered {
			registered = services.Register(p.ctx, with...) == nil
		}
		// An update of what is not there for a moment fails, and Java remembers it all the same.
		if registered && services.Update(p.ctx, with...) == nil {
			c.did(p, "instance")
		}
		nap(p.ctx)
	}
	if closed(stay) {
		c.sees(p.name, func() (members, instances []string) {
			all, err := member.All(ctx)
			if err == nil {
				members = strings.Fields(all)
			}
			texts, err := cache.Instances(ctx)
			if err == nil {
				for _, text := range texts {
					words := strings.Fields(text)
					instances = append(instances, strings.TrimPrefix(words[0], "web/")+"="+words[len(words)-1])
				}
			}
			return members, instances
		}, w)
		<-p.ctx.Done()
	}
	if p.killed.Load() {
		return
	}
	require.NoError(c.t, kept.Close(ctx))
	require.NoError(c.t, member.Close(ctx))
	require.NoError(c.t, cache.Close(ctx))
	require.NoError(c.t, services.Close(ctx))
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sees waits until a process sees everybody, with what they have set last.
func (c *crowd) sees(who string, what func() (members, instances []string), w *presence) {
	ctx, cancel := c.soon()
	defer cancel()
	for ctx.Err() == nil {
		members, instances := what()
		var wanted [2][]string // others may still be at their last change
		for _, p := range c.all {
			wanted[0] = append(wanted[0], p.name+"="+w.of("member", p))
			wanted[1] = append(wanted[1], p.name+"="+w.of("instance", p))
		}
		slices.Sort(wanted[0])
		slices.Sort(wanted[1])
		slices.Sort(members)
		slices.Sort(instances)
		if slices.Equal(members, wanted[0]) && slices.Equal(instances, wanted[1]) {
			c.count("sees").Add(1)
			return
		}
		if nap(ctx); ctx.Err() != nil {
			c.t.Errorf("%s sees the members %v and the instances %v, and there should be %v", who, members, instances, wanted)
		}
	}
}

// Kept nodes, members and service instances of both languages that are cut off, lose their sessions and are killed:
// in the end all are there, with what was set last, in the present sessions, and both see the same; and when they
// have gone nothing is left.
func TestMembersInTrouble(t *testing.T) {
	for _, recipe := range []string{"persistent node", "group", "service discovery"} {
		kit.Interop(t, recipe, kit.Mixed)
	}
	c, w := &crowd{}, &presence{last: map[string]string{}}
	stay := make(chan struct{})
	c.golang = func(c *crowd, p *process) { w.golang(c, p, stay) }
	c.java = func(c *crowd, p *process) { w.java(c, p, stay) }
	gather(t, c, 3, 2)
	works := []string{"node", "member", "instance"}
	c.goOn("", works, 1)
	c.trouble()
	c.goOn("", works, 2)
	close(stay)
	for _, p := range c.all {
		kit.Soon(t, p.name+"'s node is there", func() bool {
			var stat framework.Stat
			data, err := c.watcher.GetData().StoringStatIn(&stat).ForPath(kit.Context(t), nodesPath+"/"+p.name)
			if err != nil || string(data) != w.of("node", p) {
				return false
			}
			session, err := c.sessionOf(p)
			return err == nil && stat.EphemeralOwner == session
		})
	}
	for c.count("sees").Load() < int64(len(c.all)) && !t.Failed() {
		nap(context.Background())
	}
	c.finish()
	for _, path := range []string{nodesPath, groupPath, servicesPath + "/web"} {
		c.empty(path)
	}
	c.leave()
	for _, what := range works {
		kit.Figure(t, "%s: %d changes by Go, %d by Java, under %v", what, c.total("go", " "+what),
			c.total("java", " "+what), c.counts)
	}
}

func (c *crowd) sessionOf(p *process) (int64, error) {
	ctx, cancel := c.soon()
	defer cancel()
	if p.isJava() {
		return p.peer.SessionID(ctx)
	}
	session, err := p.client.Session(ctx)
	if err != nil {
		return 0, err
	}
	return session.ID(), nil
}

// Numbers that Go and Java add to, while Go's processes are cut off, lose their sessions and are killed: each
// addition counts once, or not at all, and only of those whose outcome is said to be unknown nobody knows which.
func TestNumbersInTrouble(t *testing.T) {
	kit.Interop(t, "counter", kit.Mixed)
	const path, lock = "/numbers/sum", "/numbers/lock"
	c := &crowd{exact: true}
	c.golang = func(c *crowd, p *process) {
		ours := counter.NewLong(p.client, path, counter.WithLock(lock))
		var adders sync.WaitGroup
		defer adders.Wait()
		for range 3 {
			adders.Go(func() {
				for p.ctx.Err() == nil {
					switch _, err := ours.Add(p.ctx, 1); {
					case err == nil:
						c.did(p, "added")
					case errors.Is(err, framework.ErrOutcomeUnknown):
						c.count("unknown").Add(1)
					}
					nap(p.ctx)
				}
			})
		}
	}
	c.java = func(c *crowd, p *process) {
		ctx := context.WithoutCancel(p.ctx)
		theirs, err := p.peer.Long(ctx, "long", path, lock)
		require.NoError(c.t, err)
		for p.ctx.Err() == nil {
			_, err := theirs.Add(ctx, 1, 1)
			require.NoError(c.t, err)
			c.did(p, "added")
			nap(p.ctx)
		}
	}
	gather(t, c, 3, 1)
	c.goOn("", []string{"added"}, 1)
	c.trouble()
	c.goOn("", []string{"added"}, 2)
	c.finish()
	seen, err := counter.NewLong(c.watcher, path).Get(kit.Context(t))
	require.NoError(t, err)
	golang, java, unknown := c.total("go", " added"), c.total("java", " added"), c.count("unknown").Load()
	require.GreaterOrEqual(t, seen.N, golang+java)
	require.LessOrEqual(t, seen.N, golang+java+unknown)
	c.leave()
	c.empty(path)
	c.empty(lock)
	kit.Figure(t, "%d: %d additions by Go and %d by Java, %d unknown, under %v", seen.N, golang, java, unknown, c.counts)
}
