package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// nodeState is the state of a protected create: where its node may be.
type nodeState int8

const (
	nodeAbsent      nodeState = iota // there is no node, and no request in flight that could create it
	nodeInFlight                     // the create is in flight
	nodeUnknown                      // the create's outcome is unknown
	nodeSought                       // the client looks for the node, in the session of the create
	nodeSoughtLater                  // the client looks for the node, in a later session
	nodeReturned                     // the node exists and is the operation's result
	nodeUnwanted                     // the create is in flight, and its caller has stopped waiting
	nodeGivenUp                      // the operation has ended without a node for its caller
)

// nodeEvent is an event in the course of a protected create.
type nodeEvent int8

const (
	createSent      nodeEvent = iota
	createSucceeded           // the reply is a success
	createRefused             // the reply is an error
	createUnknown             // the outcome is unknown
	retryInSession            // another try begins, in the session of the last one
	retryInLater              // another try begins, in a later session; the node is not ephemeral
	retryEphemeral            // another try begins, in a later session; the earlier session's end deletes the node
	nodeFound                 // the search has found the node
	nodeNotFound              // the search has proved that there is no node
	searchFailed
	createAbandoned // the caller has stopped waiting
	createFailed    // the operation ends with an error
)

// nodeAction is the action of a transition.
type nodeAction int8

const (
	nodeNoAction       nodeAction = iota
	nodeSearch                    // look for the node
	nodeNewName                   // use another UUID for the next request, so that a node of the old name is ignored
	nodeCleanupNewName            // nodeCleanupSearch for the old name, then nodeNewName
	nodeCleanupSearch             // queue a clean-up that looks for the node and deletes it
	nodeCleanupRemove             // queue a clean-up that deletes the node
)

// nodeTransitions has the transitions of a protected create. An event without an entry changes nothing.
var nodeTransitions = map[transitionKey[nodeState, nodeEvent]]transitionResult[nodeState, nodeAction]{
	{nodeAbsent, createSent}:        {nodeInFlight, nodeNoAction},
	{nodeAbsent, createFailed}:      {nodeGivenUp, nodeNoAction},
	{nodeInFlight, createSucceeded}: {nodeReturned, nodeNoAction},
	{nodeInFlight, createRefused}:   {nodeAbsent, nodeNoAction},
	{nodeInFlight, createUnknown}:   {nodeUnknown, nodeNoAction},
	{nodeInFlight, createAbandoned}: {nodeUnwanted, nodeNoAction},
	{nodeInFlight, createFailed}:    {nodeGivenUp, nodeNoAction}, // the request was cancelled unsent
	{nodeUnknown, retryInSession}:   {nodeSought, nodeSearch},
	{nodeUnknown, retryInLater}:     {nodeSoughtLater, nodeSearch},
	{nodeUnknown, retryEphemeral}:   {nodeAbsent, nodeNewName}, // CURATOR-604: not an earlier session's node
	{nodeUnknown, createFailed}:     {nodeGivenUp, nodeCleanupSearch},
	{nodeSought, nodeFound}:         {nodeReturned, nodeNoAction},
	{nodeSought, nodeNotFound}:      {nodeAbsent, nodeNoAction},
	{nodeSought, searchFailed}:      {nodeUnknown, nodeNoAction},
	{nodeSoughtLater, nodeFound}:    {nodeReturned, nodeNoAction},
	{nodeSoughtLater, nodeNotFound}: {nodeAbsent, nodeCleanupNewName}, // the old request may still be executed
	{nodeSoughtLater, searchFailed}: {nodeUnknown, nodeNoAction},
	{nodeUnwanted, createSucceeded}: {nodeGivenUp, nodeCleanupRemove},
	{nodeUnwanted, createRefused}:   {nodeGivenUp, nodeNoAction},
	{nodeUnwanted, createUnknown}:   {nodeGivenUp, nodeCleanupSearch},
}

func (s nodeState) next(ev nodeEvent) (nodeState, nodeAction) {
	if move, ok := nodeTransitions[transitionKey[nodeState, nodeEvent]{s, ev}]; ok {
		return move.state, move.action
	}
	return s, nodeNoAction
}

// protectedCreate is the procedure of a create with protection, and the leftoverTracker of its operation. After a lost
// reply it finds the node by its name, and it lets the clean-ups delete a node that the caller does not wait for.
type protectedCreate struct {
	createProcedure
	guid         string // of the node's name
	state        nodeState
	lastEpoch    *sessionEpoch // the epoch of the last request
	unwantedPath string        // the node's full path, if a late reply has it
}

func (p *protectedCreate) newRequest(e *sessionEpoch) *wire.Call {
	call := p.requestForPath(zkpath.ProtectLast(p.full, p.guid))
	p.lastEpoch = e
	p.applyEvent(createSent)
	return call
}

// applyEvent makes the transition for ev and carries out its action, except nodeSearch: the caller does that, since it
// blocks. cleanupErr is ErrCleanupFull if a clean-up could not be queued.
func (p *protectedCreate) applyEvent(ev nodeEvent) (action nodeAction, cleanupErr error) {
	if p.state, action = p.state.next(ev); action == nodeNoAction {
		return action, nil
	}
	cleanups := &p.c.core.ops.cleanups
	search := nodeCleanup{path: p.parent, guid: p.guid, createEpoch: p.lastEpoch}
	if p.node.mode.isEphemeral() {
		search.boundTo = p.lastEpoch
	}
	switch action {
	case nodeNewName:
		p.guid = zkpath.NewGUID()
	case nodeCleanupNewName:
		cleanupErr = cleanups.addCleanup(search)
		p.guid = zkpath.NewGUID()
	case nodeCleanupSearch:
		cleanupErr = cleanups.addCleanup(search)
	case nodeCleanupRemove:
		cleanupErr = cleanups.addCleanup(nodeCleanup{path: p.unwantedPath, version: -1, boundTo: search.boundTo})
	}
	return action, cleanupErr
}

func (p *protectedCreate) recoverOutcome(
	ctx context.Context, r *operationRun[CreateResult],
) (v CreateResult, done bool, _ error) {
	if action, _ := p.applyEvent(retryEventOf(p.lastEpoch == r.epoch, p.node.mode.isEphemeral())); action != nodeSearch {
		return v, false, nil
	}
	path, stat, err := p.findNode(ctx, r.epoch)
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
		*p.inPlaceOf.parentStat = Stat{}
	}
	return p.newCreateResult(path, stat), true, nil
}

// retryEventOf returns the event of another try. sameSession is true in the session of the last try.
func retryEventOf(sameSession, ephemeral bool) nodeEvent {
	switch {
	case sameSession:
		return retryInSession
	case ephemeral:
		return retryEphemeral
	}
	return retryInLater
}

// findNode returns the full path and Stat of the node that an earlier request has created; an empty path if there is
// none.
func (p *protectedCreate) findNode(ctx context.Context, e *sessionEpoch) (path string, stat Stat, err error) {
	found, err := searchProtected(ctx, e, p.parent, p.guid, e.limitPatience)
	if err != nil {
		return "", stat, err
	}
	for _, path := range found {
		switch stat, err := p.readStat(ctx, e, path); {
		case errors.Is(err, ErrNoNode): // another client has deleted the node since the list
		case err != nil:
			return "", stat, err
		case p.node.mode.isEphemeral() && stat.EphemeralOwner != e.wire.ID():
			// CURATOR-498: an earlier session's node must not be returned.
			_ = p.c.core.ops.cleanups.addCleanup(nodeCleanup{path: path, version: -1})
		default:
			return path, stat, nil
		}
	}
	return "", stat, nil
}

// readStat returns the Stat of a node for which the client has READ or ADMIN permission. Servers since 3.8.4 and 3.9.2
// refuse exists without READ; getACL, whose reply has the same Stat, needs only one of the two permissions.
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

// createEventOf returns the event for the outcome of the create's request.
func createEventOf(err error) nodeEvent {
	switch {
	case err == nil:
		return createSucceeded
	case errors.Is(err, ErrOutcomeUnknown):
		return createUnknown
	}
	return createRefused
}

func (p *protectedCreate) takeLateReply(reply wire.Reply) {
	err := replyError(reply)
	p.applyEvent(createAbandoned)
	if err == nil {
		p.unwantedPath, _, err = p.decodeCreated(reply.Body)
	}
	p.recordOutcome(err) // no caller is left to get ErrCleanupFull
}

func (p *protectedCreate) settleFailure(err error, abandoned bool) error {
	if abandoned {
		return err
	}
	if _, cleanupErr := p.applyEvent(createFailed); cleanupErr != nil {
		err = fmt.Errorf("%w; %w", err, cleanupErr)
	}
	return err
}

// InPlaceOf replaces the node at old by the new node, in one transaction that also counts the new node's siblings. It
// is for layouts in which the owner of a node changes from one role to the next, such as from waiter to holder. For
// authors of recipes.
//
// The transaction deletes the node at old, whatever its version, creates the new one, and sets the parent's data to
// none. That change has only one purpose: its reply has the parent's Stat right after the create. So NumChildren counts
// the children at that moment, and Mzxid is the Czxid of the new node.
//
// parent is the parent's Stat, as a list has returned it. The parent must not have data (else the create fails with
// ErrBadArguments, and nothing is sent), and must still have this version (else ErrBadVersion). The client needs WRITE
// permission on it (else ErrNoAuth). When the create succeeds, *parent is the Stat in the reply. If the reply was lost
// and the node was found by its name, *parent is zero. oldParent may be nil; otherwise the parent of the node at old must
// still have that version, too.
//
// If the node at old does not exist, the create fails with ErrNodeDeleted. The new node must have protection (else
// ErrBadArguments). If the name at old has a UUID, the new node's name has the same, so that other clients can recognize
// it. Then the two nodes must not have the same parent (else ErrBadArguments), since after a lost reply they could not be
// distinguished. A missing parent is not created.
func (b CreateBuilder) InPlaceOf(old string, oldParent, parent *Stat) CreateBuilder {
	b.inPlaceOf = &inPlaceArguments{oldPath: old, oldParentStat: oldParent, parentStat: parent}
	return b
}

// inPlaceArguments has the arguments of InPlaceOf.
type inPlaceArguments struct {
	oldPath       string // as given by the caller
	oldFull       string // with chroot and namespace
	oldParentStat *Stat  // nil: it is not checked
	parentStat    *Stat
}

// checkArguments returns the error of invalid arguments, and sets oldFull. path is the path of the new node.
func (p *inPlaceArguments) checkArguments(b CreateBuilder, path string) (err error) {
	_, _, reused := zkpath.ParseProtected(zkpath.Base(p.oldPath))
	switch {
	case p.parentStat == nil:
		return badArguments("InPlaceOf needs the Stat of the parent")
	case p.parentStat.DataLength > 0:
		return badArguments("InPlaceOf needs a parent without data; this one has %d bytes", p.parentStat.DataLength)
	case !b.protection, b.orSet, b.node.mode == Container, b.node.ttl > 0:
		return badArguments("InPlaceOf needs WithProtection, and neither OrSetData nor a container or TTL node")
	case reused && zkpath.Parent(p.oldPath) == zkpath.Parent(path): // findNode would find the old node
		return badArguments("InPlaceOf needs an old node with another parent, if its name has a UUID: %s", p.oldPath)
	}
	p.oldFull, err = b.c.fullPath(p.oldPath)
	return err
}

// reusedGUID returns the UUID in the old node's name; a new one if that has none.
func (p *inPlaceArguments) reusedGUID() string {
	if guid, _, ok := zkpath.ParseProtected(zkpath.Base(p.oldPath)); ok {
		return guid
	}
	return zkpath.NewGUID()
}

// transactionCall returns the request of the transaction. If several of its operations would be refused, the reply has
// only the first refusal. So the deletion is first: its refusal is the most specific.
func (p *inPlaceArguments) transactionCall(create jute.MultiOp, parent string) *wire.Call {
	none := &jute.SetDataRequest{Path: parent, Data: []byte{}, Version: p.parentStat.Version}
	ops := []jute.MultiOp{
		{Op: jute.OpDelete, Request: &jute.PathVersionRequest{Path: p.oldFull, Version: -1}},
		create,
		{Op: jute.OpSetData, Request: none},
	}
	if old := p.oldParentStat; old != nil {
		check := &jute.PathVersionRequest{Path: zkpath.Parent(p.oldFull), Version: old.Version}
		ops = append(ops, jute.MultiOp{Op: jute.OpCheck, Request: check})
	}
	return newCall(jute.OpMulti, &jute.MultiRequest{Ops: ops})
}

// decodeResults decodes the reply: the full path of the new node, and the Stat of the parent.
func (p *inPlaceArguments) decodeResults(body []byte) (full string, parent Stat, err error) {
	const deletion = 0
	ops := 3
	if p.oldParentStat != nil {
		ops++
	}
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
			return "", parent, fmt.Errorf("%w: %s", ErrNodeDeleted, p.oldPath)
		default:
			return "", parent, codeError(r.Err)
		}
	}
	return res.Results[1].Path, Stat(res.Results[2].Stat), nil
}
