package stories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/recipes/discovery"
	membership "github.com/go-curator/curator/recipes/group"
	keeping "github.com/go-curator/curator/recipes/node"
)

// parting is for the last operation of a client: it needs a connection, which may have to come back first.
func parting(s *scene, what string, do func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	if err := do(ctx); err != nil {
		s.fail("%s: %v", what, err)
	}
}

// sessionOf returns the id of a client's session.
func sessionOf(t *testing.T, c *framework.Client) int64 {
	t.Helper()
	session, err := c.Session(kit.Context(t))
	require.NoError(t, err)
	return session.ID()
}

// javas has the data that Java has set last, and the function that returns what it sees.
type javas struct {
	mu   sync.Mutex
	data string
	sees func(ctx context.Context) ([]string, error)
}

func (j *javas) begin(sees func(ctx context.Context) ([]string, error)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.data, j.sees = "0", sees
}

// set has Java set data, again and again. Data that it could not set because there was no node for a moment are written
// with the next create. While changing is locked nothing is set.
func (j *javas) set(ctx context.Context, s *scene, changing *sync.RWMutex, set func(data string) error) {
	for n := 1; ctx.Err() == nil; n++ {
		changing.RLock()
		data := strconv.Itoa(n)
		j.mu.Lock()
		j.data = data
		j.mu.Unlock()
		if set(data) == nil {
			s.done(java)
		}
		changing.RUnlock()
		think(ctx)
	}
}

// shows waits until Java sees the expected list.
func (j *javas) shows(t *testing.T, want []string) {
	t.Helper()
	j.mu.Lock()
	sees := j.sees
	j.mu.Unlock()
	slices.Sort(want)
	var got []string
	kit.Soon(t, fmt.Sprint("Java sees ", want), func() bool {
		var err error
		got, err = sees(kit.Context(t))
		slices.Sort(got)
		return err == nil && slices.Equal(got, want)
	})
}

// keepers has every client keep its own node, whose data grow, and all keep one more at the same path. When no client
// sets data all own nodes are there, of the current sessions and with the last data, and one of the clients has the
// common node.
func keepers(g *group, s *scene) part {
	var setting sync.RWMutex // held for writing when no client may set data
	var own, common [clients]*keeping.Keeper
	for who := range clients {
		var errs [2]error
		own[who], errs[0] = keeping.NewKeeper(g.clients[who], fmt.Sprint(s.path, "/own-", who), []byte("0"))
		common[who], errs[1] = keeping.NewKeeper(g.clients[who], s.path+"/common", nil)
		require.NoError(s.t, errors.Join(errs[:]...))
	}
	var theirs javas
	javaPath := s.path + "/own-java"
	s.java = func(ctx context.Context, p *guest) {
		kept, err := p.Node(ctx, s.name, javaPath, "EPHEMERAL", false, "0")
		if err != nil {
			return // the process was killed
		}
		theirs.begin(nil)
		theirs.set(ctx, s, &setting, func(data string) error { return kept.Set(context.Background(), data) })
	}
	s.settled = func(t *testing.T) {
		setting.Lock()
		defer setting.Unlock()
		if s.withJava() {
			kit.Soon(t, "Java's node is there", func() bool {
				var stat framework.Stat
				data, err := g.watcher.GetData().StoringStatIn(&stat).ForPath(kit.Context(t), javaPath)
				if err != nil || string(data) != theirs.data {
					return false
				}
				session, err := g.guest.SessionID(kit.Context(t))
				return err == nil && stat.EphemeralOwner == session
			})
		}
		for who, keeper := range own {
			kit.Soon(t, "a kept node is there", func() bool {
				var stat framework.Stat
				data, err := g.clients[who].GetData().StoringStatIn(&stat).ForPath(kit.Context(t), keeper.Path())
				return err == nil && string(data) == string(keeper.Data()) && keeper.Status().State == keeping.There &&
					stat.EphemeralOwner == sessionOf(t, g.clients[who])
			})
		}
		kit.Soon(t, "one has the common node", func() bool {
			there := 0
			for _, keeper := range common {
				if keeper.Status().State == keeping.There {
					there++
				}
			}
			stat, err := g.clients[0].CheckExists().ForPath(kit.Context(t), s.path+"/common")
			return err == nil && stat != nil && there == 1
		})
	}
	return func(ctx context.Context, who int) {
		for n := 1; ctx.Err() == nil; n++ {
			setting.RLock()
			data := strconv.Itoa(n)
			if s.fine(ctx, own[who].SetData(ctx, []byte(data))) && s.fine(ctx, own[who].WaitCreated(ctx)) {
				s.done(who)
			}
			setting.RUnlock()
			think(ctx)
		}
		parting(s, "close", func(ctx context.Context) error {
			return errors.Join(own[who].Close(ctx), common[who].Close(ctx))
		})
	}
}

// groups has every client leave a group and join it again, and wait until all are in it.
func groups(g *group, s *scene) part {
	var moving sync.RWMutex // held for writing when no client may join or leave
	var members [clients]*joined
	join := func(who, n int) (*joined, error) {
		m, err := membership.Join(g.clients[who], s.path, fmt.Sprint("member-", who), []byte(strconv.Itoa(n)))
		return &joined{m, strconv.Itoa(n)}, err
	}
	for who := range clients {
		var err error
		members[who], err = join(who, 0)
		require.NoError(s.t, err)
	}
	var theirs javas
	java := func(ctx context.Context, p *guest) {
		member, err := p.Member(ctx, s.name, s.path, "member-java", "0")
		if err != nil {
			return
		}
		theirs.begin(func(ctx context.Context) ([]string, error) {
			all, err := member.All(ctx)
			return strings.Fields(all), err
		})
		theirs.set(ctx, s, &moving, func(data string) error { return member.Set(context.Background(), data) })
	}
	if kit.Has(s.t, kit.PersistentWatches) { // Java's caches have no other watches
		s.java = java
	}
	s.settled = func(t *testing.T) {
		moving.Lock()
		defer moving.Unlock()
		var want []string // ID=DATA of SESSION
		text := func(id, data string, session int64) string { return fmt.Sprintf("%s=%s of %#x", id, data, session) }
		var toJava []string // without sessions
		for who := range clients {
			id := fmt.Sprint("member-", who)
			want = append(want, text(id, members[who].data, sessionOf(t, g.clients[who])))
			toJava = append(toJava, id+"="+members[who].data)
		}
		if s.withJava() {
			session, err := g.guest.SessionID(kit.Context(t))
			require.NoError(t, err)
			want = append(want, text("member-java", theirs.data, session))
			theirs.shows(t, append(toJava, "member-java="+theirs.data))
		}
		slices.Sort(want)
		for _, m := range members {
			kit.Soon(t, "all see the same members", func() bool {
				var got []string
				all, current := m.Members()
				for _, i := range all {
					got = append(got, text(i.ID, string(i.Data), i.SessionID))
				}
				slices.Sort(got)
				return current && slices.Equal(got, want)
			})
		}
	}
	return func(ctx context.Context, who int) {
		for n := 1; ctx.Err() == nil; n++ {
			moving.RLock()
			m := members[who]
			if rand.N(2) == 0 {
				parting(s, "leave", m.Leave)
				var err error
				m, err = join(who, n)
				require.NoError(s.t, err)
				members[who] = m
			}
			if s.fine(ctx, m.Joined(ctx)) {
				if _, err := m.WaitFor(ctx, clients); s.fine(ctx, err) {
					s.done(who)
				}
			}
			moving.RUnlock()
			think(ctx)
		}
		parting(s, "leave", members[who].Leave)
	}
}

// joined is a member and its data.
type joined struct {
	*membership.Member
	data string
}

// services has every client register an instance, change it, sometimes unregister it, and wait until a cache shows its
// last change.
func services(g *group, s *scene) part {
	s.dirs = regexp.MustCompile(`^/web$`)
	var changing sync.RWMutex // held for writing when no client may change anything
	var caches [clients]*discovery.Cache[string]
	var all [clients]*discovery.Discovery[string]
	var now [clients]string
	for who := range clients {
		var errs [2]error
		all[who], errs[0] = discovery.New[string](g.clients[who], s.path)
		caches[who], errs[1] = all[who].Cache("web")
		require.NoError(s.t, errors.Join(errs[:]...))
		s.t.Cleanup(func() { assert.NoError(s.t, caches[who].Close()) })
	}
	id := func(who int) string { return fmt.Sprint("instance-", who) }
	shows := func(c *discovery.Cache[string], who int, payload string) bool {
		return slices.ContainsFunc(c.Instances(), func(i discovery.Instance[string]) bool {
			return i.ID == id(who) && i.Payload == payload
		})
	}
	var theirs javas
	java := func(ctx context.Context, p *guest) {
		services, err := p.Discovery(ctx, s.name, s.path, false, false)
		if err != nil {
			return
		}
		cache, err := services.Cache(ctx, s.name+" cache", "web")
		if err != nil {
			return
		}
		theirs.begin(func(ctx context.Context) (all []string, err error) {
			texts, err := cache.Instances(ctx)
			for _, text := range texts {
				words := strings.Fields(text)
				all = append(all, strings.TrimPrefix(words[0], "web/")+"="+words[len(words)-1])
			}
			return all, err
		})
		registered := false
		theirs.set(ctx, s, &changing, func(data string) error {
			fields := []string{"name=web", "id=instance-java", "time=5", "text=" + data}
			if !registered {
				err := services.Register(context.Background(), fields...)
				registered = err == nil
				return err
			}
			return services.Update(context.Background(), fields...)
		})
	}
	if kit.Has(s.t, kit.PersistentWatches) {
		s.java = java
	}
	s.settled = func(t *testing.T) {
		changing.Lock()
		defer changing.Unlock()
		var want []string
		for who := range clients {
			want = append(want, id(who)+"="+now[who])
		}
		if s.withJava() {
			want = append(want, "instance-java="+theirs.data)
			theirs.shows(t, want)
		}
		slices.Sort(want)
		for _, c := range caches {
			kit.Soon(t, "all caches show what is registered", func() bool {
				var got []string
				for _, i := range c.Instances() {
					got = append(got, i.ID+"="+i.Payload)
				}
				slices.Sort(got)
				return slices.Equal(got, want)
			})
		}
	}
	return func(ctx context.Context, who int) {
		instance := discovery.Instance[string]{Name: "web", ID: id(who), Address: "127.0.0.1", Port: 80}
		var mine *discovery.Registration[string]
		for n := 1; ctx.Err() == nil; n++ {
			changing.RLock()
			var err error
			if mine != nil && rand.N(3) == 0 {
				parting(s, "unregister", mine.Unregister)
				mine = nil
			}
			instance.Payload = strconv.Itoa(n)
			for mine == nil && ctx.Err() == nil {
				if mine, err = all[who].Register(ctx, instance); !s.fine(ctx, err) {
					mine = nil
				}
			}
			if mine != nil && s.fine(ctx, mine.Update(ctx, instance)) {
				now[who] = instance.Payload
				for ctx.Err() == nil && !shows(caches[who], who, instance.Payload) {
					pause(ctx, 5*time.Millisecond)
				}
				s.done(who)
			}
			changing.RUnlock()
			think(ctx)
		}
		if mine != nil {
			parting(s, "unregister", mine.Unregister)
		}
	}
}
