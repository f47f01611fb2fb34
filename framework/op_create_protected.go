package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	found, err := searchProtected(ctx, e, p.parent, p.guid, p.c.limitPatience)
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
	err := sendAndDecode(ctx, e, p.c.limitPatience(readCall(jute.OpExists, path)), &there)
	if !errors.Is(err, ErrNoAuth) {
		return Stat(there.Stat), err
	}
	var res jute.GetACLResponse
	err = sendAndDecode(ctx, e, p.c.limitPatience(newCall(jute.OpGetACL, &jute.PathRequest{Path: path})), &res)
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

// searchProtected looks for a protected node below parent in one flight: a committed write of our own, then the
// list. Because of the write a list without the node is conclusive: by then every request that this session has
// sent before has been decided, and its effect is visible. It matters only that the write went through the
// ensemble, not how the server answers it: a failed check is enough.
//
// searchProtected returns the full paths of the nodes, in the list's order. There are several only if a create was
// repeated that should not have been.
func searchProtected(ctx context.Context, e *sessionEpoch, parent, guid string, expire patienceSetter) ([]string, error) {
	write, list := searchCalls(parent)
	replies, err := awaitReplies(ctx, e, expire(write), expire(list))
	if err != nil {
		return nil, err
	}
	wrote, listed := replies[0], replies[1]
	if err := inconclusiveReason(wrote, listed); err != nil {
		return nil, ignoreNoNode(err)
	}
	var children jute.Children2Response
	if err := decodeRecord(listed.Body, children.Fields); err != nil {
		return nil, err
	}
	var found []string
	prefix := zkpath.Protect(guid, "")
	for _, name := range children.Children {
		if strings.HasPrefix(name, prefix) {
			found = append(found, zkpath.Join(parent, name))
		}
	}
	return found, nil
}

// searchCalls returns the requests of a search.
func searchCalls(parent string) (write, list *wire.Call) {
	write = &wire.Call{Op: jute.OpMulti, Body: jute.Checks(parent)}
	return write, readCall(jute.OpGetChildren2, parent)
}

// inconclusiveReason returns the reason why the replies to a search do not show which nodes exist, nil if they do.
// It is ErrNoNode if the parent does not exist.
func inconclusiveReason(wrote, listed wire.Reply) error {
	if err := replyError(wrote); err != nil && !matchesAny(err, ErrNoNode, ErrNoAuth) {
		return err
	}
	if err := replyError(listed); err != nil {
		return err
	}
	if wrote.Connection != listed.Connection {
		return ErrConnectionLoss // the list may come from a member that has not seen the write
	}
	return nil
}
