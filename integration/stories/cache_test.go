package stories

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
	"github.com/go-curator/curator/integration/internal/kit"
)

// copies are the caches of one client.
type copies struct {
	tree     *cache.Cache
	children *cache.PathChildren
	mark     *cache.Single // the mark of this client

	mu     sync.Mutex
	played map[string]cache.Node // result of the events of the tree
}

// caches has every client write into a tree of which all have caches: nodes are created and deleted at random, and each
// client has a mark whose number grows. A round is done when the number has arrived in the client's own caches.
func caches(g *group, s *scene) part {
	s.dirs = regexp.MustCompile(`^(/mark-\d|/[abc](/[abc])?)$`)
	var writing sync.RWMutex // held for writing when no client may write
	all := make([]*copies, clients)
	for who := range all {
		c := &copies{played: map[string]cache.Node{}}
		opts := []cache.TreeOption{}
		if who == 1 {
			opts = append(opts, cache.WithOneShotWatches())
		}
		var err [3]error
		c.tree, err[0] = cache.NewTree(g.clients[who], s.path, opts...)
		c.children, err[1] = cache.NewPathChildren(g.clients[who], s.path)
		c.mark, err[2] = cache.NewNode(g.clients[who], mark(s, who))
		require.NoError(s.t, errors.Join(err[:]...))
		s.t.Cleanup(func() { c.tree.Close(); c.children.Close(); c.mark.Close() })
		all[who] = c
		g.work.Go(func() { c.play(g.ctx, s) })
	}
	s.settled = func(t *testing.T) {
		writing.Lock()
		defer writing.Unlock()
		s.equal(t, g, all)
	}
	return func(ctx context.Context, who int) {
		for n := 1; ctx.Err() == nil; n++ {
			writing.RLock()
			s.scribble(ctx, g.clients[who])
			_, err := g.clients[who].Create().CreatingParentContainersIfNeeded().OrSetData().
				ForPath(ctx, mark(s, who), []byte(strconv.Itoa(n)))
			writing.RUnlock()
			if s.fine(ctx, err) && all[who].arrived(ctx, s, who, n) {
				s.done(who)
			}
			think(ctx)
		}
	}
}

func mark(s *scene, who int) string { return fmt.Sprintf("%s/mark-%d", s.path, who) }

// scribble makes a random change.
func (s *scene) scribble(ctx context.Context, client *framework.Client) {
	name := func() string { return "/" + string("abc"[rand.N(3)]) }
	path := s.path + name()
	if rand.N(2) == 0 {
		path += name()
	}
	var err error
	switch rand.N(3) {
	case 0:
		err = client.Delete().ForPath(ctx, path)
	case 1:
		_, err = client.SetData().ForPath(ctx, path, []byte(strconv.Itoa(rand.N(1000))))
	default:
		_, err = client.Create().ForPath(ctx, path, []byte("new"))
	}
	for _, ordinary := range []error{framework.ErrNoNode, framework.ErrNodeExists, framework.ErrNotEmpty} {
		if errors.Is(err, ordinary) {
			return
		}
	}
	s.fine(ctx, err)
}

// arrived waits until the client's caches have a mark, or a later one: a write with an unknown outcome may be executed
// late.
func (c *copies) arrived(ctx context.Context, s *scene, who, n int) bool {
	for end := time.Now().Add(kit.Patience); ctx.Err() == nil; pause(ctx, 5*time.Millisecond) {
		arrived := 0
		tree, _ := c.tree.Get(mark(s, who))
		child, _ := c.children.Get(fmt.Sprintf("mark-%d", who))
		single, _ := c.mark.Get()
		for _, node := range []cache.Node{tree, child, single} {
			if got, err := strconv.Atoi(string(node.Data)); err == nil && got >= n {
				arrived++
			}
		}
		if arrived == 3 {
			return true
		}
		if time.Now().After(end) {
			s.fail("mark %d of client %d is not in its copies: %s, %s, %s", n, who, tree.Data, child.Data, single.Data)
			return false
		}
	}
	return false
}

// play applies the events of the tree's cache.
func (c *copies) play(ctx context.Context, s *scene) {
	for event, err := range c.tree.Events(ctx) {
		if err != nil {
			s.fine(ctx, err)
			return
		}
		c.mu.Lock()
		_, known := c.played[event.Path]
		switch event.Type {
		case cache.Created:
			if known {
				s.fail("%s was created twice", event.Path)
			}
			c.played[event.Path] = *event.New
		case cache.Changed:
			if !known {
				s.fail("%s was changed and never created", event.Path)
			}
			c.played[event.Path] = *event.New
		case cache.Deleted:
			if !known {
				s.fail("%s was deleted and never created", event.Path)
			}
			delete(c.played, event.Path)
		case cache.Failed:
			s.fail("%s: %v", event.Path, event.Err)
		}
		c.mu.Unlock()
	}
}

// node has the fields of a node that must be the same everywhere.
type node struct {
	data         string
	czxid, mzxid int64
	version      int32
}

func nodeOf(data []byte, stat framework.Stat) node {
	return node{string(data), stat.Czxid, stat.Mzxid, stat.Version}
}

var childOf = regexp.MustCompile(`^/[^/]+$`)

// equal waits until every cache equals the tree, and so does the result of the events.
func (s *scene) equal(t *testing.T, g *group, all []*copies) {
	t.Helper()
	var differ string
	same := func() bool {
		ctx := g.ctx
		nodes := map[string]node{}
		for n, err := range tree.Walk(g.clients[0]).ForPath(ctx, s.path) {
			if err != nil {
				differ = err.Error()
				return false
			}
			nodes[n.Path] = nodeOf(n.Data, n.Stat)
		}
		for who, c := range all {
			has, played, children := map[string]node{}, map[string]node{}, map[string]node{}
			for path, n := range c.tree.All() {
				has[path] = nodeOf(n.Data, n.Stat)
			}
			c.mu.Lock()
			for path, n := range c.played {
				played[path] = nodeOf(n.Data, n.Stat)
			}
			c.mu.Unlock()
			for name, n := range c.children.All() {
				children[s.path+"/"+name] = nodeOf(n.Data, n.Stat)
			}
			top := map[string]node{}
			for path, n := range nodes {
				if len(path) > len(s.path) && childOf.MatchString(path[len(s.path):]) {
					top[path] = n
				}
			}
			for _, pair := range []struct {
				what       string
				have, want map[string]node
			}{{"tree", has, nodes}, {"played", played, nodes}, {"children", children, top}} {
				if !maps.Equal(pair.have, pair.want) {
					differ = fmt.Sprintf("the copy (%s) of client %d is\n%v\nand should be\n%v", pair.what, who, pair.have,
						pair.want)
					return false
				}
			}
		}
		return true
	}
	for end := time.Now().Add(kit.Patience); !same(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) || g.ctx.Err() != nil {
			s.wrong.Add(1)
			assert.Fail(t, "copies do not come to equal the tree", differ)
			return
		}
	}
}
