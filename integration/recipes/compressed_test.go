package recipes

import (
	"bytes"
	"context"
	"net"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/counter"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/recipes/group"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/node"
	"github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
)

// compressing has clients of both languages that compress all data, and one of Go that does not, at one server.
type compressing struct {
	t             *testing.T
	ctx           context.Context
	golang, plain *framework.Client
	java          *javapeer.Peer
	// address is Java's default data.
	address string
}

func newCompressing(t *testing.T) *compressing {
	t.Helper()
	kit.Needs(t, kit.EnableCompression)
	kit.Interop(t, "compression", kit.GoToJava, kit.JavaToGo)
	const calm = 20 * time.Second // no session may end
	server := zkserver.Start(t, zkserver.Options{ExtendedTypes: true})
	c := &compressing{t: t, java: javapeer.Start(t)}
	c.golang, _ = kit.Connected(t, server.ConnectString(), framework.WithCompression(),
		framework.WithSessionTimeout(calm), framework.WithDefaultData([]byte("of Go")))
	c.plain, _ = kit.Connected(t, server.ConnectString(), framework.WithSessionTimeout(calm))
	require.NoError(t, c.java.ConnectCompressing(kit.Context(t), server.ConnectString(), calm))
	c.ctx = kit.Context(t)
	set, err := c.java.Barrier(c.ctx, "address", "/address")
	require.NoError(t, err)
	require.NoError(t, set.Set(c.ctx))
	address, err := c.java.Get(c.ctx, "/address")
	require.NoError(t, err)
	require.NotNil(t, net.ParseIP(string(address)), "%q", address)
	c.address = string(address)
	return c
}

// stored returns the bytes of the node that matches pattern, a path whose last name may have wildcards.
func (c *compressing) stored(pattern string) (node string, data []byte) {
	c.t.Helper()
	dir, name := path.Split(pattern)
	names, err := c.plain.GetChildren().ForPath(c.ctx, path.Clean(dir))
	require.NoError(c.t, err, pattern)
	for _, child := range names {
		if matches, err := path.Match(name, child); err == nil && matches {
			require.Empty(c.t, node, "another node matches %s", pattern)
			node = dir + child
		}
	}
	require.NotEmpty(c.t, node, "no node matches %s in %q", pattern, names)
	data, err = c.plain.GetData().ForPath(c.ctx, node)
	require.NoError(c.t, err)
	return node, data
}

// isGzip reports whether data begin as compressed data do.
func isGzip(data []byte) bool { return bytes.HasPrefix(data, []byte("\x1f\x8b\x08")) }

// consumeCompressed returns the first item that q yields.
func consumeCompressed(ctx context.Context, q *queue.Queue) (item string, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	took := false
	err = q.Consume(ctx, func(_ context.Context, data []byte) error {
		if !took {
			item, took = string(data), true
			stop()
		}
		return nil
	})
	if took {
		err = nil
	}
	return item, err
}

// failure returns the error of a call whose value does not matter.
func failure[T any](_ T, err error) error { return err }

// dataOf returns the data of the single participant.
func dataOf[P any](all []P, err error, data func(P) []byte) (string, error) {
	var texts []string
	for _, p := range all {
		texts = append(texts, string(data(p)))
	}
	return strings.Join(texts, ", "), err
}

// compressedRow is a recipe whose data both languages write. Every row is at two paths, one for either direction.
type compressedRow struct {
	name string
	// node is a pattern of the path of the node, below the recipe's path.
	node string
	// writesGo and writesJava write at a path.
	writesGo, writesJava func(at string) error
	// wrote has the data that readers must find: Go's, and Java's.
	wrote [2]string
	// readsGo and readsJava read with the recipe; they are nil where it does not read others' data, and a read of the
	// node takes their place.
	readsGo, readsJava func(at string) (string, error)
}

// compressedRows returns the rows of the table "Compression" in docs/znodes.md, without recipes that only this library
// has.
func (c *compressing) compressedRows() []compressedRow {
	ctx, golang, java := c.ctx, c.golang, c.java
	both := [2]string{"of Go", "of Java"}
	defaults := [2]string{"of Go", c.address}
	acquire := func(lock *javapeer.Lock, err error) error {
		if err != nil {
			return err
		}
		return failure(lock.Acquire(ctx, javapeer.Forever))
	}
	return []compressedRow{
		{"mutex", "*lock-*", func(at string) error {
			return failure(mutex.New(golang, at, mutex.WithNodeData([]byte("of Go"))).Acquire(ctx))
		}, func(at string) error {
			return acquire(java.Mutex(ctx, at, at))
		}, defaults, func(at string) (string, error) {
			holder, _, err := mutex.New(golang, at).Holder(ctx)
			return string(holder.Data), err
		}, nil},
		{"read-write lock", "*__WRIT__*", func(at string) error {
			return failure(rwlock.New(golang, at, rwlock.WithNodeData([]byte("of Go"))).WriteLock().Acquire(ctx))
		}, func(at string) error {
			_, write, err := java.ReadWrite(ctx, at, at)
			return acquire(write, err)
		}, defaults, func(at string) (string, error) {
			all, err := rwlock.New(golang, at).Holders(ctx)
			return dataOf(all, err, func(p rwlock.Participant) []byte { return p.Data })
		}, nil},
		{"semaphore", "leases/*lease-*", func(at string) error {
			return failure(semaphore.New(golang, at, 1, semaphore.WithLeaseData([]byte("of Go"))).Acquire(ctx, 1))
		}, func(at string) error {
			s, err := java.Semaphore(ctx, at, at, 1)
			if err != nil {
				return err
			}
			return failure(s.Acquire(ctx, at, 1, kit.Patience))
		}, defaults, func(at string) (string, error) {
			all, err := semaphore.New(golang, at, 1).Participants(ctx)
			return dataOf(all, err, func(p semaphore.Participant) []byte { return p.Data })
		}, nil},
		{"election", "*latch-*", func(at string) error {
			latch, err := leader.NewLatch(golang, at, leader.WithID("of Go"))
			if err != nil {
				return err
			}
			c.t.Cleanup(func() { _ = latch.Close() })
			return failure(latch.Await(ctx))
		}, func(at string) error {
			latch, err := java.Latch(ctx, "leader of "+at, at, "of Java")
			if err != nil {
				return err
			}
			return failure(latch.AwaitLeader(ctx))
		}, both, func(at string) (string, error) {
			for seen, err := range leader.Observe(ctx, golang, at) {
				return seen.Leader.ID, err
			}
			return "", ctx.Err()
		}, func(at string) (string, error) {
			latch, err := java.Latch(ctx, "observer of "+at, at, "another")
			if err != nil {
				return "", err
			}
			ids, err := latch.Participants(ctx)
			if err != nil {
				return "", err
			}
			return ids[0], nil
		}},
		{"barrier", "", func(at string) error {
			return barrier.New(golang, at).Set(ctx)
		}, func(at string) error {
			b, err := java.Barrier(ctx, at, at)
			if err != nil {
				return err
			}
			return b.Set(ctx)
		}, defaults, nil, nil},
		{"double barrier", "*-*", func(at string) error {
			return failure(barrier.NewDouble(golang, at, 1, barrier.WithNodeData([]byte("of Go"))).Enter(ctx))
		}, func(at string) error {
			d, err := java.Double(ctx, at, at, 1)
			if err != nil {
				return err
			}
			return d.Enter(ctx, kit.Patience)
		}, defaults, nil, nil},
		{"group", "writer", func(at string) error {
			// Java's cache shows no child of a node that has no data, as a parent is.
			if _, err := golang.Create().CreatingParentsIfNeeded().ForPath(ctx, at, []byte("group")); err != nil {
				return err
			}
			m, err := group.Join(golang, at, "writer", []byte("of Go"))
			if err != nil {
				return err
			}
			return m.Joined(ctx)
		}, func(at string) error {
			_, err := java.Member(ctx, "writer of "+at, at, "writer", "of Java")
			kit.Soon(c.t, "Java's member", func() bool {
				stat, failed := c.plain.CheckExists().ForPath(ctx, at+"/writer")
				return err != nil || failed == nil && stat != nil
			})
			return err
		}, both, func(at string) (string, error) {
			g, err := group.Watch(golang, at)
			if err != nil {
				return "", err
			}
			defer g.Close()
			all, err := g.WaitFor(ctx, 1)
			return dataOf(all, err, func(m group.Info) []byte { return m.Data })
		}, func(at string) (string, error) {
			m, err := java.Member(ctx, "reader of "+at, at, "reader", "another")
			if err != nil {
				return "", err
			}
			var all string
			kit.Soon(c.t, "both members in Java", func() bool {
				all, err = m.All(ctx)
				return err != nil || strings.Contains(all, "writer=")
			})
			return strings.TrimPrefix(all, "reader=another writer="), err
		}},
		{"kept node", "n", func(at string) error {
			k, err := node.NewKeeper(golang, at+"/n", []byte("of Go"))
			if err != nil {
				return err
			}
			return k.WaitCreated(ctx)
		}, func(at string) error {
			return failure(java.Node(ctx, at, at+"/n", "EPHEMERAL", false, "of Java"))
		}, both, nil, nil},
		{"kept node with a TTL", "n", func(at string) error {
			k, err := node.NewKeeper(golang, at+"/n", []byte("of Go"), node.WithTTL(kit.Patience))
			if err != nil {
				return err
			}
			return k.WaitCreated(ctx)
		}, func(at string) error {
			return failure(java.TTLNode(ctx, at, at+"/n", kit.Patience, "of Java"))
		}, both, nil, nil},
		c.revocation(),
		{"number", "", func(at string) error {
			return failure(counter.NewLong(golang, at).Add(ctx, 301))
		}, func(at string) error {
			l, err := java.Long(ctx, "writer of "+at, at)
			if err != nil {
				return err
			}
			return failure(l.Add(ctx, -301, 1))
		}, [2]string{"301", "-301"}, func(at string) (string, error) {
			n, err := counter.NewLong(golang, at).Get(ctx)
			return strconv.FormatInt(n.N, 10), err
		}, func(at string) (string, error) {
			l, err := java.Long(ctx, "reader of "+at, at)
			if err != nil {
				return "", err
			}
			n, err := l.Get(ctx)
			return strconv.FormatInt(n, 10), err
		}},
		{"shared count", "", func(at string) error {
			return counter.NewCount(golang, at).Set(ctx, 301)
		}, func(at string) error {
			return failure(java.Count(ctx, "writer of "+at, at, -301))
		}, [2]string{"301", "-301"}, func(at string) (string, error) {
			n, err := counter.NewCount(golang, at).Get(ctx)
			return strconv.Itoa(int(n.N)), err
		}, func(at string) (string, error) {
			n, err := java.Count(ctx, "reader of "+at, at, 7)
			if err != nil {
				return "", err
			}
			got, err := n.Get(ctx)
			return strconv.Itoa(int(got)), err
		}},
		c.sharedValue("shared value", both),
		c.sharedValue("shared value without data", [2]string{}),
		c.queue("queue"),
		c.queue("queue with a lock path", "-locks"),
		{"simple queue", "qn-*", func(at string) error {
			return queue.NewSimple(golang, at).Offer(ctx, []byte("of Go"))
		}, func(at string) error {
			return java.SimpleOffer(ctx, at, "of Java")
		}, both, func(at string) (string, error) {
			item, err := queue.NewSimple(golang, at).Take(ctx)
			return string(item), err
		}, func(at string) (string, error) {
			return java.SimplePoll(ctx, at)
		}},
		{"instance of a service", "web/1", func(at string) error {
			d, err := discovery.New[string](golang, at)
			if err != nil {
				return err
			}
			return failure(d.Register(ctx, discovery.Instance[string]{Name: "web", ID: "1", Payload: "of Go"}))
		}, func(at string) error {
			d, err := java.Discovery(ctx, "writer of "+at, at, false, false)
			if err != nil {
				return err
			}
			return d.Register(ctx, "name=web", "id=1", "text=of Java")
		}, both, func(at string) (string, error) {
			d, err := discovery.New[string](golang, at)
			if err != nil {
				return "", err
			}
			i, err := d.Instance(ctx, "web", "1")
			return i.Payload, err
		}, func(at string) (string, error) {
			d, err := java.Discovery(ctx, "reader of "+at, at, false, false)
			if err != nil {
				return "", err
			}
			text, err := d.Instance(ctx, "web", "1")
			_, payload, _ := strings.Cut(text, " String ")
			return payload, err
		}},
		{"cache", "n", func(at string) error {
			return failure(golang.Create().CreatingParentsIfNeeded().ForPath(ctx, at+"/n", []byte("of Go")))
		}, func(at string) error {
			return failure(java.Create(ctx, at+"/n", []byte("of Java"), "PERSISTENT"))
		}, both, func(at string) (string, error) {
			copied, err := cache.New(golang, at+"/n")
			if err != nil {
				return "", err
			}
			defer copied.Close()
			err = copied.WaitSynced(ctx)
			n, _ := copied.Get(at + "/n")
			return string(n.Data), err
		}, func(at string) (string, error) {
			copied, err := java.Cache(ctx, at, javapeer.CuratorCache, at+"/n", kit.Patience)
			if err != nil {
				return "", err
			}
			nodes, err := copied.Nodes(ctx)
			return nodes[at+"/n"].Data, err
		}},
	}
}

// revocation returns the row of a request, written to the node of a revocable holder in the other language.
func (c *compressing) revocation() compressedRow {
	const request = "__REVOKE__"
	var ours *mutex.Lock
	var theirs *javapeer.Lock
	return compressedRow{"revocation", "*lock-*", func(at string) (err error) {
		if theirs, err = c.java.Mutex(c.ctx, at, at); err != nil {
			return err
		}
		if err := theirs.MakeRevocable(c.ctx); err != nil {
			return err
		}
		name, err := theirs.Acquire(c.ctx, javapeer.Forever)
		if err != nil {
			return err
		}
		return mutex.Revoke(c.ctx, c.golang, at+"/"+name)
	}, func(at string) (err error) {
		if ours, err = mutex.New(c.golang, at, mutex.WithRevocation()).Acquire(c.ctx); err != nil {
			return err
		}
		return c.java.Revoke(c.ctx, ours.Path())
	}, [2]string{request, request}, func(string) (string, error) {
		kit.Closed(c.t, "Revoked", ours.Revoked())
		return request, nil
	}, func(string) (string, error) {
		return request, theirs.AwaitRevoked(c.ctx)
	}}
}

func (c *compressing) sharedValue(name string, wrote [2]string) compressedRow {
	return compressedRow{name, "", func(at string) error {
		return counter.NewValue(c.golang, at, counter.Bytes()).Set(c.ctx, []byte(wrote[0]))
	}, func(at string) error {
		return failure(c.java.Value(c.ctx, "writer of "+at, at, wrote[1]))
	}, wrote, func(at string) (string, error) {
		v, err := counter.NewValue(c.golang, at, counter.Bytes()).Get(c.ctx)
		return string(v.N), err
	}, func(at string) (string, error) {
		v, err := c.java.Value(c.ctx, "reader of "+at, at, "another")
		if err != nil {
			return "", err
		}
		return v.Get(c.ctx)
	}}
}

// queue returns the row of a queue, whose lock path is its path with each suffix; none without a suffix.
func (c *compressing) queue(name string, lock ...string) compressedRow {
	ours := func(at string) *queue.Queue {
		var opts []queue.Option
		for _, suffix := range lock {
			opts = append(opts, queue.WithLockPath(at+suffix))
		}
		return queue.New(c.golang, at, opts...)
	}
	return compressedRow{name, "queue-*", func(at string) error {
		return ours(at).Put(c.ctx, []byte("of Go"))
	}, func(at string) error {
		q, err := c.java.Queue(c.ctx, "writer of "+at, "fifo", at)
		if err != nil {
			return err
		}
		return q.Put(c.ctx, "of Java")
	}, [2]string{"of Go", "of Java"}, func(at string) (string, error) {
		return consumeCompressed(c.ctx, ours(at))
	}, func(at string) (string, error) {
		var path []string
		for _, suffix := range lock {
			path = append(path, at+suffix)
		}
		q, err := c.java.QueueConsumer(c.ctx, "reader of "+at, "fifo", at, path...)
		if err != nil {
			return "", err
		}
		kit.Soon(c.t, "an item in Java", func() bool { return len(q.Items()) > 0 })
		return q.Items()[0], q.Close(c.ctx)
	}}
}

// in returns c with the context and the failures of one test.
func (c compressing) in(t *testing.T) *compressing {
	c.t, c.ctx = t, kit.Context(t)
	return &c
}

// Data that a recipe writes with a client that compresses are compressed, and the other language reads them. Data of a
// client without compression are read by this library's clients that compress, and refused by Java's.
func TestCompression(t *testing.T) {
	t.Parallel()
	c := newCompressing(t)
	for n, row := range c.compressedRows() {
		for i, direction := range []kit.Direction{kit.GoToJava, kit.JavaToGo} {
			t.Run(row.name+", "+string(direction), func(t *testing.T) {
				c := c.in(t)
				row := c.compressedRows()[n]
				writes, reads, readNode := row.writesGo, row.readsJava, c.java.Get
				if direction == kit.JavaToGo {
					writes, reads, readNode = row.writesJava, row.readsGo, c.golang.GetData().ForPath
				}
				at := "/" + strings.ReplaceAll(row.name, " ", "-") + "/" + strconv.Itoa(i)
				require.NoError(t, writes(at))
				node, data := c.stored(path.Join(at, row.node))
				require.True(t, isGzip(data), "%q", data)
				if reads == nil {
					reads = func(string) (string, error) {
						data, err := readNode(c.ctx, node)
						return string(data), err
					}
				}
				got, err := reads(at)
				require.NoError(t, err)
				assert.Equal(t, row.wrote[i], got)
			})
		}
	}
	t.Run("uncompressed items", func(t *testing.T) { c.in(t).uncompressedItems(t) })
	t.Run("uncompressed in a cache", func(t *testing.T) { c.in(t).uncompressedInACache(t) })
}

// In a queue Java's consumers leave an item that is not compressed, and consume the others; from a simple queue they
// take none while such an item is the first.
func (c *compressing) uncompressedItems(t *testing.T) {
	ctx := c.ctx
	for at, lock := range map[string][]string{"/plain/queue": nil, "/plain/locked": {"/plain/locks"}} {
		var opts []queue.Option
		for _, path := range lock {
			opts = append(opts, queue.WithLockPath(path))
		}
		ours := queue.New(c.golang, at, opts...)
		require.NoError(t, queue.New(c.plain, at, opts...).Put(ctx, []byte("plain")))
		_, data := c.stored(at + "/queue-*")
		require.False(t, isGzip(data), "%q", data)
		require.NoError(t, ours.Put(ctx, []byte("compressed")))

		theirs, err := c.java.QueueConsumer(ctx, at, "fifo", at, lock...)
		require.NoError(t, err)
		kit.Soon(t, "an item in Java", func() bool { return len(theirs.Items()) > 0 })
		item, err := consumeCompressed(ctx, ours) // before Close, which may leave the lock of an item that Java tries
		require.NoError(t, err, at)
		assert.Equal(t, "plain", item, at)
		assert.Equal(t, []string{"compressed"}, theirs.Items(), at)
		require.NoError(t, theirs.Close(ctx))
	}

	const at = "/plain/simple"
	ours := queue.NewSimple(c.golang, at)
	require.NoError(t, queue.NewSimple(c.plain, at).Offer(ctx, []byte("plain")))
	require.NoError(t, ours.Offer(ctx, []byte("compressed")))
	_, err := c.java.SimplePoll(ctx, at)
	var thrown *javapeer.Error
	require.ErrorAs(t, err, &thrown)
	assert.Equal(t, "java.util.zip.ZipException", thrown.Class)
	item, err := ours.Poll(ctx)
	require.NoError(t, err)
	assert.Equal(t, "plain", string(item))
	left, err := c.java.SimplePoll(ctx, at)
	require.NoError(t, err)
	assert.Equal(t, "compressed", left)
}

// Java's cache has neither a node that is not compressed nor its descendants.
func (c *compressing) uncompressedInACache(t *testing.T) {
	const parent, child = "/plain/cache", "/plain/cache/child"
	for _, node := range []string{parent, child} {
		_, err := c.plain.Create().CreatingParentsIfNeeded().ForPath(c.ctx, node, []byte("plain"))
		require.NoError(t, err)
	}
	_, err := c.golang.SetData().ForPath(c.ctx, child, []byte("compressed"))
	require.NoError(t, err)
	ours, err := cache.New(c.golang, parent)
	require.NoError(t, err)
	defer ours.Close()
	require.NoError(t, ours.WaitSynced(c.ctx))
	seen := map[string]string{}
	for name, n := range ours.All() {
		seen[name] = string(n.Data)
	}
	assert.Equal(t, map[string]string{parent: "plain", child: "compressed"}, seen)
	theirs, err := c.java.Cache(c.ctx, "cache", javapeer.CuratorCache, parent, kit.Patience)
	require.NoError(t, err)
	nodes, err := theirs.Nodes(c.ctx)
	require.NoError(t, err)
	assert.Empty(t, nodes)
}
