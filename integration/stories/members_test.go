package stories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
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

// parting is for the last thing that a client does: it needs a connection, which may have to come back first.
func parting(s *scene, what string, do func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	if err := do(ctx); err != nil {
		s.fail("%s: %v", what, err)
	}
}

// sessionOf is the session that a client has.
func sessionOf(t *testing.T, c *framework.Client) int64 {
	t.Helper()
	session, err := c.Session(kit.Context(t))
	require.NoError(t, err)
	return session.ID()
}

// keepers has everybody keep a node of his own, whose data grow, and all keep one more at the same path. When
// nothing goes on all own nodes are there, of the present sessions and with the last data, and one of the
// clients has the common one.
func keepers(g *group, s *scene) part {
	var setting sync.RWMutex // held for writing when nobody is to set anything
	var own, common [clients]*keeping.Keeper
	for who := range clients {
		var errs [2]error
		own[who], errs[0] = keeping.NewKeeper(g.clients[who], fmt.Sprint(s.path, "/own-", who), []byte("0"))
		common[who], errs[1] = keeping.NewKeeper(g.clients[who], s.path+"/common", nil)
		require.NoError(s.t, errors.Join(errs[:]...))
	}
	s.settled = func(t *testing.T) {
		setting.Lock()
		defer setting.Unlock()
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

// groups has everybody leave a group and join it again, and wait until all are in it.
func groups(g *group, s *scene) part {
	var moving sync.RWMutex // held for writing when nobody is to come or go
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
	s.settled = func(t *testing.T) {
		moving.Lock()
		defer moving.Unlock()
		for _, m := range members {
			kit.Soon(t, "all see the same members", func() bool {
				all, current := m.Members()
				good := current && len(all) == clients
				for who := range clients {
					good = good && slices.ContainsFunc(all, func(i membership.Info) bool {
						return i.ID == fmt.Sprint("member-", who) && string(i.Data) == members[who].data &&
							i.SessionID == sessionOf(t, g.clients[who])
					})
				}
				return good
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

// services has everybody register an instance, change it, take it away now and then, and wait until it sees in a
// cache what it has written.
func services(g *group, s *scene) part {
	s.dirs = regexp.MustCompile(`^/web$`)
	var changing sync.RWMutex // held for writing when nobody is to change anything
	var caches [clients]*discovery.Cache[int]
	var all [clients]*discovery.Discovery[int]
	var now [clients]int
	for who := range clients {
		var errs [2]error
		all[who], errs[0] = discovery.New[int](g.clients[who], s.path)
		caches[who], errs[1] = all[who].Cache("web")
		require.NoError(s.t, errors.Join(errs[:]...))
		s.t.Cleanup(func() { assert.NoError(s.t, caches[who].Close()) })
	}
	id := func(who int) string { return fmt.Sprint("instance-", who) }
	shows := func(c *discovery.Cache[int], who, n int) bool {
		return slices.ContainsFunc(c.Instances(), func(i discovery.Instance[int]) bool {
			return i.ID == id(who) && i.Payload == n
		})
	}
	s.settled = func(t *testing.T) {
		changing.Lock()
		defer changing.Unlock()
		for _, c := range caches {
			kit.Soon(t, "all caches show what is registered", func() bool {
				good := len(c.Instances()) == clients
				for who := range clients {
					good = good && shows(c, who, now[who])
				}
				return good
			})
		}
	}
	return func(ctx context.Context, who int) {
		instance := discovery.Instance[int]{Name: "web", ID: id(who), Address: "127.0.0.1", Port: 80}
		var mine *discovery.Registration[int]
		for n := 1; ctx.Err() == nil; n++ {
			changing.RLock()
			var err error
			if mine != nil && rand.N(3) == 0 {
				parting(s, "unregister", mine.Unregister)
				mine = nil
			}
			instance.Payload = n
			for mine == nil && ctx.Err() == nil {
				if mine, err = all[who].Register(ctx, instance); !s.fine(ctx, err) {
					mine = nil
				}
			}
			if mine != nil && s.fine(ctx, mine.Update(ctx, instance)) {
				now[who] = n
				for ctx.Err() == nil && !shows(caches[who], who, n) {
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
