package mixed

import (
	"context"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/rwlock"
)

// Readers and writers are at one path, and in one book: a writer weighs as much as there is room.
const (
	reading, sharing, writing = "reading", "sharing a node", "writing"

	readWritePath = "/locks/read-write"
	room          = 100
)

var (
	reader = way{name: reading, number: token, make: readsAlone}
	sharer = way{name: sharing, number: token, make: readsTogether}
	writer = way{name: writing, number: token, make: writes, weight: room, later: true}
)

func readsAlone(c *framework.Client, path string) func(ctx context.Context) (held, error) {
	side := rwlock.New(c, path).ReadLock()
	return func(ctx context.Context) (held, error) { return some(side.Acquire(ctx)) }
}

func readsTogether(c *framework.Client, path string) func(ctx context.Context) (held, error) {
	readers := rwlock.NewReaders(c, path, rwlock.WithJoins(5, 200*time.Millisecond))
	return func(ctx context.Context) (held, error) { return some(readers.Acquire(ctx)) }
}

func writes(c *framework.Client, path string) func(ctx context.Context) (held, error) {
	side := rwlock.New(c, path).WriteLock()
	return func(ctx context.Context) (held, error) { return some(side.Acquire(ctx)) }
}

func token(lock held) int64 { return lock.(interface{ FencingToken() int64 }).FencingToken() }

// readAndWrite is a reader with a node of its own, three that share nodes, and a writer.
func (c *crowd) readAndWrite(p *process, b *book) {
	var work sync.WaitGroup
	defer work.Wait()
	for _, w := range []way{reader, sharer, writer} {
		acquire, contenders := w.make(p.client, readWritePath), 1
		if w.name == sharing {
			contenders = 3
		}
		for range contenders {
			work.Go(func() { c.contend(p, b, w.name, w, acquire) })
		}
	}
}

// readAndWriteJava is a reader and a writer of Java, on threads of their own.
func (c *crowd) readAndWriteJava(p *process, b *book) {
	ctx, cancel := c.soon()
	defer cancel()
	read, write, err := p.peer.ReadWrite(ctx, b.name, readWritePath)
	if err != nil {
		return // killed already
	}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { c.turnsOfJava(p, b, reading, read, readWritePath, 1, c.czxid) })
	work.Go(func() { c.turnsOfJava(p, b, writing, write, readWritePath, room, c.czxid) })
}

// czxid is the token of a hold of Java's, which is that of its node; 0 if there is none any more.
func (c *crowd) czxid(node string) (token int64) {
	ctx, cancel := c.soon()
	defer cancel()
	for ctx.Err() == nil {
		switch stat, err := c.watcher.CheckExists().ForPath(ctx, readWritePath+"/"+node); {
		case err == nil && stat != nil:
			return stat.Czxid
		case err == nil:
			return 0
		}
	}
	return 0
}
