package counter

import (
	"context"
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// register reads and writes a node's data as a whole; all types of this package build on it.
type register struct {
	client *framework.Client
	path   string
	err    error // of the constructor: every method returns it

	// slot has room for one: the goroutine that writes with the mark, whose version it tracks.
	slot chan struct{}
	mark *ownMark // used only by the goroutine in the slot
}

// content is the data of the node, and the Stat that they came with.
type content struct {
	data []byte
	stat framework.Stat
}

func newRegister(client *framework.Client, path string) *register {
	return &register{client: client, path: path, err: line.Check(client, path), slot: make(chan struct{}, 1)}
}

// ready returns an error if no method can be called. The zero values of the exported types have no register.
func (r *register) ready(ctx context.Context) error {
	if r == nil {
		return framework.ErrNoClient
	}
	return line.Ready(ctx, r.client, r.err)
}

// enter waits for the slot.
func (r *register) enter(ctx context.Context) error {
	select {
	case r.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return r.client.Left(ctx, nil)
	}
}

func (r *register) leave() { <-r.slot }

func (r *register) read(ctx context.Context) (c content, err error) {
	c.data, err = r.client.GetData().Undecompressed().StoringStatIn(&c.stat).ForPath(ctx, r.path)
	c.data, err = line.Unpacked(r.client, r.path, c.data, err)
	return c, err
}

// write replaces the data, whatever they were. A repeat writes the same data.
func (r *register) write(ctx context.Context, data []byte) error {
	_, err := r.client.Create().CreatingParentContainersIfNeeded().OrSetData().ForPath(ctx, r.path, data)
	return err
}

// make makes the node if there is none, through a view of the client.
func (r *register) make(ctx context.Context, view *framework.Client, data []byte) error {
	// One attempt at a time, so that a repeat takes the node of an earlier attempt for success.
	create := view.Create().CreatingParentContainersIfNeeded().InBackground()
	return view.Retry(ctx, func(ctx context.Context) error {
		_, err := line.Result(create.ForPath(ctx, r.path, data))
		return line.Unless(err, framework.ErrNodeExists)
	})
}

// readOrMake reads the node, after making it if there is none.
func (r *register) readOrMake(ctx context.Context, data []byte) (content, error) {
	for {
		c, err := r.read(ctx)
		if errors.Is(err, framework.ErrNoNode) {
			if err = r.make(ctx, r.client, data); err == nil {
				continue
			}
		}
		return c, err
	}
}

// unchanged returns nil if the node's last change was the transaction mzxid.
func (r *register) unchanged(ctx context.Context, mzxid int64) error {
	synced := r.client.Sync().InBackground().ForPath(ctx, r.path)
	looking := r.client.CheckExists().InBackground().ForPath(ctx, r.path)
	_, stale := line.Result(synced)
	now, err := line.Result(looking)
	switch {
	case stale != nil:
		return stale
	case err != nil:
		return err
	case now.Stat == nil:
		return framework.ErrNoNode
	case now.Stat.Mzxid != mzxid:
		return changed
	}
	return nil
}

var changed = errorOf("it was changed, or made anew, since it was seen", framework.ErrBadVersion)
