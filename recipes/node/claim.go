package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
)

// ClaimOption changes what [TryClaim] and [AwaitClaim] do. If one is given several times the last counts.
type ClaimOption func(*claiming) error

type claiming struct{ loss framework.LossPolicy }

// WithLossPolicy sets whether a claim outlives a lost connection. Default [framework.SessionOnly]: it lasts until its
// session may have expired, by the client's own clock. With [framework.SuspendedIsLoss] it ends when the connection
// is lost (cause ErrSuspended).
func WithLossPolicy(p framework.LossPolicy) ClaimOption {
	return func(c *claiming) (err error) {
		c.loss, err = line.CheckLossPolicy(p)
		return err
	}
}

// Claim is a name that one process holds at a time: an ephemeral node at a given path, with its owner's data. It
// lasts until [Claim.Release], or until it is lost. Safe for concurrent use.
//
// Unlike the node of a [Keeper] it is exclusive, like a lock: when the session is lost, its context ends before
// another client can claim the name.
type Claim struct {
	session     *framework.Session
	hold        *framework.Hold // nil until it is granted
	path        string
	czxid       int64 // 0 while it is unknown
	reservation *reservation

	released atomic.Bool
	cleanup  runtime.Cleanup
}

// TryClaim creates the node at path, with these data, and fails with [ErrNotAcquired] if it is there already, whoever
// has made it, also through this client. It does not wait until that node is gone. (It fails with the same error if
// the servers commit so slowly that no hold can begin within a session timeout.) Nil data are the client's default
// data. Missing parents are made as containers. ctx limits only the call: a claim outlives it, and its context has
// the values of ctx.
//
// The retry policy limits the attempts; after a lost reply TryClaim reads whether the node is its own. When it fails,
// with whatever error, either the node does not exist, or the client retries its deletion in the background for as
// long as the session lives. Other errors: framework.ErrNoAuth and other refusals; framework.ErrTimeoutTooShort if
// the session timeout is too short for a safe hold; ErrNotConnected and ErrConnectionLoss; ErrSessionLost;
// framework.ErrClosed; ctx's; framework.ErrNoClient, ErrInvalidPath (also for "/") and ErrInvalidOption. [Holder] returns
// the process that has the name.
//
// Curator has no such recipe: programs call create() with EPHEMERAL.
func TryClaim(
	ctx context.Context, client *framework.Client, path string, data []byte, opts ...ClaimOption,
) (*Claim, error) {
	c, err := claimName(ctx, client, path, opts, func(ctx context.Context, cfg claiming) (*Claim, error) {
		return tryClaim(ctx, client, path, data, cfg)
	})
	return c, line.WrapError("claim", path, "try", err)
}

// AwaitClaim is TryClaim that waits while the name is taken. It watches the node, and tries again when it is deleted. (Events
// can get lost, so about once per session timeout it checks whether the node exists.) From the first refusal on it waits
// through lost connections and sessions, until ctx ends or the client is closed; before, the retry policy limits the
// attempts. It returns the errors of [TryClaim], except ErrNotAcquired.
//
// A claim of the same client counts until its Release, or the end of its session: a goroutine that has the name must not
// wait for it. The calls have no order, and all of them try when the name is free: for more than a few use a lock.
func AwaitClaim(
	ctx context.Context, client *framework.Client, path string, data []byte, opts ...ClaimOption,
) (*Claim, error) {
	c, err := claimName(ctx, client, path, opts, func(ctx context.Context, cfg claiming) (*Claim, error) {
		c, err := tryClaim(ctx, client, path, data, cfg)
		for errors.Is(err, ErrNotAcquired) {
			if err = awaitNameFree(ctx, client, path); err != nil {
				break
			}
			err = line.RetryThrough(ctx, client, line.ReadOnlyMembers, func(ctx context.Context) error {
				c, err = tryClaim(ctx, client, path, data, cfg)
				return err
			})
		}
		return c, err
	})
	return c, line.WrapError("claim", path, "await", err)
}

// Participant describes the holder of a name.
type Participant = line.Participant

// Holder returns the holder of the name at path; false if there is no node. It sends one read. A SessionID of 0 means that
// the node belongs to no session, so that no claim can succeed until it is deleted. The result may be outdated when it
// returns.
func Holder(ctx context.Context, client *framework.Client, path string) (Participant, bool, error) {
	p, held, err := readHolder(ctx, client, path)
	return p, held, line.WrapError("claim", path, "holder", err)
}

func readHolder(ctx context.Context, client *framework.Client, path string) (p Participant, held bool, _ error) {
	if err := line.CheckCall(ctx, client, checkPath(client, path)); err != nil {
		return p, false, err
	}
	var stat framework.Stat
	data, err := client.GetData().Undecompressed().StoringStatIn(&stat).ForPath(ctx, path)
	if err != nil {
		return p, false, line.IgnoreError(err, framework.ErrNoNode)
	}
	p = Participant{Name: zkpath.Base(path), Path: path}
	return line.ParticipantWithData(client, p, data, stat), true, nil
}

// claimName checks the arguments of a call and makes the claim.
func claimName(
	ctx context.Context, client *framework.Client, path string, opts []ClaimOption,
	claim func(context.Context, claiming) (*Claim, error),
) (*Claim, error) {
	cfg := claiming{loss: framework.SessionOnly}
	err := checkPath(client, path)
	if err == nil {
		err = line.Configure(client, path, &cfg, opts)
	}
	if err = line.CheckCall(ctx, client, err); err != nil {
		return nil, err
	}
	return line.ReportAcquire(ctx, client, framework.Acquisition{Recipe: "claim", Path: path},
		func(ctx context.Context) (*Claim, error) { return claim(ctx, cfg) }, (*Claim).releaseNoWait)
}

func tryClaim(
	ctx context.Context, client *framework.Client, path string, data []byte, cfg claiming,
) (*Claim, error) {
	r := reservePlace(client.Place(path))
	if r == nil {
		return nil, fmt.Errorf("%w: this client has the node, or is about to", ErrNotAcquired)
	}
	creates := false // createAndHold is called, which frees the place if it fails
	defer func() {   // also if the user's code does not return
		if !creates {
			r.freePlace()
		}
	}()
	session, err := client.SessionSoon(ctx)
	if err != nil {
		return nil, err
	}
	creates = true
	c := &Claim{session: session, path: path, reservation: r}
	if err := c.createAndHold(ctx, data, cfg); err != nil {
		return nil, err
	}
	c.cleanup = line.WarnIfDropped(c, path, session)
	return c, nil
}

// awaitNameFree waits until neither this client nor another has the node at path. It may return early, when a session ends.
func awaitNameFree(ctx context.Context, client *framework.Client, path string) error {
	if freed := awaitPlace(client.Place(path)); freed != nil {
		select {
		case <-freed: // also when the session ends
			return nil
		case <-ctx.Done():
			return client.WaitError(ctx, nil)
		}
	}
	for {
		var node framework.ExistsResult
		err := line.RetryThrough(ctx, client, line.Outages, func(ctx context.Context) (err error) {
			node, err = line.AwaitResult(client.CheckExists().WithWatch().InBackground().ForPath(ctx, path))
			return err
		})
		switch {
		case err != nil:
			return err
		case node.Stat == nil:
			node.Watch.Stop()
			return nil
		}
		ev, err := line.AwaitDeletion(ctx, client, node.Watch, path, node.Stat.Czxid)
		if err != nil || ev.Type == framework.EventNodeDeleted || ev.Type == framework.EventEnd {
			return err
		}
	}
}

// createAndHold creates the node and starts the hold. If it fails, the reservation ends as soon as the node cannot
// exist any more.
func (c *Claim) createAndHold(ctx context.Context, data []byte, cfg claiming) error {
	c.reservation.freeWhenEnded(c.session.Context())
	cleanUp := c.releaseNoWait // also if the user's code does not return
	defer func() {
		if cleanUp != nil {
			cleanUp()
		}
	}()
	var stat framework.Stat
	_, err := c.session.Client().Create().WithMode(framework.Ephemeral).CreatingParentContainersIfNeeded().
		Idempotent().StoringStatIn(&stat).ForPath(ctx, c.path, data)
	if err != nil && !errors.Is(err, framework.ErrOutcomeUnknown) {
		cleanUp = c.reservation.freePlace // there is no node
	}
	if errors.Is(err, framework.ErrNodeExists) {
		return fmt.Errorf("%w: the node exists", ErrNotAcquired)
	}
	if err != nil {
		return err
	}
	c.czxid = stat.Czxid
	err = line.HoldWithTimeout(ctx, c.session, 1, false, func(ctx context.Context) (err error) {
		c.hold, err = c.session.Hold(ctx, framework.HoldOptions{
			Path: c.path, Recipe: "claim", Czxid: c.czxid, Loss: cfg.loss, Values: ctx,
		})
		return err
	})
	if err == nil {
		cleanUp = nil
	}
	return err
}

// releaseNoWait releases the claim, and deletes the node if it exists, without waiting for that.
func (c *Claim) releaseNoWait() { c.endAndDelete(func(error) {}) }

// endAndDelete ends the hold and then deletes the node. The client continues in the background until the node is deleted
// or the session has ended, and calls deleted with the result.
func (c *Claim) endAndDelete(deleted func(error)) {
	defer c.session.Client().Spawn(func(ctx context.Context) { // also if a hook does not return
		err := c.deleteWithRetries(ctx)
		c.reservation.freePlace()
		deleted(err)
	})
	if c.hold != nil {
		c.hold.End(ErrReleased)
	}
}

// deleteWithRetries deletes the node, retrying for as long as no server with a quorum is reachable.
func (c *Claim) deleteWithRetries(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := c.session.WaitQuorum(ctx)
		if err == nil {
			err = c.deleteOwnNode(ctx, failures > 1)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return cmp.Or(c.session.Client().Err(), err) // the client was closed, or the session is lost
		case err == nil, !isTransient(err):
			return err
		}
		if err := line.Backoff(ctx, c.session.Client(), failures); err != nil {
			return err
		}
	}
}

// deleteOwnNode deletes the node, unless another one has the path by now. After an earlier attempt a member that lags
// may still show this node after another was created: see catchUpServer.
func (c *Claim) deleteOwnNode(ctx context.Context, again bool) error {
	view := c.session.Client()
	if again || c.czxid == 0 { // after a lost reply
		if err := catchUpServer(ctx, view, c.path); err != nil {
			return err
		}
	}
	stat, err := view.CheckExists().ForPath(ctx, c.path)
	stat, err = line.StatOwnNode(ctx, view, c.path, stat, err)
	if err != nil {
		return err
	}
	if stat == nil || stat.EphemeralOwner != c.session.ID() || c.czxid != 0 && stat.Czxid != c.czxid {
		return nil
	}
	// One attempt: a repeat reads the node again first.
	_, err = line.AwaitResult(view.Delete().Quietly().InBackground().ForPath(ctx, c.path))
	return err
}

// Context returns the context for the work that needs the claim. It ends when the claim is lost or released, and
// context.Cause returns the reason: ErrSessionLost, ErrNodeDeleted, ErrSuspended, ErrReleased, or
// framework.ErrClosed. When the session is lost, the context ends before another client can claim the name. It has
// the values of the context that was given to [TryClaim] or [AwaitClaim], but neither its end nor its deadline. Its Err also checks
// the clock, like Valid; the Err of a derived context does not.
func (c *Claim) Context() context.Context { return c.currentHold().Context() }

// Valid reports whether the caller certainly holds the name now, computed from the clock. Call it right before an
// action that must not happen without it.
func (c *Claim) Valid() bool { return c.currentHold().Valid() }

// Remaining returns how long the claim certainly lasts if no server answers from now on; 0 if it is lost or
// released.
func (c *Claim) Remaining() time.Duration { return c.currentHold().Remaining() }

// currentHold returns the hold; an ended one for the zero value.
func (c *Claim) currentHold() *framework.Hold {
	if c.hold == nil {
		return &framework.Hold{}
	}
	return c.hold
}

// FencingToken returns a number that grows from owner to owner: the czxid of the node. A store that remembers the
// largest token and refuses smaller ones is safe from writes of a former owner. (Unlike locks, claims have no Guard:
// the next owner's node has the same path.)
func (c *Claim) FencingToken() int64 { return c.czxid }

// Path returns the path of the node.
func (c *Claim) Path() string { return c.path }

// Release releases the name. The context ends immediately. Release waits until the server has confirmed that the node
// is deleted, after one read to check that it is this claim's. If ctx ends first, Release returns its error, and the
// client continues for as long as the session lives; until then this client cannot claim the name again.
//
// Release needs READ, or ADMIN, on the node: without either, servers since 3.8.4 and 3.9.2 do not report its owner.
// The error is then framework.ErrNoAuth, and the node stays until the session ends. (With ADMIN alone there are two
// reads.)
//
// A second Release returns ErrReleased and does nothing. If the claim was lost before, the error is the cause
// (ErrSessionLost, …): the end of the work may not have been protected. Call Release also after a loss, since the
// node may still exist.
func (c *Claim) Release(ctx context.Context) error {
	return c.wrapReleaseError(c.release(ctx))
}

// ReleaseInBackground is Release for a caller that does not wait: it returns immediately. The context has ended then,
// and the client deletes the node in the background, as after a Release whose ctx ends. So it is the call to defer.
// then, if given, gets the error that Release would return, on the client's goroutine for callbacks (see
// [framework.Pending.Then]). Without it only a refusal is logged.
func (c *Claim) ReleaseInBackground(then ...func(err error)) {
	client := c.session.Client()
	report := &line.Callback{Path: c.path, Then: then, Wrap: c.wrapReleaseError}
	if c.released.Swap(true) {
		report.CallLater(client, ErrReleased)
		return
	}
	c.cleanup.Stop()
	lost := line.HoldLoss(c.hold)
	c.endAndDelete(func(err error) { report.CallLater(client, cmp.Or(lost, err)) })
}

func (c *Claim) wrapReleaseError(err error) error {
	return line.WrapError("claim", c.path, "release", err)
}

func (c *Claim) release(ctx context.Context) error {
	switch {
	case ctx == nil:
		return framework.ErrNilContext
	case c.released.Swap(true):
		return ErrReleased
	}
	c.cleanup.Stop()
	lost := line.HoldLoss(c.hold)
	deleted := make(chan error, 1)
	c.endAndDelete(func(err error) { deleted <- err })
	var err error
	select {
	case err = <-deleted:
	case <-c.session.Done(): // and the node with it
		err = context.Cause(c.session.Context())
	case <-ctx.Done():
		err = c.session.Client().WaitError(ctx, nil)
	}
	if lost != nil {
		return lost
	}
	return err
}

// reservations are the places at which this process has claims, or may have: at most one per client and path.
// Otherwise a node of the client's session, found after a lost reply, could belong to another call.
var reservations = struct {
	sync.Mutex
	taken map[any]*reservation
}{taken: map[any]*reservation{}}

type reservation struct {
	place    any
	freed    chan struct{} // closed by freePlace
	stopHook func() bool   // removes the hook from the session; guarded by reservations
}

// reservePlace returns nil if the place is taken.
func reservePlace(place any) *reservation {
	reservations.Lock()
	defer reservations.Unlock()
	if reservations.taken[place] != nil {
		return nil
	}
	r := &reservation{place: place, freed: make(chan struct{})}
	reservations.taken[place] = r
	return r
}

// freeWhenEnded frees the place when ctx ends.
func (r *reservation) freeWhenEnded(ctx context.Context) {
	reservations.Lock()
	defer reservations.Unlock()
	r.stopHook = context.AfterFunc(ctx, r.freePlace)
}

// freePlace frees the place. Calling it again does nothing.
func (r *reservation) freePlace() {
	reservations.Lock()
	defer reservations.Unlock()
	if r.stopHook != nil {
		r.stopHook()
	}
	if reservations.taken[r.place] == r {
		delete(reservations.taken, r.place)
		close(r.freed)
	}
}

// awaitPlace returns a channel that is closed when the place is free; nil if it is.
func awaitPlace(place any) <-chan struct{} {
	reservations.Lock()
	defer reservations.Unlock()
	if r := reservations.taken[place]; r != nil {
		return r.freed
	}
	return nil
}
