package mixed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/queue"
)

// kind is a kind of queue.
type kind struct {
	name  string // to Java, and in the path
	order queue.Order
	// about is what a producer says about its nth item: here, and in Java.
	about func(n int) ([]queue.PutOption, []string)
}

var kindsOfQueues = []kind{
	{"fifo", queue.FIFO, func(int) ([]queue.PutOption, []string) { return nil, nil }},
	{"priority", queue.ByPriority, func(n int) ([]queue.PutOption, []string) {
		return []queue.PutOption{queue.Priority(int32(n%7 - 3))}, []string{strconv.Itoa(n%7 - 3)}
	}},
	{"delay", queue.ByDelay, func(n int) ([]queue.PutOption, []string) {
		due := time.Now().Add(time.Duration(n%5) * 100 * time.Millisecond)
		return []queue.PutOption{queue.Due(due)}, []string{strconv.FormatInt(due.UnixMilli(), 10)}
	}},
	{"id", queue.ByID, func(n int) ([]queue.PutOption, []string) {
		id := fmt.Sprint("id-", n%10)
		return []queue.PutOption{queue.ID(id)}, []string{id}
	}},
}

// line is a queue, and what has become of its items.
type line struct {
	c      *crowd
	kind   kind
	locked bool
	path   string

	mu      sync.Mutex
	put     map[string]bool            // said to be put
	doubt   map[string]bool            // perhaps taken off, and not handled
	handled map[string][]string        // here, by whom and when
	theirs  map[*javapeer.Queue]string // the process of each
}

func (l *line) name() string {
	if l.locked {
		return l.kind.name + " at least once"
	}
	return l.kind.name + " at most once"
}

func (l *line) note(m map[string]bool, item string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m[item] = true
}

// all is by whom every item was handled, in both languages.
func (l *line) all() map[string][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := maps.Clone(l.handled)
	for consumer, who := range l.theirs {
		for _, item := range consumer.Items() {
			sum[item] = append(slices.Clone(sum[item]), who)
		}
	}
	return sum
}

// golang produces and consumes until the process ends. All produce until producing ends.
func (l *line) golang(p *process, producing context.Context, work *sync.WaitGroup) {
	opts := []queue.Option{queue.WithOrder(l.kind.order), queue.OnFailure(func(err *queue.ItemError) queue.Fate {
		if !l.locked && errors.Is(err, framework.ErrOutcomeUnknown) && len(err.Data) > 10 {
			l.note(l.doubt, string(err.Data[9:len(err.Data)-1]))
			return queue.Skip
		}
		return queue.Requeue
	})}
	if l.locked {
		opts = append(opts, queue.WithLockPath(l.path+"-locks"))
	}
	q := queue.New(p.client, l.path, opts...)
	work.Go(func() {
		for p.ctx.Err() == nil {
			_ = q.Consume(p.ctx, func(ctx context.Context, item []byte) error {
				l.mu.Lock()
				l.handled[string(item)] = append(l.handled[string(item)], p.name+time.Now().Format(" 15:04:05.000"))
				l.mu.Unlock()
				l.c.did(p, l.name())
				return nil
			})
		}
	})
	work.Go(func() {
		for n := 0; p.ctx.Err() == nil && producing.Err() == nil; n++ {
			item := fmt.Sprintf("%s %d %p", p.name, n, p)
			about, _ := l.kind.about(n)
			if err := q.Put(p.ctx, []byte(item), about...); err == nil {
				l.note(l.put, item)
			}
			rest(p.ctx)
		}
	})
}

func (l *line) java(p *process, producing context.Context, work *sync.WaitGroup) {
	ctx, cancel := l.c.soon()
	defer cancel()
	var lock []string
	if l.locked {
		lock = []string{l.path + "-locks"}
	}
	q, err := p.peer.QueueConsumer(ctx, l.name(), l.kind.name, l.path, lock...)
	if err != nil {
		return // killed already
	}
	l.mu.Lock()
	l.theirs[q] = p.name
	l.mu.Unlock()
	work.Go(func() {
		for n := 0; p.ctx.Err() == nil && producing.Err() == nil; n++ {
			item := fmt.Sprintf("%s %d %p", p.name, n, p)
			_, about := l.kind.about(n)
			if err := q.Put(p.ctx, item, about...); err == nil {
				l.note(l.put, item)
				l.c.did(p, l.name()) // Java consumes when others leave it something
			}
			rest(p.ctx)
		}
	})
}

// rest is the time between two items.
func rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(150 * time.Millisecond):
	}
}

// Queues of all kinds, with a lock path and without, with producers and consumers of both languages that are
// cut off and killed. With a lock path every item that was put is handled, and each trouble has at most one item
// of a consumer handled twice. Without one no item that a Go producer has put is handled twice, by whomever, and
// each trouble costs at most one item of a consumer.
func TestQueuesInTrouble(t *testing.T) {
	kit.Interop(t, "queue", kit.Mixed)
	c := &crowd{}
	var lines []*line
	var names []string
	for _, k := range kindsOfQueues {
		for _, locked := range []bool{false, true} {
			l := &line{c: c, kind: k, locked: locked, path: "/queues/" + k.name + "-" + strconv.FormatBool(locked),
				put: map[string]bool{}, doubt: map[string]bool{}, handled: map[string][]string{},
				theirs: map[*javapeer.Queue]string{}}
			lines = append(lines, l)
			names = append(names, l.name())
		}
	}
	simple := &plainQueue{c: c, path: "/queues/simple", put: map[string]bool{}, taken: map[string]int{}}
	names = append(names, simple.name())
	producing, stopProducing := context.WithCancel(context.Background())
	defer stopProducing()
	each := func(of func(l *line) func(*process, context.Context, *sync.WaitGroup), rest job) job {
		return func(c *crowd, p *process) {
			var work sync.WaitGroup
			defer work.Wait()
			for _, l := range lines {
				of(l)(p, producing, &work)
			}
			work.Go(func() { rest(c, p) })
		}
	}
	c.golang = each(func(l *line) func(*process, context.Context, *sync.WaitGroup) { return l.golang },
		func(_ *crowd, p *process) { simple.golang(p, producing) })
	c.java = each(func(l *line) func(*process, context.Context, *sync.WaitGroup) { return l.java },
		func(_ *crowd, p *process) { simple.java(p, producing) })
	gather(t, c, 2, 2)
	c.goOn("", names, 1)
	c.trouble()
	c.goOn("go", names, 2) // what Java does after an outage is its own
	stopProducing()
	// Java leaves the lock of an item if the reply to its creation was lost, for as long as its session lasts, and
	// nobody can have the item.
	c.quit()
	for _, l := range lines {
		c.empty(l.path)
	}
	c.empty(simple.path)
	c.finish()
	troubles := int(c.troubles.Load())
	for _, l := range lines {
		all := l.all()
		lost, twice, double := 0, 0, 0
		for item := range l.put {
			switch n := len(all[item]); {
			case n == 0 && l.doubt[item]:
			case n == 0:
				lost++
			case n > 1 && item[0] == 'g':
				t.Logf("%s: %s was handled by %v", l.name(), item, all[item])
				twice++
			case n > 1:
				double++ // Java may have put it twice
			}
		}
		inHand := (troubles + 1) * len(c.all) // quitting is one
		if l.locked {
			assert.Zero(t, lost, "%s: lost", l.name())
			assert.LessOrEqual(t, twice, inHand, "%s: handled twice", l.name())
		} else {
			assert.LessOrEqual(t, lost, inHand, "%s: lost", l.name())
			assert.Zero(t, twice, "%s: handled twice", l.name())
		}
		assert.LessOrEqual(t, double, inHand, "%s: Java's items handled twice", l.name())
		kit.Figure(t, "%s: %d items put, %d by Go consumers; %d lost, %d more in doubt, %d of Go's and %d of Java's "+
			"handled more than once, under %v", l.name(), len(l.put), len(l.handled), lost, len(l.doubt), twice, double,
			c.counts)
	}
	simple.judge(troubles)
	for _, l := range lines {
		if l.locked {
			c.empty(l.path + "-locks")
		}
	}
	c.leave()
	for _, l := range lines {
		c.empty(l.path + "-marks")
	}
}

// plainQueue is a SimpleDistributedQueue.
type plainQueue struct {
	c    *crowd
	path string

	mu    sync.Mutex
	put   map[string]bool
	taken map[string]int
	doubt int
}

func (s *plainQueue) name() string { return "simple queue" }

func (s *plainQueue) took(item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[item]++
}

func (s *plainQueue) golang(p *process, producing context.Context) {
	q := queue.NewSimple(p.client, s.path)
	for n := 0; p.ctx.Err() == nil; n++ {
		item := fmt.Sprintf("%s %d %p", p.name, n, p)
		if producing.Err() == nil && q.Offer(p.ctx, []byte(item)) == nil {
			s.mu.Lock()
			s.put[item] = true
			s.mu.Unlock()
			s.c.did(p, s.name())
		}
		got, err := q.Poll(p.ctx)
		switch {
		case err == nil:
			s.took(string(got))
		case errors.Is(err, framework.ErrOutcomeUnknown):
			s.mu.Lock()
			s.doubt++
			s.mu.Unlock()
		}
		rest(p.ctx)
	}
}

func (s *plainQueue) java(p *process, producing context.Context) {
	for n := 0; p.ctx.Err() == nil; n++ {
		item := fmt.Sprintf("%s %d %p", p.name, n, p)
		if producing.Err() == nil && p.peer.SimpleOffer(p.ctx, s.path, item) == nil {
			s.mu.Lock()
			s.put[item] = true
			s.mu.Unlock()
			s.c.did(p, s.name())
		}
		// Not with the process's own context: what is taken off is to be counted.
		ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
		if got, err := p.peer.SimplePoll(ctx, s.path); err == nil {
			s.took(got)
		}
		cancel()
		rest(p.ctx)
	}
}

func (s *plainQueue) judge(troubles int) {
	lost := 0
	for item := range s.put {
		if s.taken[item] == 0 {
			lost++
		}
		if item[0] == 'g' {
			require.LessOrEqual(s.c.t, s.taken[item], 1, "%s was taken twice", item)
		}
	}
	assert.LessOrEqual(s.c.t, lost, s.doubt+troubles*len(s.c.all), "lost of the simple queue")
	kit.Figure(s.c.t, "simple queue: %d items put, %d lost, %d in doubt", len(s.put), lost, s.doubt)
}
