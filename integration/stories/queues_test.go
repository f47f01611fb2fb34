package stories

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/queue"
)

// items has the state of the items of a queue.
type items struct {
	s      *scene
	locked bool // while they are handled

	mu   sync.Mutex
	all  map[string]*item
	late []string     // items that are due only after all have stopped
	over atomic.Int64 // clients that put no more items
}

type item struct {
	handled int
	ctx     context.Context // of the last handler
	done    chan struct{}   // closed when it has been handled, or its outcome is unknown
}

// of returns the state of an item.
func (q *items) of(name string) *item {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.all[name]
	if i == nil {
		i = &item{done: make(chan struct{})}
		q.all[name] = i
	}
	return i
}

// settle ends the wait for an item.
func (q *items) settle(name string) {
	i := q.of(name)
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-i.done:
	default:
		close(i.done)
	}
}

// handle is a handler, which takes a while.
func (q *items) handle(ctx context.Context, data []byte) error {
	name := string(data)
	i := q.of(name)
	q.mu.Lock()
	i.handled++
	before := i.ctx
	i.ctx = ctx
	twice := i.handled > 1
	q.mu.Unlock()
	switch {
	case isJavas(name):
	case twice && !q.locked:
		q.s.fail("%s was handled twice", name)
	case twice && before.Err() == nil && ctx.Err() == nil:
		q.s.fail("two handle %s at the same time", name)
	}
	pause(ctx, 10*time.Millisecond)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// The lock is released in order after the handler: from here on the handler's context does not count.
	ended, end := context.WithCancel(context.Background())
	end()
	q.mu.Lock()
	if i.ctx == ctx {
		i.ctx = ended
	}
	q.mu.Unlock()
	q.settle(name)
	return nil
}

// queues has every client put items into a queue and consume it. A round is done when an item has been handled, by any
// client. Without a lock path no item is handled twice, and none is lost except items that the consumer reports with an
// unknown outcome. With a lock path none is lost, and none is handled by two at a time. Java puts items, too, and with
// a lock path it consumes. If the reply to the create of an item's lock is lost it leaves the lock for as long as its
// session lasts: such items are handled last.
func queues(locked bool) func(g *group, s *scene) part {
	return func(g *group, s *scene) part {
		s.dirs = regexp.MustCompile(`^/(queue|locks|queue-marks)$`)
		q := &items{s: s, locked: locked, all: map[string]*item{}}
		s.slow = true
		s.java = q.java
		s.over = func() {
			for _, name := range q.late {
				select {
				case <-q.of(name).done:
				default:
					s.fail("%s was put and not handled", name)
				}
			}
		}
		return func(ctx context.Context, who int) {
			opts := []queue.Option{queue.OnFailure(func(err *queue.ItemError) queue.Fate {
				switch {
				case errors.Is(err, framework.ErrOutcomeUnknown) && !locked:
					// The name is between the header of nine bytes and the one byte at the end.
					if len(err.Data) > 10 {
						q.settle(string(err.Data[9 : len(err.Data)-1]))
					}
				case !errors.Is(err, context.Canceled):
					s.fail("%v", err)
				}
				if locked {
					return queue.Requeue
				}
				return queue.Skip
			})}
			if locked {
				opts = append(opts, queue.WithLockPath(s.path+"/locks"))
			}
			own := queue.New(g.clients[who], s.path+"/queue", opts...)
			consuming, stop := context.WithCancel(context.Background())
			var consumer sync.WaitGroup
			consumer.Go(func() {
				for consuming.Err() == nil {
					s.fine(consuming, own.Consume(consuming, q.handle))
				}
			})
			for n := 0; ctx.Err() == nil; n++ {
				q.round(ctx, own, who, fmt.Sprint("item ", who, " ", n))
				think(ctx)
			}
			// The other clients may still put items.
			q.over.Add(1)
			for end := time.Now().Add(kit.Patience); time.Now().Before(end); pause(consuming, 20*time.Millisecond) {
				names, err := g.clients[who].GetChildren().ForPath(consuming, s.path+"/queue")
				if q.over.Load() == clients && err == nil && len(names) == 0 {
					break
				}
			}
			stop()
			consumer.Wait()
		}
	}
}

func (q *items) round(ctx context.Context, own *queue.Queue, who int, name string) {
	err := own.Put(ctx, []byte(name))
	if errors.Is(err, framework.ErrOutcomeUnknown) || !q.s.fine(ctx, err) {
		return // a lost session may leave it open
	}
	q.handled(ctx, who, name)
}

// handled waits until an item has been handled.
func (q *items) handled(ctx context.Context, who int, name string) {
	patience := kit.Patience
	if q.s.withJava() && q.locked {
		patience = timeout
	}
	select {
	case <-q.of(name).done:
		q.s.done(who)
	case <-ctx.Done():
	case <-time.After(patience):
		if patience == kit.Patience {
			q.s.fail("%s was put and not handled", name)
			return
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.late = append(q.late, name)
	}
}

func (q *items) java(ctx context.Context, p *guest) {
	open := func() (*javapeer.Queue, error) { return p.Queue(ctx, q.s.name, "fifo", q.s.path+"/queue") }
	if q.locked {
		open = func() (*javapeer.Queue, error) {
			return p.QueueConsumer(ctx, q.s.name, "fifo", q.s.path+"/queue", q.s.path+"/locks")
		}
	}
	own, err := open()
	if err != nil {
		return // the process was killed
	}
	consumed := func() {
		for _, name := range own.Items() {
			q.settle(name)
		}
	}
	defer consumed()
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("java %d %d", p.Pid(), n)
		if err := own.Put(context.Background(), name); err == nil {
			putting, stop := context.WithTimeout(ctx, timeout)
			for putting.Err() == nil && !q.settled(name) {
				consumed()
				pause(putting, 20*time.Millisecond)
			}
			stop()
			if q.settled(name) {
				q.s.done(java)
			}
		}
		consumed()
		think(ctx)
	}
}

func (q *items) settled(name string) bool {
	select {
	case <-q.of(name).done:
		return true
	default:
		return false
	}
}
