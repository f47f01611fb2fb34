package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// nodeState is the client's knowledge of the node of a protected create.
type nodeState int8

const (
	nodeAbsent          nodeState = iota // no request is in flight that could make the node
	nodeSent                             // the create is in flight
	nodeUnknown                          // the create's outcome is unknown
	nodeSought                           // the client looks for the node, in the session of the create
	nodeSoughtElsewhere                  // the client looks for the node, in a later session
	nodeTaken                            // the node is the caller's
	nodeUnwanted                         // the create is in flight, and its caller has left
	nodeOver                             // the operation has ended, and the node is not wanted any more
)

type nodeEvent int8

const (
	createSent    nodeEvent = iota
	createDone              // answered: the node was made
	createRefused           // answered: the node was not made
	createLost              // the outcome is unknown
	tryHere                 // another try, in the session of the last one
	tryElsewhere            // another try, in a later session
	tryAfterEnd             // as tryElsewhere, but the node is ephemeral and goes with the earlier session
	nodeFound
	nodeNotFound
	searchFailed
	callerLeft
	createFailed // the operation ends with an error
)

type nodeAction int8

const (
	nodeNoAction    nodeAction = iota
	nodeSearch                 // look for the node
	nodeRename                 // continue under another name: a node of the old name is not ours
	nodeLeaveRename            // the same, and let the clean-ups look for the node of the old name
	nodeLeaveSearch            // let the clean-ups look for the node
	nodeLeave                  // let the clean-ups remove the node
)

// nodeMoves are the transitions of a protected create. An event without an entry changes nothing.
var nodeMoves = map[transitionKey[nodeState, nodeEvent]]transitionResult[nodeState, nodeAction]{
	{nodeAbsent, createSent}:            {nodeSent, nodeNoAction},
	{nodeAbsent, createFailed}:          {nodeOver, nodeNoAction},
	{nodeSent, createDone}:              {nodeTaken, nodeNoAction},
	{nodeSent, createRefused}:           {nodeAbsent, nodeNoAction},
	{nodeSent, createLost}:              {nodeUnknown, nodeNoAction},
	{nodeSent, callerLeft}:              {nodeUnwanted, nodeNoAction},
	{nodeSent, createFailed}:            {nodeOver, nodeNoAction}, // the request was cancelled unsent
	{nodeUnknown, tryHere}:              {nodeSought, nodeSearch},
	{nodeUnknown, tryElsewhere}:         {nodeSoughtElsewhere, nodeSearch},
	{nodeUnknown, tryAfterEnd}:          {nodeAbsent, nodeRename}, // not our node: CURATOR-604
	{nodeUnknown, createFailed}:         {nodeOver, nodeLeaveSearch},
	{nodeSought, nodeFound}:             {nodeTaken, nodeNoAction},
	{nodeSought, nodeNotFound}:          {nodeAbsent, nodeNoAction},
	{nodeSought, searchFailed}:          {nodeUnknown, nodeNoAction},
	{nodeSoughtElsewhere, nodeFound}:    {nodeTaken, nodeNoAction},
	{nodeSoughtElsewhere, nodeNotFound}: {nodeAbsent, nodeLeaveRename}, // the old request may still make it
	{nodeSoughtElsewhere, searchFailed}: {nodeUnknown, nodeNoAction},
	{nodeUnwanted, createDone}:          {nodeOver, nodeLeave},
	{nodeUnwanted, createRefused}:       {nodeOver, nodeNoAction},
	{nodeUnwanted, createLost}:          {nodeOver, nodeLeaveSearch},
}

func (s nodeState) next(ev nodeEvent) (nodeState, nodeAction) {
	if move, ok := nodeMoves[transitionKey[nodeState, nodeEvent]{s, ev}]; ok {
		return move.state, move.action
	}
	return s, nodeNoAction
}

// protectedCreate is a create that finds its node again after a lost reply, and removes the node if the caller has
// stopped waiting for it. It tracks the leftovers of its operation.
type protectedCreate struct {
	createProcedure
	guid  string
	state nodeState
	epoch *sessionEpoch // the epoch of the last request
	made  string        // the node's path, if its caller has left
}

func (p *protectedCreate) newRequest(e *sessionEpoch) *wire.Call {
	call := p.requestForPath(zkpath.ProtectLast(p.full, p.guid))
	p.epoch = e
	p.applyEvent(createSent)
	return call
}

// applyEvent makes the transition for ev and carries out its action, except for nodeSearch, which is left to the
// caller. full is ErrCleanupFull if a clean-up was refused.
func (p *protectedCreate) applyEvent(ev nodeEvent) (action nodeAction, full error) {
	if p.state, action = p.state.next(ev); action == nodeNoAction {
		return action, nil
	}
	cleanups := &p.c.core.ops.cleanups
	search := nodeCleanup{path: p.parent, guid: p.guid, origin: p.epoch}
	if p.node.mode.isEphemeral() {
		search.bound = p.epoch
	}
	switch action {
	case nodeRename:
		p.guid = zkpath.NewGUID()
	case nodeLeaveRename:
		full = cleanups.addCleanup(search)
		p.guid = zkpath.NewGUID()
	case nodeLeaveSearch:
		full = cleanups.addCleanup(search)
	case nodeLeave:
		full = cleanups.addCleanup(nodeCleanup{path: p.made, version: -1, bound: search.bound})
	}
	return action, full
}

func (p *protectedCreate) recoverOutcome(ctx context.Context, r *operationRun[CreateResult]) (v CreateResult, _ bool, _ error) {
	if action, _ := p.applyEvent(anotherTryEvent(p.epoch == r.e, p.node.mode.isEphemeral())); action != nodeSearch {
		return v, false, nil
	}
	path, stat, err := p.findNode(ctx, r.e)
	switch {
	case err != nil:
		p.applyEvent(searchFailed)
		if !errors.Is(err, ErrOutcomeUnknown) { // the outcome is still unknown
			err = fmt.Errorf("%w (looking for the node failed: %w)", ErrConnectionLoss, err)
		}
		return v, false, err
	case path == "":
		p.applyEvent(nodeNotFound)
		return v, false, nil
	}
	p.applyEvent(nodeFound)
	if p.inPlaceOf != nil {
		*p.inPlaceOf.parent = Stat{}
	}
	return p.newCreateResult(path, stat), true, nil
}

// anotherTryEvent returns the event of another try, in the session of the last one or in a later session.
func anotherTryEvent(here, ephemeral bool) nodeEvent {
	switch {
	case here:
		return tryHere
	case ephemeral:
		return tryAfterEnd
	}
	return tryElsewhere
}

// findNode returns the node that an earlier request has made; an empty path if there is none.
func (p *protectedCreate) findNode(ctx context.Context, e *sessionEpoch) (path string, stat Stat, err error) {
	found, err := searchProtected(ctx, e, p.parent, p.guid, e.limitPatience)
	if err != nil {
		return "", stat, err
	}
	for _, path := range found {
		switch stat, err := p.readStat(ctx, e, path); {
		case errors.Is(err, ErrNoNode): // the node was made, and another client has deleted it since
		case err != nil:
			return "", stat, err
		case p.node.mode.isEphemeral() && stat.EphemeralOwner != e.wire.ID():
			_ = p.c.core.ops.cleanups.addCleanup(nodeCleanup{path: path, version: -1}) // CURATOR-498
		default:
			return path, stat, nil
		}
	}
	return "", stat, nil
}

// readStat returns the Stat of a node that exists, if the client has READ or ADMIN: since 3.8.4 and 3.9.2 exists
// requires READ, and getACL, whose reply has the same Stat, one of the two.
func (p *protectedCreate) readStat(ctx context.Context, e *sessionEpoch, path string) (Stat, error) {
	var there jute.StatResponse
	err := sendAndDecode(ctx, e, e.limitPatience(readCall(jute.OpExists, path)), &there)
	if !errors.Is(err, ErrNoAuth) {
		return Stat(there.Stat), err
	}
	var res jute.GetACLResponse
	err = sendAndDecode(ctx, e, e.limitPatience(newCall(jute.OpGetACL, &jute.PathRequest{Path: path})), &res)
	return Stat(res.Stat), err
}

func (p *protectedCreate) recordOutcome(err error) { p.applyEvent(createEventOf(err)) }

// createEventOf returns the event for the outcome of a request.
func createEventOf(err error) nodeEvent {
	switch {
	case err == nil:
		return createDone
	case errors.Is(err, ErrOutcomeUnknown):
		return createLost
	}
	return createRefused
}

func (p *protectedCreate) takeLateReply(reply wire.Reply) {
	err := replyError(reply)
	p.applyEvent(callerLeft)
	if err == nil {
		p.made, _, err = p.decodeCreated(reply.Body)
	}
	p.recordOutcome(err) // no caller is left to get ErrCleanupFull
}

func (p *protectedCreate) settleFailure(err error, left bool) error {
	if left {
		return err
	}
	if _, full := p.applyEvent(createFailed); full != nil {
		err = fmt.Errorf("%w; %w", err, full)
	}
	return err
}

// InPlaceOf replaces the node at old by the new node, in one transaction that also counts the new node's siblings. It
// is for layouts in which the owner of a node goes from one role to the next, such as from waiter to holder. For
// authors of recipes.
//
// The transaction deletes the node at old, whatever its version, creates the new one, and sets the parent's
// data to none, only to get the parent's Stat in the reply. It is the Stat right after the create, so its
// NumChildren counts all children that there are at this moment, and its Mzxid is the Czxid of the new node.
//
// parent is the parent's Stat, as a list has returned it: it must not have data (else the create fails with
// ErrBadArguments, and nothing is sent), and must still have this version (ErrBadVersion). The client needs
// WRITE permission on it (ErrNoAuth). When the create succeeds, *parent is the Stat in the reply. If the
// reply was lost and the node was found by its name, *parent is zero.
//
// If the node at old is gone, the create fails with ErrNodeDeleted. The node must have protection (ErrBadArguments);
// its UUID is that of old, if old has one, so clients that know old recognize the new node. A missing parent is not
// created.
func (b CreateBuilder) InPlaceOf(old string, parent *Stat) CreateBuilder {
	b.inPlaceOf = &inPlaceArguments{old: old, parent: parent}
	return b
}

// inPlaceArguments has the arguments of InPlaceOf.
type inPlaceArguments struct {
	old    string // as given
	full   string // as the server knows it
	parent *Stat
}

// checkArguments returns the error of invalid arguments, and sets the full path.
func (p *inPlaceArguments) checkArguments(b CreateBuilder) (err error) {
	switch {
	case p.parent == nil:
		return badArguments("InPlaceOf needs the Stat of the parent")
	case p.parent.DataLength > 0:
		return badArguments("InPlaceOf needs a parent without data; this one has %d bytes", p.parent.DataLength)
	case !b.protection, b.orSet, b.node.mode == Container, b.node.ttl > 0:
		return badArguments("InPlaceOf needs WithProtection, and neither OrSetData nor a container or TTL node")
	}
	p.full, err = b.c.fullPath(p.old)
	return err
}

// reusedGUID is the UUID of the old node.
func (p *inPlaceArguments) reusedGUID() string {
	if guid, _, ok := zkpath.ParseProtected(zkpath.Base(p.old)); ok {
		return guid
	}
	return zkpath.NewGUID()
}

// transactionCall makes the transaction with that create. The deletion is first, since its refusal is the most
// specific.
func (p *inPlaceArguments) transactionCall(create jute.MultiOp, parent string) *wire.Call {
	none := &jute.SetDataRequest{Path: parent, Data: []byte{}, Version: p.parent.Version}
	return newCall(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{
		{Op: jute.OpDelete, Request: &jute.PathVersionRequest{Path: p.full, Version: -1}},
		create,
		{Op: jute.OpSetData, Request: none},
	}})
}

// decodeResults reads the answer: the full path of the new node, and the Stat of the parent.
func (p *inPlaceArguments) decodeResults(body []byte) (full string, parent Stat, err error) {
	const ops, deletion = 3, 0
	res := jute.MultiResponse{Asked: ops}
	if err := decodeRecord(body, res.Fields); err != nil {
		return "", parent, err
	}
	if len(res.Results) != ops {
		return "", parent, fmt.Errorf("%w: %d results for %d operations", ErrMalformedReply, len(res.Results), ops)
	}
	for i, r := range res.Results {
		switch {
		case r.Op != jute.OpError || r.Err == jute.CodeOK:
		case i == deletion && r.Err == jute.CodeNoNode:
			return "", parent, fmt.Errorf("%w: %s", ErrNodeDeleted, p.old)
		default:
			return "", parent, codeError(r.Err)
		}
	}
	return res.Results[1].Path, Stat(res.Results[2].Stat), nil
}
