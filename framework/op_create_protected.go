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
var nodeMoves = map[when[nodeState, nodeEvent]]then[nodeState, nodeAction]{
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
	if move, ok := nodeMoves[when[nodeState, nodeEvent]{s, ev}]; ok {
		return move.state, move.action
	}
	return s, nodeNoAction
}

// protected is a create that finds its node again after a lost reply, and removes the node if the caller has stopped
// waiting for it. It is the debt of its operation.
type protected struct {
	creation
	guid  string
	state nodeState
	epoch *epoch // the epoch of the last request
	made  string // the node's path, if its caller has left
}

func (p *protected) request(e *epoch) *wire.Call {
	call := p.requestFor(zkpath.ProtectLast(p.full, p.guid))
	p.epoch = e
	p.apply(createSent)
	return call
}

// apply makes the transition for ev and carries out its action, except for nodeSearch, which is left to the
// caller. full is ErrCleanupFull if a clean-up was refused.
func (p *protected) apply(ev nodeEvent) (action nodeAction, full error) {
	if p.state, action = p.state.next(ev); action == nodeNoAction {
		return action, nil
	}
	cleanups := &p.c.core.ops.cleanups
	search := cleanup{path: p.parent, guid: p.guid, origin: p.epoch}
	if p.node.mode.ephemeral() {
		search.bound = p.epoch
	}
	switch action {
	case nodeRename:
		p.guid = zkpath.NewGUID()
	case nodeLeaveRename:
		full = cleanups.add(search)
		p.guid = zkpath.NewGUID()
	case nodeLeaveSearch:
		full = cleanups.add(search)
	case nodeLeave:
		full = cleanups.add(cleanup{path: p.made, version: -1, bound: search.bound})
	}
	return action, full
}

func (p *protected) recover(ctx context.Context, r *run[CreateResult]) (v CreateResult, _ bool, _ error) {
	if action, _ := p.apply(anotherTry(p.epoch == r.e, p.node.mode.ephemeral())); action != nodeSearch {
		return v, false, nil
	}
	path, stat, err := p.find(ctx, r.e)
	switch {
	case err != nil:
		p.apply(searchFailed)
		if !errors.Is(err, ErrOutcomeUnknown) { // the outcome is still unknown
			err = fmt.Errorf("%w (looking for the node failed: %w)", ErrConnectionLoss, err)
		}
		return v, false, err
	case path == "":
		p.apply(nodeNotFound)
		return v, false, nil
	}
	p.apply(nodeFound)
	if p.inPlaceOf != nil {
		*p.inPlaceOf.parent = Stat{}
	}
	return p.result(path, stat), true, nil
}

// anotherTry returns the event of another try, in the session of the last one or in a later session.
func anotherTry(here, ephemeral bool) nodeEvent {
	switch {
	case here:
		return tryHere
	case ephemeral:
		return tryAfterEnd
	}
	return tryElsewhere
}

// find returns the node that an earlier request has made; an empty path if there is none.
func (p *protected) find(ctx context.Context, e *epoch) (path string, stat Stat, err error) {
	found, err := search(ctx, e, p.parent, p.guid, p.c.expiring)
	if err != nil {
		return "", stat, err
	}
	for _, path := range found {
		switch stat, err := p.statOf(ctx, e, path); {
		case errors.Is(err, ErrNoNode): // the node was made, and another client has deleted it since
		case err != nil:
			return "", stat, err
		case p.node.mode.ephemeral() && stat.EphemeralOwner != e.wire.ID():
			_ = p.c.core.ops.cleanups.add(cleanup{path: path, version: -1}) // CURATOR-498
		default:
			return path, stat, nil
		}
	}
	return "", stat, nil
}

// statOf returns the Stat of a node that exists, if the client has READ or ADMIN: since 3.8.4 and 3.9.2 exists requires
// READ, and getACL, whose reply has the same Stat, one of the two.
func (p *protected) statOf(ctx context.Context, e *epoch, path string) (Stat, error) {
	var there jute.StatResponse
	err := ask(ctx, e, p.c.expiring(readCall(jute.OpExists, path)), &there)
	if !errors.Is(err, ErrNoAuth) {
		return Stat(there.Stat), err
	}
	var res jute.GetACLResponse
	err = ask(ctx, e, p.c.expiring(newCall(jute.OpGetACL, &jute.PathRequest{Path: path})), &res)
	return Stat(res.Stat), err
}

func (p *protected) answered(err error) { p.apply(createEventOf(err)) }

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

func (p *protected) late(reply wire.Reply) {
	err := replyError(reply)
	p.apply(callerLeft)
	if err == nil {
		p.made, _, err = p.answer(reply.Body)
	}
	p.answered(err) // no caller is left to get ErrCleanupFull
}

func (p *protected) failed(err error, left bool) error {
	if left {
		return err
	}
	if _, full := p.apply(createFailed); full != nil {
		err = fmt.Errorf("%w; %w", err, full)
	}
	return err
}

// search looks for a protected node below parent in one flight: a committed write of our own, then the list.
// Because of the write a list without the node is conclusive: by then every request that this session has
// sent before has been decided, and its effect is visible. It matters only that the write went through the
// ensemble, not how the server answers it: a failed check is enough.
//
// search returns the full paths of the nodes, in the list's order. There are several only if a create was
// repeated that should not have been.
func search(ctx context.Context, e *epoch, parent, guid string, expire expiry) ([]string, error) {
	write, list := searchCalls(parent)
	replies, err := awaitAll(ctx, e, expire(write), expire(list))
	if err != nil {
		return nil, err
	}
	wrote, listed := replies[0], replies[1]
	if err := inconclusive(wrote, listed); err != nil {
		return nil, unlessNoNode(err)
	}
	var children jute.Children2Response
	if err := decode(listed.Body, children.Fields); err != nil {
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

// inconclusive returns the reason why the replies to a search do not show which nodes exist, nil if they do. It is
// ErrNoNode if the parent does not exist.
func inconclusive(wrote, listed wire.Reply) error {
	if err := replyError(wrote); err != nil && !isAny(err, ErrNoNode, ErrNoAuth) {
		return err
	}
	if err := replyError(listed); err != nil {
		return err
	}
	if wrote.Link != listed.Link {
		return ErrConnectionLoss // the list may come from a member that has not seen the write
	}
	return nil
}
