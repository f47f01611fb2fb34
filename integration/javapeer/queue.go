package javapeer

import (
	"context"
	"strconv"
)

// Queue is a DistributedQueue, DistributedPriorityQueue, DistributedDelayQueue
// or DistributedIdQueue of the peer.
type Queue struct {
	peer *Peer
	name string
}

// Queue makes a producer at path, known to the peer by name; kind is fifo,
// priority, delay or id.
func (p *Peer) Queue(ctx context.Context, name, kind, path string) (*Queue, error) {
	_, err := p.Call(ctx, "queue", name, kind, path)
	return &Queue{p, name}, err
}

// QueueConsumer makes a consumer, and producer, likewise; lock, if there is one, is its lock path. The consumed items
// are returned by Items.
func (p *Peer) QueueConsumer(ctx context.Context, name, kind, path string, lock ...string) (*Queue, error) {
	_, err := p.Call(ctx, "queue-consumer", append([]string{name, kind, path}, lock...)...)
	return &Queue{p, name}, err
}

// Put puts an item; about is its priority, its time in milliseconds since
// 1970, or its id.
func (q *Queue) Put(ctx context.Context, item string, about ...string) error {
	_, err := q.peer.Call(ctx, "queue-put", append([]string{q.name, item}, about...)...)
	return err
}

// PutNumbered puts prefix with the numbers from 0 on, so many.
func (q *Queue) PutNumbered(ctx context.Context, prefix string, times int) error {
	_, err := q.peer.Call(ctx, "queue-put-numbered", q.name, prefix, strconv.Itoa(times))
	return err
}

// PutMany puts several items in one node.
func (q *Queue) PutMany(ctx context.Context, items ...string) error {
	_, err := q.peer.Call(ctx, "queue-put-many", append([]string{q.name}, items...)...)
	return err
}

// Remove removes the items with an id, and returns their number.
func (q *Queue) Remove(ctx context.Context, id string) (int64, error) {
	return q.peer.number(ctx, "queue-remove", q.name, id)
}

// Close closes it.
func (q *Queue) Close(ctx context.Context) error {
	_, err := q.peer.Call(ctx, "queue-close", q.name)
	return err
}

// Items returns the consumed items, in order.
func (q *Queue) Items() (items []string) {
	for _, event := range q.peer.Events() {
		if event.Name == "queue" && event.Words[0] == q.name {
			items = append(items, event.Words[1])
		}
	}
	return items
}

// SimpleOffer puts an item into the SimpleDistributedQueue at path.
func (p *Peer) SimpleOffer(ctx context.Context, path, item string) error {
	_, err := p.Call(ctx, "simple-offer", path, item)
	return err
}

// SimplePoll takes an item out of it; ErrTimeout if there is none.
func (p *Peer) SimplePoll(ctx context.Context, path string) (string, error) {
	return p.word(ctx, "simple-poll", path)
}
