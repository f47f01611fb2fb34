package mixed

import (
	"context"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/rwlock"
)

// Readers and writers are at one path. A writer weighs as much as there is room.
const (
	reading, writing = "reading", "writing"
	room             = 100
)

// read and shared are the ways of readers, write that of a writer.
var (
	read = way{name: reading, make: func(c *framework.Client, path string) func(ctx context.Context) (held, error) {
		rw := rwlock.New(c, path)
		return func(ctx context.Context) (held, error) { return some(rw.ReadLock().Acquire(ctx)) }
	}}
	shared = way{name: reading, later: true, make: func(c *framework.Client, path string) func(ctx context.Context) (held, error) {
		readers := rwlock.NewReaders(c, path, rwlock.WithJoins(5, time.Second))
		return func(ctx context.Context) (held, error) { return some(readers.Acquire(ctx)) }
	}}
	write = way{name: writing, make: func(c *framework.Client, path string) func(ctx context.Context) (held, error) {
		rw := rwlock.New(c, path)
		return func(ctx context.Context) (held, error) { return some(rw.WriteLock().Acquire(ctx)) }
	}}
)

// readAndWrite are three readers that share nodes, one that does not, and a writer.
func (c *crowd) readAndWrite(p *process, b *book, path string) {
	var work sync.WaitGroup
	defer work.Wait()
	together := shared.make(p.client, path)
	for range 3 {
		work.Go(func() { c.contend(p, b, reading, 1, shared, together) })
	}
	work.Go(func() { c.contend(p, b, reading, 1, read, read.make(p.client, path)) })
	work.Go(func() { c.contend(p, b, writing, room, write, write.make(p.client, path)) })
}

// readAndWriteJava is a reader and a writer in Java, on threads of their own.
func (c *crowd) readAndWriteJava(p *process, b *book, path string) {
	ctx, cancel := c.soon()
	defer cancel()
	read, write, err := p.peer.ReadWrite(ctx, b.name, path)
	if err != nil {
		return
	}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { c.turnsOfJava(p, b, reading, 1, read, path) })
	work.Go(func() { c.turnsOfJava(p, b, writing, room, write, path) })
}
