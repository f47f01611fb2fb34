package barrier

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/recipes/internal/queue"
)

// shut removes "ready" for somebody who has no node in the barrier any more, unless somebody else has. Nodes of our own that are given up it removes, too.
//
// While we have looked and found nobody, another may have removed "ready" as well, and the next round may have opened the barrier anew: that
// "ready" has to stay, however late our request, or its repeat, arrives. It cannot be told from the old one, unless the old one is marked first: by a change
// of its data, and with that of its version, which is 0 for a new node. So: mark it, look behind the mark, and remove what has that mark.
func (d *Double) shut(ctx context.Context, given ...string) error {
	return queue.ThroughOutages(ctx, d.client, func(ctx context.Context) error {
		for marked := 0; ; marked++ {
			// Another one who has marked it after our mark is about to remove it. Nobody returns before that is done, so look again. Not all at the same
			// time: whoever marks it again too soon keeps the other from removing it.
			if err := d.tryShut(ctx, given); !errors.Is(err, framework.ErrBadVersion) {
				return unless(err, framework.ErrNoNode)
			}
			if marked > 0 {
				d.client.Pause(ctx, queue.Jittered(time.Millisecond<<min(marked, 8)))
			}
		}
	})
}

func (d *Double) tryShut(ctx context.Context, given []string) error {
	// First, and whether they are to be seen or not: a create that is on its way is not executed behind this any more. Others who leave may have left it to these.
	for _, name := range given {
		if err := d.client.Delete().Quietly().ForPath(ctx, d.child(name)); err != nil {
			return err
		}
	}
	names, err := d.client.GetChildren().ForPath(ctx, d.path)
	if err != nil {
		return err
	}
	open, members := split(d.children(names))
	if !open || len(members) > 0 {
		return nil
	}
	marked := d.client.SetData().InBackground().ForPath(ctx, d.ready(), nil)
	listed := d.client.GetChildren().InBackground().ForPath(ctx, d.path)
	mark, err := queue.Result(marked)
	list, listErr := queue.Result(listed)
	if errors.Is(err, framework.ErrNoAuth) {
		mark.Version, err = -1, nil // it is another's, who lets us not write to it: we do without
	}
	if err = cmp.Or(err, listErr); err != nil {
		return err
	}
	if _, members := split(d.children(list.Names)); len(members) > 0 {
		return nil
	}
	return d.client.Delete().WithVersion(mark.Version).ForPath(ctx, d.ready())
}

// shutter shuts a barrier behind the backs of those who have given up, one after the other, for as long as that takes.
type shutter struct {
	mu    sync.Mutex
	given []string // nodes of those; guarded by mu
	busy  bool     // a goroutine of the client's is at it; guarded by mu
}

// shutBehind shuts the barrier for somebody who has given up.
func (d *Double) shutBehind(name string) {
	s := &d.shutter
	s.mu.Lock()
	start := !s.busy
	s.given, s.busy = append(s.given, name), true
	s.mu.Unlock()
	if start {
		d.client.Spawn(d.shutForGiven)
	}
}

func (d *Double) shutForGiven(ctx context.Context) {
	var given []string
	for s, failures := &d.shutter, 0; ; {
		s.mu.Lock()
		given = append(given, s.given...)
		s.given, s.busy = nil, len(given) > 0
		s.mu.Unlock()
		if len(given) == 0 {
			return
		}
		err := error(nil)
		returned := apart.Call(func() { err = d.shut(ctx, given...) })
		if d.client.Over() == nil && !returned {
			failures++ // a hook has ended the goroutine
			_ = queue.Backoff(ctx, d.client, failures)
			continue
		}
		if d.client.Over() == nil && (errors.Is(err, framework.ErrAuthFailed) || errors.Is(err, framework.ErrNotReadOnly)) {
			failures++ // it passes when the credentials are right again, or a member with a quorum is found
			_ = queue.Backoff(ctx, d.client, failures)
			continue
		}
		if err != nil && !errors.Is(err, framework.ErrClosed) {
			d.client.Logger().Warn("the double barrier cannot be closed", "path", d.path, "err", err)
		}
		given, failures = nil, 0
	}
}
