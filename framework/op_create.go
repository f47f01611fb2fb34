package framework

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// CreateResult is the result of Create in the background.
type CreateResult struct {
	// Path is the path of the new node, with the protection prefix and the sequence number.
	Path string
	Stat Stat
}

// CreateBuilder creates a node. It is a value: each method returns a changed copy, in any order.
type CreateBuilder struct {
	c            *Client
	node         nodeSettings
	parentMode   CreateMode
	orSetVersion int32
	withParents  bool
	aclToParents bool
	protection   bool
	orSet        bool
	idempotent   bool
	storeStat    *Stat
	inPlaceOf    *inPlaceArguments // of InPlaceOf
}

// Create begins to create a node. Corresponds to Curator's create.
func (c *Client) Create() CreateBuilder { return CreateBuilder{c: c, orSetVersion: -1} }

// WithMode sets the kind of node. Default [Persistent].
func (b CreateBuilder) WithMode(mode CreateMode) CreateBuilder { b.node.mode = mode; return b }

// WithTTL sets the time after the last change at which the servers delete a node of a TTL mode, in whole milliseconds,
// if it has no children then. Servers look for such nodes once a minute (znode.container.checkIntervalMs), so the node
// may live that much longer.
func (b CreateBuilder) WithTTL(ttl time.Duration) CreateBuilder { b.node.ttl = ttl; return b }

// WithACL sets the node's ACL. Default: the ACL from the client's ACL provider.
func (b CreateBuilder) WithACL(acl ...ACL) CreateBuilder {
	b.node.acl = append([]ACL{}, acl...)
	return b
}

// ApplyToParents also gives the ACL of WithACL to the parents that this operation creates.
func (b CreateBuilder) ApplyToParents() CreateBuilder { b.aclToParents = true; return b }

// CreatingParentsIfNeeded creates missing parents, as persistent nodes without data. The client first tries to create
// the node itself, so if the parents exist this costs no request.
func (b CreateBuilder) CreatingParentsIfNeeded() CreateBuilder {
	b.withParents, b.parentMode = true, Persistent
	return b
}

// CreatingParentContainersIfNeeded creates missing parents as containers: the servers delete them some time after their
// last child was deleted. If that happens before the node is created, the client creates the parents again, up to a
// limit.
func (b CreateBuilder) CreatingParentContainersIfNeeded() CreateBuilder {
	b.withParents, b.parentMode = true, Container
	return b
}

// WithProtection puts "_c_", a new UUID and "-" in front of the node's name. If the reply to the create is lost, the
// client finds the node by that name, so that there is no second node. If the operation has failed by then or its
// context has ended, the client deletes the node in the background, however long that takes. Corresponds to Curator's
// withProtection; the names have exactly the same form.
func (b CreateBuilder) WithProtection() CreateBuilder { b.protection = true; return b }

// OrSetData makes the operation set the data if the node exists already, instead of failing with ErrNodeExists.
func (b CreateBuilder) OrSetData() CreateBuilder { return b.OrSetDataVersion(-1) }

// OrSetDataVersion is OrSetData, but the operation fails with ErrBadVersion if the existing node has another version. -1
// means any version; a smaller number is ErrBadArguments.
func (b CreateBuilder) OrSetDataVersion(version int32) CreateBuilder {
	b.orSet, b.orSetVersion = true, version
	return b
}

// Idempotent counts it as success that an earlier try of this call created the node. When a try's reply was lost
// and the repeat fails with ErrNodeExists, the client reads the node. If the node is as that try would have
// left it (new since the call began, version 0, the same data, of this session if the mode is Ephemeral), the
// call succeeds. Otherwise it fails as without Idempotent.
//
// A node that existed before the call is ErrNodeExists, whatever its data: of several clients that create one node, one
// succeeds. An exception: the call also succeeds if another client created exactly the same node, while the reply was
// lost or so shortly before that this client had not seen the transaction. To distinguish the nodes, put the client's name
// into the data, or use WithProtection. Idempotent needs permission to read the node.
//
// With OrSetDataVersion the same holds for the change of an existing node, as in [SetDataBuilder.Idempotent]. A
// sequential create needs WithProtection instead, which makes any create idempotent within its session. Curator's
// idempotent accepts any node with the same data, whichever client created it and when.
func (b CreateBuilder) Idempotent() CreateBuilder { b.idempotent = true; return b }

// Compressed compresses the data with the client's compression provider, by default gzip.
func (b CreateBuilder) Compressed() CreateBuilder { b.node.compression = compressionOn; return b }

// Uncompressed writes the data as they are, also if the client has [WithCompression].
func (b CreateBuilder) Uncompressed() CreateBuilder { b.node.compression = compressionOff; return b }

// StoringStatIn makes the operation write the node's Stat to stat when it succeeds. In the background, read
// stat only after the operation has ended.
func (b CreateBuilder) StoringStatIn(stat *Stat) CreateBuilder { b.storeStat = stat; return b }

// ForPath creates the node and returns its path, which differs from the given path with protection and in sequential
// modes. Nil data means the client's default data. Errors: ErrNodeExists; ErrNoNode if a parent is missing;
// ErrNoChildrenForEphemerals; and the errors that every operation can return.
//
// The create is repeated as the retry policy allows. After an unknown outcome (the connection was lost before the reply)
// the next step depends on the options:
//
//   - With protection the client looks for the node. In the same session the search is conclusive. An ephemeral node of
//     a session that was lost in the meantime does not count, and a new node is created.
//   - Without protection a sequential create is not repeated, because the second node could not be distinguished from
//     the first: the error is ErrConnectionLoss, and there may be a node.
//   - Any other create is repeated, since there cannot be two nodes of one name. If the repeat fails with
//     ErrNodeExists, the client reads the node, in the same session. If it is older than the call, the error is
//     ErrNodeExists. Otherwise this client or another one may have created it: the error is ErrConnectionLoss, unless
//     Idempotent attributes the node to this call. (Curator returns NodeExists.) With OrSetData the data are just set.
func (b CreateBuilder) ForPath(ctx context.Context, path string, data []byte) (string, error) {
	r, err := runForeground(ctx, b.operation(path, data))
	return r.Path, err
}

// InBackground makes ForPath return immediately. If the reply to a protected create is lost, the client looks for the
// node when the same session is connected again, and sends the create once more if there is no node.
func (b CreateBuilder) InBackground() BackgroundWithData[CreateBuilder, CreateResult] {
	return BackgroundWithData[CreateBuilder, CreateResult]{b}
}

func (b CreateBuilder) checkArguments(path string) error {
	if err := b.node.checkSettings(); err != nil {
		return err
	}
	switch {
	case b.aclToParents && b.node.acl == nil:
		return badArguments("ApplyToParents needs WithACL")
	case b.orSet && b.orSetVersion < -1:
		return badArguments("OrSetDataVersion(%d): give a version from 0, or -1 for any version", b.orSetVersion)
	case b.protection && strings.HasSuffix(path, "/"):
		return badArguments("WithProtection needs a path that ends with a name, since it puts a prefix " +
			"before the name")
	case b.idempotent && b.node.mode.isSequential() && !b.protection:
		return badArguments("Idempotent cannot tell sequential nodes apart; use WithProtection")
	case b.inPlaceOf != nil:
		return b.inPlaceOf.checkArguments(b, path)
	}
	return nil
}

func (b CreateBuilder) operation(path string, data []byte) *operation[CreateResult] {
	full, err := b.c.fullPathOf(path, b.node.mode.isSequential())
	if err == nil {
		err = b.checkArguments(path)
	}
	if err == nil {
		data, err = b.c.encodeNodeData(full, data, b.node.compression)
	}
	atChroot := err == nil && full == b.c.view.chroot
	var create *createProcedure
	var protected *protectedCreate
	if err == nil && b.protection && !atChroot {
		protected = &protectedCreate{createProcedure: createProcedure{CreateBuilder: b}}
		create = &protected.createProcedure
	} else {
		create = &createProcedure{CreateBuilder: b}
	}
	o := &create.op
	o.c, o.name, o.mutates, o.path, o.argumentError = b.c, "create", true, path, err
	if err != nil {
		return o
	}
	create.full, create.parent, create.data = full, zkpath.Parent(full), data
	o.requiredParent, o.procedure = create.parent, create
	switch {
	case atChroot: // a client never creates its own chroot: the request only determines whether the chroot exists
		o.requiredParent, o.mutates = full, false
		o.procedure = functionProcedure[CreateResult]{
			makeRequest: func() *wire.Call { return readCall(jute.OpExists, full) },
			decode:      func(int64, []byte) (r CreateResult, err error) { return r, ErrNodeExists },
			recovery: func(err error) recoveryStep[CreateResult] {
				if !provesExistence(err) {
					return create.recoveryAfter(err)
				}
				if next := create.recoveryAfter(ErrNodeExists); next != nil {
					return next
				}
				return func(context.Context, *operationRun[CreateResult]) (v CreateResult, again bool, _ error) {
					return v, false, ErrNodeExists
				}
			},
		}
	case protected != nil:
		if b.inPlaceOf != nil {
			protected.guid = b.inPlaceOf.reusedGUID()
		} else {
			protected.guid = zkpath.NewGUID()
		}
		o.procedure, o.unknownPolicy, o.leftovers = protected, unknownSearch, protected
	case b.node.mode.isSequential():
		o.unknownPolicy = unknownGiveUp
	default:
		if !b.orSet {
			o.ambiguousErrors = []error{ErrNodeExists}
		}
		if b.idempotent {
			o.unknownPolicy = unknownCompare
		}
	}
	return o
}

// createProcedure is the procedure of a [CreateBuilder].
type createProcedure struct {
	CreateBuilder
	op           operation[CreateResult]
	full, parent string
	data         []byte
}

func (x *createProcedure) newRequest(*sessionEpoch) *wire.Call { return x.requestForPath(x.full) }

// requestForPath makes the request to create the node at path, which is full or its form with the protection prefix.
func (x *createProcedure) requestForPath(path string) *wire.Call {
	if x.inPlaceOf != nil {
		return x.inPlaceOf.transactionCall(x.node.transactionEntry(x.c, path, x.data), x.parent)
	}
	return x.node.createCall(x.c, path, x.data)
}

func (x *createProcedure) decodeReply(_ int64, body []byte) (r CreateResult, err error) {
	full, stat, err := x.decodeCreated(body)
	if err != nil {
		return r, err
	}
	if x.inPlaceOf != nil {
		*x.inPlaceOf.parentStat = stat
		created := stat.Mzxid // the transaction that set the parent's data has also created the node
		stat = Stat{Czxid: created, Mzxid: created, Pzxid: created}
	}
	return x.newCreateResult(full, stat), nil
}

// decodeCreated decodes the reply: the new node's full path, and its Stat, or with InPlaceOf the parent's Stat.
func (x *createProcedure) decodeCreated(body []byte) (full string, stat Stat, err error) {
	if x.inPlaceOf != nil {
		return x.inPlaceOf.decodeResults(body)
	}
	var res jute.Create2Response
	err = decodeRecord(body, res.Fields)
	return res.Path, Stat(res.Stat), err
}

func (x *createProcedure) newCreateResult(full string, stat Stat) CreateResult {
	if x.storeStat != nil {
		*x.storeStat = stat
	}
	return CreateResult{x.c.userPath(full), stat}
}

// recoveryAfter returns the step that helps after err: to set the data of a node that exists, to determine which client
// created that node, or to create parents.
func (x *createProcedure) recoveryAfter(err error) recoveryStep[CreateResult] {
	switch {
	case errors.Is(err, ErrNodeExists) && x.orSet:
		return x.setExisting
	case errors.Is(err, errAmbiguous) && !x.orSet:
		return func(ctx context.Context, r *operationRun[CreateResult]) (CreateResult, bool, error) {
			notExecuted := false
			v, _, err := x.compareNode(ctx, r, err, func(stat Stat, same bool) bool {
				notExecuted = r.precedesTries(stat.Czxid)
				return x.idempotent && same && x.mayHaveMade(stat, r)
			})
			if notExecuted {
				return r.clearUnknownOutcome()
			}
			return v, false, err
		}
	case errors.Is(err, ErrNoNode) && (x.withParents || x.c.view.namespace != ""):
		return func(ctx context.Context, r *operationRun[CreateResult]) (v CreateResult, again bool, _ error) {
			again, failed := x.createParents(ctx, r.epoch)
			if failed == nil && !again {
				failed = err
			}
			return v, again, failed
		}
	}
	return nil
}

// createParents creates missing parents; without withParents only a missing root of the namespace. again reports
// whether the create may succeed now.
func (x *createProcedure) createParents(ctx context.Context, e *sessionEpoch) (again bool, err error) {
	c := x.c
	if !x.withParents {
		made, err := c.createRoot(ctx, e)
		return made || err == nil && x.parent == c.view.prefix, err
	}
	p := parentOptions{mode: x.parentMode}
	if x.aclToParents {
		p.acl = x.node.acl
	}
	if x.parentMode != Container { // the root is a container, whatever mode the parents below have
		if _, err := c.createRoot(ctx, e); err != nil {
			return false, err
		}
	}
	_, err = c.createWithAncestors(ctx, e, x.parent, p)
	return err == nil, err
}

// setExisting is the recovery step of OrSetData: it sets the data of the existing node. After an unknown outcome of that
// request the outcome of the whole operation counts as unknown, also in later tries.
func (x *createProcedure) setExisting(
	ctx context.Context, r *operationRun[CreateResult],
) (v CreateResult, again bool, err error) {
	var res jute.StatResponse
	err = sendAndDecode(ctx, r.epoch, r.epoch.limitPatience(setDataCall(x.full, x.data, x.orSetVersion)), &res)
	if errors.Is(err, ErrOutcomeUnknown) {
		r.unknownIn = r.epoch
	}
	switch {
	case err == nil:
		return x.newCreateResult(x.full, Stat(res.Stat)), false, nil
	case errors.Is(err, ErrNoNode): // deleted in between: it can be created now
		return v, true, nil
	case !errors.Is(err, ErrBadVersion) || r.unknownIn == nil:
		return v, false, err
	}
	notExecuted := false
	v, exists, err := x.compareNode(ctx, r, &ambiguousError{ErrBadVersion, err}, func(stat Stat, same bool) bool {
		notExecuted = provesNotSet(r, stat, x.orSetVersion, same)
		maySet := stat.Version == x.orSetVersion+1 && stat.Mzxid > r.zxidBefore
		return x.idempotent && same && (maySet || x.mayHaveMade(stat, r))
	})
	switch {
	case notExecuted:
		return r.clearUnknownOutcome()
	case !exists && x.idempotent:
		return v, true, nil
	}
	return v, false, err
}

// compareNode is [Client.compareNode] with a CreateResult.
func (x *createProcedure) compareNode(
	ctx context.Context, r *operationRun[CreateResult], ambiguous error, ours func(stat Stat, same bool) bool,
) (v CreateResult, exists bool, _ error) {
	stat, exists, err := x.c.compareNode(ctx, r.epoch, x.full, x.data, ambiguous, ours)
	if err == nil {
		v = x.newCreateResult(x.full, stat)
	}
	return v, exists, err
}

// mayHaveMade reports whether a try of this create may have made the node with this Stat, in the current session of r.
func (x *createProcedure) mayHaveMade(stat Stat, r *operationRun[CreateResult]) bool {
	owner := int64(0)
	if x.node.mode.isEphemeral() {
		owner = r.epoch.wire.ID()
	}
	return stat.Version == 0 && stat.Czxid > r.zxidBefore && stat.EphemeralOwner == owner
}

// CreateContainers creates the node at path and its missing ancestors, as containers: the servers delete them some time
// after their last child was deleted. Nodes that exist already are not changed. It is repeated as the retry policy
// allows, which does no harm. Corresponds to Curator's createContainers and EnsureContainers.
func (c *Client) CreateContainers(ctx context.Context, path string) error {
	return c.ensureNode(ctx, "createContainers", path, parentOptions{mode: Container, requested: 1})
}

// Ensure creates the node at path and its missing ancestors, as persistent nodes without data. Nodes that exist already
// are not changed. If all of them exist, the usual case, it costs one request. It is repeated as the retry policy
// allows, which does no harm. Corresponds to Curator's ZKPaths.mkdirs.
func (c *Client) Ensure(ctx context.Context, path string) error {
	return c.ensureNode(ctx, "ensure", path, parentOptions{mode: Persistent, requested: 1})
}

// EnsureParents is Ensure for the ancestors of the node at path, without the node. [WithParentLevels] limits it. For
// authors of recipes.
func (c *Client) EnsureParents(ctx context.Context, path string) error {
	return c.ensureNode(ctx, "ensure", zkpath.Parent(path), parentOptions{mode: Persistent})
}

// ensureNode creates the node at path and its missing ancestors, as the operation with this name.
func (c *Client) ensureNode(ctx context.Context, name, path string, p parentOptions) error {
	full, err := c.fullPath(path)
	_, err = runForeground(ctx, &operation[struct{}]{
		c: c, name: name, mutates: true, path: path, argumentError: err,
		procedure: functionProcedure[struct{}]{decode: decodeNothing, makeRequest: func() *wire.Call {
			if full == c.view.chroot || p.requested == 0 {
				// A client never creates its own chroot, and WithParentLevels may forbid a node that was not requested.
				return readCall(jute.OpExists, full)
			}
			return c.directoryCall(full, p, true)
		}, recovery: func(err error) recoveryStep[struct{}] {
			if !matchesAny(err, ErrNodeExists, ErrNoNode) && !(full == c.view.chroot && provesExistence(err)) {
				return nil
			}
			return func(ctx context.Context, r *operationRun[struct{}]) (v struct{}, again bool, failed error) {
				if errors.Is(err, ErrNoNode) {
					_, failed = c.createWithAncestors(ctx, r.epoch, full, p)
				}
				return v, false, failed
			}
		}},
	})
	return err
}
