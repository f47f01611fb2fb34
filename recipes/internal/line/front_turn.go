package line

import (
	"cmp"
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
)

// TurnHandle is one caller's share of a turn at the node of a [Front]. The handles of the recipes consist of one, and
// document its methods.
type TurnHandle struct {
	*Turn
	released atomic.Bool
	cleanup  runtime.Cleanup
}

// Init makes the zero TurnHandle that of t.
func (h *TurnHandle) Init(t *Turn) {
	h.Turn = t
	h.cleanup = WarnOf(h, t.By.(*frontNode).dropped)
}

// Valid reports, by the clock, whether the turn and the hold last, and the TurnHandle is not released.
func (h *TurnHandle) Valid() bool { return !h.released.Load() && h.Turn.Valid() }

// Remaining returns the time for which it is Valid if no further reply comes.
func (h *TurnHandle) Remaining() time.Duration {
	if h.released.Load() {
		return 0
	}
	return h.Turn.Remaining()
}

// Release ends the share. If the node goes with it, and no other caller waits for the next node, it waits until the server
// has confirmed the deletion. The error is ErrReleased when it was called before, and how the hold was lost, if it was.
func (h *TurnHandle) Release(ctx context.Context) error {
	return h.front().wrap("release", h.release(ctx))
}

func (h *TurnHandle) release(ctx context.Context) error {
	if ctx == nil {
		return framework.ErrNilContext
	}
	n, lost := h.end()
	switch {
	case n == nil:
		return lost
	case n.front.limits.Users == 0:
		refused := n.Release(ctx)
		return cmp.Or(lost, refused) // after a loss, a remaining node goes with the session
	}
	answered := make(chan error, 1)
	n.giveBack(func(err error) { answered <- err })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return n.front.line.Client.Left(ctx, nil)
	}
}

// ReleaseInBackground is Release for a caller that does not wait: then get its error.
func (h *TurnHandle) ReleaseInBackground(then []func(error)) {
	n, lost := h.end()
	if n == nil && len(then) == 0 {
		return
	}
	f := h.front()
	told := &Callback{Path: h.Node().Path, Then: then, Wrap: func(err error) error { return f.wrap("release", err) }}
	if n == nil {
		told.Later(f.line.Client, lost)
		return
	}
	n.giveBack(func(refused error) { told.Later(f.line.Client, cmp.Or(lost, refused)) })
}

func (h *TurnHandle) front() *Front { return h.By.(*frontNode).front }

// end ends the share. The node is returned if the caller has to delete it and may wait for that; the error is as that of
// Release.
func (h *TurnHandle) end() (*frontNode, error) {
	if h.released.Swap(true) {
		return nil, framework.ErrReleased
	}
	h.cleanup.Stop()
	return h.Turn.end()
}

// Abandon ends a turn, and does not wait for the deletion of its node.
func (t *Turn) Abandon() {
	if n, _ := t.end(); n != nil {
		n.giveBack(nil)
	}
}

// end ends one user's share of a turn, see [TurnHandle.end].
func (t *Turn) end() (last *frontNode, lost error) {
	now := time.Now()
	over, sure, lost := t.Leave(now)
	if !over {
		return nil, nil
	}
	n := t.By.(*frontNode)
	mine, others := n.front.release(n, sure, now)
	switch {
	case !mine:
		return nil, lost
	case n.front.limits.Users > 0 && (others || lost != nil):
		n.giveBack(nil)
		return nil, lost
	}
	return n, lost
}
