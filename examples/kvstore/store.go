// Package kvstore is a store for valkeyrie, a library of key-value stores, on this library: keys with compare
// and set, watches, keys that live as long as their writer, and locks. A key "a/b" is the node /keys/a/b below
// the root; locks stand apart, below /locks, so no list of keys shows them.
package kvstore

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/kvtools/valkeyrie"
	"github.com/kvtools/valkeyrie/store"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
	"github.com/go-curator/curator/recipes/node"
)

// Name is the store's name for [valkeyrie.NewStore].
const Name = "curator"

func init() { valkeyrie.Register(Name, open) }

// Config is this store's argument of [valkeyrie.NewStore].
type Config struct {
	Root    string             // the store's part of the tree, such as "apps/orders"; default "valkeyrie"
	Options []framework.Option // of the client
}

// Store is a [store.Store]. Safe for concurrent use. LastIndex is the transaction of the last change of a key, so it
// grows also when a key is deleted and created again.
type Store struct {
	client *framework.Client
	alive  *node.Set      // the keys with a TTL
	work   sync.WaitGroup // watches, and locks that are not renewed
}

func open(ctx context.Context, endpoints []string, config valkeyrie.Config) (store.Store, error) {
	cfg, ok := config.(*Config)
	if !ok && config != nil {
		return nil, &store.InvalidConfigurationError{Store: Name, Config: config}
	}
	if cfg == nil {
		cfg = &Config{}
	}
	client, err := framework.New(strings.Join(endpoints, ","), cfg.Options...)
	if err != nil {
		return nil, err
	}
	root := strings.Trim(cfg.Root, "/")
	if root == "" {
		root = "valkeyrie"
	}
	view := client.UsingNamespace(root)
	s := &Store{client: view, alive: node.NewSet(view, node.WithTakeover(node.AtStart))}
	for _, dir := range []string{"/keys", "/writes"} {
		if err := s.client.Ensure(ctx, dir); err != nil {
			return nil, errors.Join(err, client.Close())
		}
	}
	return s, nil
}

// at returns the node of a key. A slash at the end of a key means nothing.
func at(key string) string { return path.Join("/keys", strings.Trim(key, "/")) }

// keyOf is its inverse.
func keyOf(node string) string { return strings.TrimPrefix(strings.TrimPrefix(node, "/keys"), "/") }

func pair(key string, value []byte, stat framework.Stat) *store.KVPair {
	if value == nil {
		value = []byte{}
	}
	return &store.KVPair{Key: key, Value: value, LastIndex: uint64(stat.Mzxid)}
}

// Put writes the key. With a TTL the key is there for as long as this store is open and its process lives, and
// the session timeout longer, whatever the TTL is: it is kept through lost connections and sessions.
func (s *Store) Put(ctx context.Context, key string, value []byte, opts *store.WriteOptions) error {
	value = append([]byte{}, value...) // nil would mean the client's default data
	if opts != nil && opts.TTL > 0 {
		return s.keep(ctx, key, value)
	}
	if err := s.alive.Remove(ctx, at(key)); err != nil {
		return err
	}
	_, err := s.client.Create().CreatingParentsIfNeeded().OrSetData().ForPath(ctx, at(key), value)
	return err
}

// keep puts a key that follows this store's session. It replaces a key of another kind, or of another store.
func (s *Store) keep(ctx context.Context, key string, value []byte) error {
	stat, err := s.client.CheckExists().ForPath(ctx, at(key))
	if err != nil {
		return err
	}
	if stat != nil && stat.EphemeralOwner == 0 {
		if err := s.client.Delete().Quietly().ForPath(ctx, at(key)); err != nil {
			return err
		}
	}
	return s.alive.Keep(ctx, at(key), value)
}

// Get reads the key. With Consistent it sees all writes that were completed before the call.
func (s *Store) Get(ctx context.Context, key string, opts *store.ReadOptions) (*store.KVPair, error) {
	if err := s.catchUp(ctx, key, opts); err != nil {
		return nil, err
	}
	var stat framework.Stat
	value, err := s.client.GetData().StoringStatIn(&stat).ForPath(ctx, at(key))
	if err != nil {
		return nil, missing(err)
	}
	return pair(key, value, stat), nil
}

func (s *Store) catchUp(ctx context.Context, key string, opts *store.ReadOptions) error {
	if opts == nil || !opts.Consistent {
		return nil
	}
	return s.client.Sync().ForPath(ctx, at(key))
}

// missing gives the error its name in valkeyrie.
func missing(err error) error {
	if errors.Is(err, framework.ErrNoNode) {
		return store.ErrKeyNotFound
	}
	return err
}

// Exists reports whether the key exists.
func (s *Store) Exists(ctx context.Context, key string, opts *store.ReadOptions) (bool, error) {
	_, err := s.Get(ctx, key, opts)
	if errors.Is(err, store.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Delete deletes the key, which must have no keys below it.
func (s *Store) Delete(ctx context.Context, key string) error {
	if s.alive.Keeper(at(key)) != nil {
		return s.alive.Remove(ctx, at(key))
	}
	return missing(s.client.Delete().Idempotent().ForPath(ctx, at(key)))
}

// DeleteTree deletes the directory and all keys below it.
func (s *Store) DeleteTree(ctx context.Context, directory string) error {
	return missing(tree.Delete(ctx, s.client, at(directory)))
}

// List returns all keys below the directory, at whatever depth, without the directory itself.
func (s *Store) List(ctx context.Context, dir string, opts *store.ReadOptions) ([]*store.KVPair, error) {
	if err := s.catchUp(ctx, dir, opts); err != nil {
		return nil, err
	}
	pairs := []*store.KVPair{}
	for n, err := range tree.Walk(s.client).ForPath(ctx, at(dir)) {
		if err != nil {
			return nil, missing(err)
		}
		if n.Path != at(dir) {
			pairs = append(pairs, pair(keyOf(n.Path), n.Data, n.Stat))
		}
	}
	return pairs, nil
}

// AtomicPut writes the key if it is still what previous was, or makes it if previous is nil. It is executed
// once or not at all, also when replies are lost.
func (s *Store) AtomicPut(
	ctx context.Context, key string, value []byte, previous *store.KVPair, _ *store.WriteOptions,
) (bool, *store.KVPair, error) {
	value = append([]byte{}, value...)
	var op framework.TransactionOp
	if previous == nil {
		if err := s.client.Ensure(ctx, path.Dir(at(key))); err != nil {
			return false, nil, err
		}
		op = s.client.TransactionOp().Create().ForPath(at(key), value)
	} else {
		version, err := s.version(ctx, key, previous)
		if err != nil {
			return false, nil, err
		}
		op = s.client.TransactionOp().SetData().WithVersion(version).ForPath(at(key), value)
	}
	index, err := s.commit(ctx, op)
	switch {
	case errors.Is(err, framework.ErrNodeExists):
		return false, nil, store.ErrKeyExists
	case errors.Is(err, framework.ErrBadVersion):
		return false, nil, store.ErrKeyModified
	case err != nil:
		return false, nil, missing(err)
	}
	return true, &store.KVPair{Key: key, Value: value, LastIndex: index}, nil
}

// AtomicDelete deletes the key if it is still what previous was.
func (s *Store) AtomicDelete(ctx context.Context, key string, previous *store.KVPair) (bool, error) {
	if previous == nil {
		return false, store.ErrPreviousNotSpecified
	}
	version, err := s.version(ctx, key, previous)
	if err != nil {
		return false, err
	}
	_, err = s.commit(ctx, s.client.TransactionOp().Delete().WithVersion(version).ForPath(at(key)))
	if errors.Is(err, framework.ErrBadVersion) {
		return false, store.ErrKeyModified
	}
	return err == nil, missing(err)
}

// version returns the node's version if the key is still the same as previous, for the server to compare. Versions
// start again from 0 with each node, so the index decides first.
func (s *Store) version(ctx context.Context, key string, previous *store.KVPair) (int32, error) {
	stat, err := s.client.CheckExists().ForPath(ctx, at(key))
	switch {
	case err != nil:
		return 0, err
	case stat == nil:
		return 0, store.ErrKeyNotFound
	case uint64(stat.Mzxid) != previous.LastIndex:
		return 0, store.ErrKeyModified
	}
	return stat.Version, nil
}

// commit executes op in one transaction with the create of a marker node. If the reply is lost, the marker shows
// whether op was executed, whatever others have written since.
func (s *Store) commit(ctx context.Context, op framework.TransactionOp) (index uint64, err error) {
	mark := "/writes/" + uuid.NewString()
	create := s.client.TransactionOp().Create().WithMode(framework.Ephemeral).ForPath(mark, []byte{})
	_, err = s.client.IdempotentTransaction(ctx, create, op)
	if err != nil && !errors.Is(err, framework.ErrOutcomeUnknown) {
		return 0, err
	}
	defer s.client.Delete().Guaranteed().Quietly().InBackground().ForPath(context.WithoutCancel(ctx), mark)
	stat, missed := s.client.CheckExists().ForPath(ctx, mark)
	if missed != nil || stat == nil { // not there yet: the first try may still be on its way
		return 0, errors.Join(err, missed)
	}
	return uint64(stat.Czxid), nil
}

// Watch yields the key as it is, and after each change, until ctx ends or the store is closed. Of changes in quick
// succession only the last may be seen. It continues through lost connections and sessions.
func (s *Store) Watch(ctx context.Context, key string, opts *store.ReadOptions) (<-chan *store.KVPair, error) {
	if err := s.catchUp(ctx, key, opts); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	first, nodes, err := cache.FollowNode(ctx, s.client, at(key))
	if err == nil && first == nil {
		err = store.ErrKeyNotFound
	}
	if err != nil {
		stop()
		return nil, err
	}
	return follow(s, ctx, stop, first, nodes, func(n *cache.Node) *store.KVPair {
		if n == nil {
			return nil
		}
		return pair(key, n.Data, n.Stat)
	}), nil
}

// WatchTree yields the keys right below the directory, as Watch does.
func (s *Store) WatchTree(
	ctx context.Context, directory string, opts *store.ReadOptions,
) (<-chan []*store.KVPair, error) {
	if _, err := s.Get(ctx, directory, opts); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	first, children, err := cache.FollowChildren(ctx, s.client, at(directory))
	if err != nil {
		stop()
		return nil, err
	}
	return follow(s, ctx, stop, first, children, func(nodes map[string]cache.Node) []*store.KVPair {
		pairs := []*store.KVPair{}
		for _, n := range nodes {
			pairs = append(pairs, pair(keyOf(n.Path), n.Data, n.Stat))
		}
		return pairs
	}), nil
}

// follow sends the states as valkeyrie's values until ctx ends or the store is closed.
func follow[S, T any](s *Store, ctx context.Context, stop func(), first S, states <-chan S, value func(S) T) <-chan T {
	out := make(chan T)
	s.work.Go(func() {
		defer close(out)
		defer stop()
		for state, open := first, true; open; state, open = <-states {
			select {
			case out <- value(state):
			case <-ctx.Done():
				return
			}
		}
	})
	return out
}

// Close ends the session, and with it keys with a TTL, locks and watches.
func (s *Store) Close() error {
	err := s.client.Close()
	s.work.Wait()
	return err
}
