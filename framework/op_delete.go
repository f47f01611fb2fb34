package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// DeleteBuilder deletes a node. It is a value: each method returns a changed copy, in any order.
type DeleteBuilder struct {
	c            *Client
	version      int32
	withChildren bool
	quiet        bool
	guaranteed   bool
	idempotent   bool
	markSuffix   string
}

// Delete begins to delete a node. Corresponds to Curator's delete.
func (c *Client) Delete() DeleteBuilder { return DeleteBuilder{c: c, version: -1} }

// WithVersion makes the operation fail with ErrBadVersion unless the node has this version. Default -1: any version. A
// node that was deleted and created again starts at version 0 again.
func (b DeleteBuilder) WithVersion(version int32) DeleteBuilder { b.version = version; return b }

// DeletingChildrenIfNeeded also deletes the nodes below the node, depth first, if the node has children. That is not
// atomic: other clients may see part of the tree. Nodes that they add during the deletion are deleted, too, up to a
// limit; beyond it the error is ErrNotEmpty. The version applies to the node itself only.
func (b DeleteBuilder) DeletingChildrenIfNeeded() DeleteBuilder { b.withChildren = true; return b }

// Quietly makes the operation succeed if the node does not exist.
func (b DeleteBuilder) Quietly() DeleteBuilder { b.quiet = true; return b }

// Idempotent lets a repeat succeed because of an earlier try of this same call: if a try's reply was lost and the
// repeat fails with ErrNoNode, the call succeeds. If the first try fails with ErrNoNode, so does the call: of several
// clients that delete one node, one succeeds. There is an exception: another client may delete the node between the try
// whose reply was lost and the repeat. Curator's idempotent is the same as its quietly, which is Quietly here.
func (b DeleteBuilder) Idempotent() DeleteBuilder { b.idempotent = true; return b }

// Guaranteed makes the client continue the delete in the background if ForPath fails because the connection was lost or
// its context ended, even before anything was sent. The client tries until the node is deleted or the server refuses the
// delete. ForPath returns the error all the same; its text mentions the background delete. The background delete keeps
// the version and DeletingChildrenIfNeeded. (Curator's keeps neither.)
//
// Through the view of a session ([Session.Client]) the client tries only until that session ends. That suits the
// session's ephemeral nodes: a later session's node of the same name must stay. Otherwise the client tries until it is
// closed. Corresponds to Curator's guaranteed.
func (b DeleteBuilder) Guaranteed() DeleteBuilder { b.guaranteed = true; return b }

// LeavingMark makes the deletion also fire the watches that other clients have armed for the creation of the mark: a
// node whose path is the deleted node's path with suffix. So those clients can distinguish this deletion from others.
// One transaction creates the mark, deletes it, and deletes the node. So no read ever finds the mark, but it takes a
// sequence number of the parent. If the server refuses the transaction, or the reply to the first try is lost, the node
// is deleted without a mark. It is ErrBadArguments together with WithVersion or DeletingChildrenIfNeeded. For authors of
// recipes.
func (b DeleteBuilder) LeavingMark(suffix string) DeleteBuilder { b.markSuffix = suffix; return b }

// ForPath deletes the node. Errors: ErrNoNode, ErrBadVersion, ErrNotEmpty, and the errors that every operation can
// return; ErrBadArguments for "/", also with a chroot. (The root of a namespace can be deleted.)
//
// The delete is repeated as the retry policy allows. If a repeat after an unknown outcome fails with ErrNoNode,
// ErrBadVersion or ErrNotEmpty, the node may have been deleted by the first try or by another client, and nothing in
// the tree shows which: the error is ErrConnectionLoss. (Curator returns NoNode.) There are exceptions:
//
//   - After ErrBadVersion and ErrNotEmpty the client reads the node, in the same session. If the node is older than
//     the call, the first try has not deleted it, and the error is the server's.
//   - With Idempotent, ErrNoNode is success. With Quietly, a missing node is success in any case.
//
// A repeat without a version may delete a node that another client has created in between.
func (b DeleteBuilder) ForPath(ctx context.Context, path string) error {
	_, err := runForeground(ctx, b.operation(path))
	return err
}

// InBackground makes ForPath return immediately.
func (b DeleteBuilder) InBackground() Background[DeleteBuilder, struct{}] {
	return Background[DeleteBuilder, struct{}]{builder: b}
}

func (b DeleteBuilder) operation(path string) *operation[struct{}] {
	c := b.c
	full, err := c.fullPath(path)
	if err == nil && full == c.view.chroot {
		err = errDeleteRoot
	}
	x := &deleteProcedure{DeleteBuilder: b, full: full}
	if b.markSuffix != "" && err == nil {
		if _, err = c.fullPath(path + b.markSuffix); b.version != -1 || b.withChildren {
			err = badArguments("LeavingMark goes with neither WithVersion nor DeletingChildrenIfNeeded")
		}
	}
	o := &x.operation
	o.c, o.name, o.mutates, o.path, o.argumentError = c, "delete", true, path, err
	o.procedure, o.ambiguousErrors = x, deleteRefusals
	if b.idempotent {
		o.unknownPolicy = unknownCompare
	}
	if b.quiet {
		o.resultIfAbsent = &struct{}{}
	}
	if b.guaranteed && err == nil {
		cleanup := nodeCleanup{path: full, version: b.version, withChildren: b.withChildren, boundTo: c.view.epoch}
		x.leftoverDelete.c, x.leftoverDelete.cleanup = c, cleanup
		o.leftovers, o.exemptFromLimit = &x.leftoverDelete, true
	}
	return o
}

// deleteRefusals are the refusals of a repeat that may be due to the success of an earlier try. ErrBadVersion and
// ErrNotEmpty are due to it if another client has created the node again.
var deleteRefusals = []error{ErrNoNode, ErrBadVersion, ErrNotEmpty}

// deleteProcedure is the procedure of a [DeleteBuilder].
type deleteProcedure struct {
	operation[struct{}]
	DeleteBuilder
	full           string
	leftoverDelete guaranteedDelete // only sentWithMark is used without Guaranteed
}

func (x *deleteProcedure) newRequest(*sessionEpoch) *wire.Call {
	mark := x.full + x.markSuffix
	if x.leftoverDelete.sentWithMark = x.markSuffix != ""; !x.leftoverDelete.sentWithMark {
		return deleteCall(x.full, x.version)
	}
	x.markSuffix = "" // another try is without the mark
	// The mark's ACL is open, because servers send the event only to clients that may read the mark.
	return newCall(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{
		{Op: jute.OpCreate, Request: &jute.CreateRequest{Path: mark, ACL: openACL}},
		{Op: jute.OpDelete, Request: &jute.PathVersionRequest{Path: mark, Version: -1}},
		{Op: jute.OpDelete, Request: &jute.PathVersionRequest{Path: x.full, Version: -1}},
	}})
}

func (x *deleteProcedure) decodeReply(_ int64, body []byte) (v struct{}, err error) {
	if x.leftoverDelete.sentWithMark {
		err = markedDeleteError(wire.Reply{Body: body})
	}
	return v, err
}

// markedDeleteError returns the reason why the transaction of LeavingMark did not delete the node; nil if it did.
func markedDeleteError(reply wire.Reply) error {
	res := jute.MultiResponse{Asked: 3}
	if err := decodeOutcome(reply, &res); err != nil {
		return err
	}
	index, code := failedOperation(res.Results)
	switch {
	case index >= 0:
		return codeError(code)
	case len(res.Results) != res.Asked || res.Results[res.Asked-1].Op != jute.OpDelete:
		return fmt.Errorf("%w: not the results of a delete that leaves a mark", ErrMalformedReply)
	}
	return nil
}

func (x *deleteProcedure) recoveryAfter(err error) recoveryStep[struct{}] {
	switch {
	case x.leftoverDelete.sentWithMark && !isUnfinished(err): // the server has refused the mark, or all of it
		return func(context.Context, *operationRun[struct{}]) (v struct{}, again bool, err error) {
			return v, true, nil
		}
	case x.idempotent && errors.Is(repeatRefusal(err), ErrNoNode):
		return func(context.Context, *operationRun[struct{}]) (v struct{}, again bool, err error) {
			return v, false, nil
		}
	case errors.Is(err, errAmbiguous) && !errors.Is(repeatRefusal(err), ErrNoNode):
		return func(ctx context.Context, r *operationRun[struct{}]) (v struct{}, again bool, _ error) {
			var res jute.StatResponse
			switch failed := sendAndDecode(ctx, r.epoch, r.epoch.limitPatience(readCall(jute.OpExists, x.full)), &res); {
			case ignoreNoNode(failed) != nil:
				return v, false, unresolvedError(err, failed)
			case failed == nil && r.precedesTries(res.Stat.Czxid):
				return r.clearUnknownOutcome()
			}
			return v, false, err
		}
	case x.withChildren && errors.Is(err, ErrNotEmpty):
		return func(ctx context.Context, r *operationRun[struct{}]) (v struct{}, again bool, err error) {
			err = deleteChildren(ctx, r.epoch, x.full, r.epoch.limitPatience)
			return v, err == nil, err
		}
	}
	return nil
}

// errDeleteRoot is the error for "/", also with a chroot.
var errDeleteRoot = badArguments("the root of the tree cannot be deleted")

// guaranteedDelete is the leftoverTracker of a guaranteed delete.
type guaranteedDelete struct {
	c            *Client
	state        removalState
	cleanup      nodeCleanup
	sentWithMark bool // the request also leaves a mark: a refusal may be about the mark alone
}

// applyEvent makes the transition for ev and carries out its action. cleanupErr is ErrCleanupFull if a clean-up could
// not be queued.
func (g *guaranteedDelete) applyEvent(ev removalEvent) (cleanupErr error) {
	var action removalAction
	if g.state, action = g.state.next(ev); action == removalCleanup {
		cleanupErr = g.c.core.ops.cleanups.addCleanup(g.cleanup)
	}
	return cleanupErr
}

func (g *guaranteedDelete) recoverOutcome(context.Context, *operationRun[struct{}]) (v struct{}, done bool, err error) {
	return v, false, nil
}

func (g *guaranteedDelete) recordOutcome(error) {}

func (g *guaranteedDelete) takeLateReply(reply wire.Reply) {
	err := replyError(reply)
	if g.sentWithMark {
		err = markedDeleteError(reply)
	}
	g.applyEvent(removalCallerStopped)
	g.applyEvent(lateRemovalEvent(err, g.cleanup.withChildren, g.sentWithMark)) // no caller is left to get ErrCleanupFull
}

// lateRemovalEvent returns the event for a reply that comes after the caller has stopped waiting.
func lateRemovalEvent(err error, withChildren, sentWithMark bool) removalEvent {
	switch {
	case withChildren && errors.Is(err, ErrNotEmpty):
		return removalBlocked
	case sentWithMark && err != nil:
		return removalUnfinished
	}
	return removalEventOf(err)
}

func (g *guaranteedDelete) settleFailure(err error, abandoned bool) error {
	var cleanupErr error
	if !abandoned {
		cleanupErr = g.applyEvent(removalEventOf(err))
	}
	switch sessionEnded := errors.Is(err, ErrClosed) || errors.Is(err, ErrSessionLost); {
	case cleanupErr != nil:
		err = fmt.Errorf("%w; %w", err, cleanupErr)
	case (abandoned || g.state == removalQueued) && !sessionEnded:
		err = fmt.Errorf("%w; the client continues the delete in the background", err)
	}
	return err
}
