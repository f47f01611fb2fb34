package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// CreateMode is the kind of node to create. Corresponds to CreateMode of ZooKeeper.
type CreateMode int32

const (
	// Persistent nodes stay until they are deleted. Default.
	Persistent = CreateMode(jute.ModePersistent)
	// Ephemeral nodes go with the session. They have no children.
	Ephemeral = CreateMode(jute.ModeEphemeral)
	// PersistentSequential nodes get a number behind their name that grows from node to node below one parent: ten digits.
	PersistentSequential = CreateMode(jute.ModePersistentSequential)
	// EphemeralSequential is both.
	EphemeralSequential = CreateMode(jute.ModeEphemeralSequential)
	// Container nodes are removed by the server some time after their last child has gone.
	Container = CreateMode(jute.ModeContainer)
	// PersistentTTL nodes are removed by the server when they have no children and were not changed for a time, see WithTTL. The server must
	// have been started with zookeeper.extendedTypesEnabled.
	PersistentTTL = CreateMode(jute.ModePersistentTTL)
	// PersistentSequentialTTL is both.
	PersistentSequentialTTL = CreateMode(jute.ModePersistentSequentialTTL)
)

var createModeNames = [...]string{"Persistent", "Ephemeral", "PersistentSequential", "EphemeralSequential", "Container", "PersistentTTL",
	"PersistentSequentialTTL"}

func (m CreateMode) String() string {
	if m.valid() {
		return createModeNames[m]
	}
	return fmt.Sprintf("CreateMode(%d)", int32(m))
}

func (m CreateMode) valid() bool { return m >= 0 && int(m) < len(createModeNames) }

// IsEphemeral says whether nodes of this mode go with the session.
func (m CreateMode) IsEphemeral() bool { return m == Ephemeral || m == EphemeralSequential }

// IsSequential says whether the server appends a number to the name.
func (m CreateMode) IsSequential() bool {
	return m == PersistentSequential || m == EphemeralSequential || m == PersistentSequentialTTL
}

func (m CreateMode) hasTTL() bool { return m == PersistentTTL || m == PersistentSequentialTTL }

// maxTTL is the longest time that fits into the server's encoding of TTL nodes.
const maxTTL = 0xffffffffff * time.Millisecond

// node is what creates in and outside of transactions have in common.
type node struct {
	mode CreateMode
	ttl  time.Duration
	acl  []ACL // nil: what the provider says
	pack packing
}

func (n node) fault() error {
	switch {
	case !n.mode.valid():
		return badArguments("unknown mode %v", n.mode)
	case n.mode.hasTTL() && (n.ttl < time.Millisecond || n.ttl > maxTTL):
		return badArguments("mode %v needs WithTTL with a time from 1ms to %v, not %v", n.mode, maxTTL, n.ttl)
	case n.ttl%time.Millisecond != 0:
		return badArguments("WithTTL of %v: servers count whole milliseconds", n.ttl)
	case !n.mode.hasTTL() && n.ttl != 0:
		return badArguments("WithTTL needs the mode PersistentTTL or PersistentSequentialTTL, not %v", n.mode)
	case n.acl != nil && len(n.acl) == 0:
		return badArguments("WithACL without an ACL: a node without one does not exist")
	}
	return nil
}

// request returns the operation and its record; data are as they go out. Plain modes use create2, whose answer has the Stat.
func (n node) request(c *Client, full string, data []byte) jute.MultiOp {
	acl := wireACL(n.acl)
	if n.acl == nil {
		acl = c.aclFor(full)
	}
	req := jute.CreateRequest{Path: full, Data: data, ACL: acl, Flags: int32(n.mode)}
	switch {
	case n.mode == Container:
		return jute.MultiOp{Op: jute.OpCreateContainer, Request: &req}
	case n.mode.hasTTL():
		return jute.MultiOp{Op: jute.OpCreateTTL, Request: &jute.CreateTTLRequest{CreateRequest: req, TTL: n.ttl.Milliseconds()}}
	}
	return jute.MultiOp{Op: jute.OpCreate2, Request: &req}
}

// CreateResult is what Create returns in the background.
type CreateResult struct {
	// Path is that of the node made: with the protection prefix and the sequence number.
	Path string
	Stat Stat
}

// CreateBuilder creates a node. It is a value: each method returns a changed copy, in any order.
type CreateBuilder struct {
	c          *Client
	node       node
	parents    bool
	parentMode CreateMode
	toParents  bool
	protection bool
	orSet      bool
	orSetVer   int32
	again      bool
	stat       *Stat
}

// Create begins to create a node, a persistent one unless told otherwise. Corresponds to Curator's create.
func (c *Client) Create() CreateBuilder { return CreateBuilder{c: c, orSetVer: -1} }

// WithMode says what kind of node.
func (b CreateBuilder) WithMode(mode CreateMode) CreateBuilder { b.node.mode = mode; return b }

// WithTTL says how long a node of a TTL mode lives after its last change. Whole milliseconds.
func (b CreateBuilder) WithTTL(ttl time.Duration) CreateBuilder { b.node.ttl = ttl; return b }

// WithACL gives the node's ACL. Default: what the client's ACL provider says.
func (b CreateBuilder) WithACL(acl ...ACL) CreateBuilder {
	b.node.acl = append([]ACL{}, acl...)
	return b
}

// ApplyToParents gives the ACL of WithACL to parents that are created, too.
func (b CreateBuilder) ApplyToParents() CreateBuilder { b.toParents = true; return b }

// CreatingParentsIfNeeded makes missing parents, as persistent nodes without data. The node is tried first: when the parents are there it
// costs nothing.
func (b CreateBuilder) CreatingParentsIfNeeded() CreateBuilder {
	b.parents, b.parentMode = true, Persistent
	return b
}

// CreatingParentContainersIfNeeded makes missing parents, as containers: the server removes them when their last child has gone. When it
// does so between our making the parent and making the node, the parents are made again, up to a limit.
func (b CreateBuilder) CreatingParentContainersIfNeeded() CreateBuilder {
	b.parents, b.parentMode = true, Container
	return b
}

// WithProtection puts "_c_", a new UUID and "-" in front of the node's name. With that a create whose reply is lost is found again: it is
// neither made twice nor left behind. When the caller has left meanwhile (its context ended), or the operation has finally failed, the
// client removes the node behind its back, for as long as it takes.
//
// Corresponds to Curator's withProtection, to the letter of the name.
func (b CreateBuilder) WithProtection() CreateBuilder { b.protection = true; return b }

// OrSetData sets the data of a node that exists already, instead of failing with ErrNodeExists.
func (b CreateBuilder) OrSetData() CreateBuilder { return b.OrSetDataVersion(-1) }

// OrSetDataVersion is OrSetData for a node of this version only; ErrBadVersion otherwise. -1 is any version, less is ErrBadArguments.
func (b CreateBuilder) OrSetDataVersion(version int32) CreateBuilder {
	b.orSet, b.orSetVer = true, version
	return b
}

// Idempotent forgives what a try of this same call may have done: when a try's reply was lost and the repeat meets ErrNodeExists, the node is read, and if
// it is as that try would have left it (new since the call began, version 0, the same data, of this session if the mode is Ephemeral), that is the result.
// Else the error is the one of an unknown outcome, as without Idempotent. A node that was there before is ErrNodeExists, whatever is in it: of several
// clients that create one node, one succeeds. (Somebody else may create the very same while the reply is lost, or so shortly before the call that this
// client had not heard of it. Where that must be told apart, put the client's name into the data, or use WithProtection.) It needs the right to read the
// node.
//
// With OrSetDataVersion it is the setting that is idempotent, as with SetData. A sequential create needs WithProtection instead, which makes any create
// idempotent within its session.
//
// Curator's idempotent takes any node with the same data for success, whoever made it and when.
func (b CreateBuilder) Idempotent() CreateBuilder { b.again = true; return b }

// Compressed packs the data with the client's compression provider, gzip unless told otherwise.
func (b CreateBuilder) Compressed() CreateBuilder { b.node.pack = packYes; return b }

// Uncompressed writes the data as they are, also with [WithCompression].
func (b CreateBuilder) Uncompressed() CreateBuilder { b.node.pack = packNo; return b }

// StoringStatIn has the node's Stat written to stat when the operation succeeds.
func (b CreateBuilder) StoringStatIn(stat *Stat) CreateBuilder { b.stat = stat; return b }

// ForPath creates the node and returns its path, which differs from the one given with protection and in sequential modes. Nil data means
// the client's default data. Errors: ErrNodeExists; ErrNoNode if a parent is missing; ErrNoChildrenForEphemerals; and those of every operation.
//
// It is repeated as the retry policy says. What happens after an unknown outcome (a connection lost before the reply) depends:
//   - With protection the node is looked for. In the same session the answer is certain; an ephemeral node of a session that was lost
//     meanwhile is not ours any more, and a new one is made.
//   - Without protection a sequential create is not repeated, because nothing could tell the second node from the first: the error is
//     ErrConnectionLoss, and there may be a node.
//   - Any other is repeated, since there cannot be two of one name. When the repeat meets ErrNodeExists, that may be our own node or somebody
//     else's: the error is ErrConnectionLoss, too. (Curator says NodeExists.) With OrSetData it is just set, with Idempotent it is looked at first.
func (b CreateBuilder) ForPath(ctx context.Context, path string, data []byte) (string, error) {
	r, err := foreground(ctx, b.c, b.operation(path, data))
	return r.Path, err
}

// InBackground makes the terminal return at once. A protected create whose reply is lost is looked for, and made once more if it is not there, when the same
// session is connected again.
func (b CreateBuilder) InBackground() BackgroundWithData[CreateBuilder, CreateResult] {
	return BackgroundWithData[CreateBuilder, CreateResult]{b}
}

func (b CreateBuilder) client() *Client { return b.c }

func (b CreateBuilder) operation(path string, data []byte) *operation[CreateResult] {
	c := b.c
	full, err := c.fullPathOf(path, b.node.mode.IsSequential())
	if err == nil {
		err = b.node.fault()
	}
	if err == nil && b.toParents && b.node.acl == nil {
		err = badArguments("ApplyToParents needs WithACL")
	}
	if err == nil && b.orSet && b.orSetVer < -1 {
		err = badArguments("OrSetDataVersion(%d): a version counts from 0; -1 is any", b.orSetVer)
	}
	if err == nil && b.protection && (path == "/" || strings.HasSuffix(path, "/")) {
		err = badArguments("WithProtection needs a name to put its prefix in front of")
	}
	if err == nil && b.again && b.node.mode.IsSequential() && !b.protection {
		err = badArguments("Idempotent cannot tell sequential nodes apart; use WithProtection")
	}
	if err == nil {
		data, err = c.outgoing(full, data, b.node.pack)
	}
	o := &operation[CreateResult]{name: "create", path: path, fault: err, parent: zkpath.Parent(full), write: true}
	if err != nil {
		return o
	}

	result := func(path string, stat Stat) CreateResult {
		store(b.stat, stat)
		return CreateResult{c.userPath(path), stat}
	}
	o.read = func(_ int64, body []byte) (r CreateResult, err error) {
		var res jute.Create2Response
		if err := decode(body, &res); err != nil {
			return r, err
		}
		return result(res.Path, Stat(res.Stat)), nil
	}
	o.call = func(*epoch) *wire.Call { return single(b.node.request(c, full, data)) }
	switch {
	case c.view.isChroot(full): // there or not, it is not made
		o.parent, o.write = full, false
		o.call = func(*epoch) *wire.Call { return existsCall(full) }
		o.read = func(int64, []byte) (r CreateResult, err error) { return r, ErrNodeExists }
	case b.protection:
		b.protect(o, full, data, result)
	case b.node.mode.IsSequential():
		o.once = true
	case !b.orSet:
		o.ambiguous = []error{ErrNodeExists}
	}

	if b.again && !b.protection {
		o.remember()
	}
	o.wants = func(err error) bool {
		return errors.Is(err, ErrNoNode) && (b.parents || c.view.namespace != "") || errors.Is(err, ErrNodeExists) && b.orSet ||
			errors.Is(err, errAmbiguous) && b.again
	}
	o.next = func(ctx context.Context, e *epoch, err error) (r CreateResult, again bool, _ error) {
		switch {
		case errors.Is(err, ErrNodeExists) && b.orSet:
			r, again, err := b.set(ctx, e, o, full, data, result)
			if errors.Is(err, ErrBadVersion) && o.unknown != nil {
				err = &ambiguousError{ErrBadVersion}
			}
			return r, again, err
		case !errors.Is(err, ErrNoNode):
			stat, same, err2 := c.compare(ctx, e, full, data)
			switch {
			case errors.Is(err2, ErrNoNode):
				return r, false, err // it may have been our own
			case err2 != nil:
				return r, false, notSeen(err, err2)
			case same && b.made(stat, e, o.before):
				return result(full, stat), false, nil
			}
			return r, false, err
		}
		again, err2 := b.mkdirs(ctx, e, full)
		if err2 == nil && !again {
			err2 = err
		}
		return r, again, err2
	}
	return o
}

// mkdirs makes the parents, or the namespace's root if it is that which was missing. again is false if nothing was.
func (b CreateBuilder) mkdirs(ctx context.Context, e *epoch, full string) (again bool, err error) {
	c, parent := b.c, zkpath.Parent(full)
	if !b.parents {
		made, err := c.root(ctx, e)
		return made || err == nil && parent == c.view.prefix(), err
	}
	p := parents{mode: b.parentMode}
	if b.toParents {
		p.acl = b.node.acl
	}
	if ns := c.view.namespace; ns != "" && b.parentMode != Container {
		// The root is a container, whatever the parents below are.
		if _, err := c.root(ctx, e); err != nil {
			return false, err
		}
	}
	_, err = c.mkdirs(ctx, e, parent, p)
	return err == nil, err
}

// set is what OrSetData does with a node that exists. Of an unknown outcome o remembers that the data may have been set, whatever comes of later tries.
func (b CreateBuilder) set(ctx context.Context, e *epoch, o *operation[CreateResult], full string, data []byte, result func(string, Stat) CreateResult) (r CreateResult, again bool, err error) {
	c := b.c
	call := &wire.Call{Op: jute.OpSetData, Body: jute.Marshal(&jute.SetDataRequest{Path: full, Data: data, Version: b.orSetVer})}
	reply, _, err := await(ctx, e, c.expiring(call), nil)
	if err == nil {
		err = replyError(reply)
	}
	if errors.Is(err, ErrOutcomeUnknown) {
		o.unknown = e
	}
	if errors.Is(err, ErrNoNode) {
		return r, true, nil // deleted in between: it can be created now
	}
	if errors.Is(err, ErrBadVersion) && b.again && o.unknown != nil {
		stat, same, err2 := c.compare(ctx, e, full, data)
		switch {
		case errors.Is(err2, ErrNoNode):
			return r, true, nil
		case err2 != nil:
			return r, false, notSeen(&ambiguousError{ErrBadVersion}, err2)
		case same && (stat.Version == b.orSetVer+1 && stat.Mzxid > o.before || b.made(stat, e, o.before)):
			return result(full, stat), false, nil
		}
	}
	if err != nil {
		return r, false, err
	}
	var res jute.StatResponse
	if err := decode(reply.Body, &res); err != nil {
		return r, false, err
	}
	return result(full, Stat(res.Stat)), false, nil
}

// made says whether a node's Stat is that of one which this create, begun when the highest zxid known was before, may have made in e's session.
func (b CreateBuilder) made(stat Stat, e *epoch, before int64) bool {
	owner := int64(0)
	if b.node.mode.IsEphemeral() {
		owner = e.wire.ID()
	}
	return stat.Version == 0 && stat.Czxid > before && stat.EphemeralOwner == owner
}

// protect makes the operation one that finds its node again, and cleans up when nobody wants it any more.
func (b CreateBuilder) protect(o *operation[CreateResult], full string, data []byte, result func(string, Stat) CreateResult) {
	c := b.c
	p := &protected{parent: zkpath.Parent(full), name: zkpath.Base(full), ephemeral: b.node.mode.IsEphemeral()}
	p.renew()
	o.call = func(e *epoch) *wire.Call {
		p.epoch = e
		return single(b.node.request(c, p.path(), data))
	}
	o.recover = func(ctx context.Context, e *epoch) (CreateResult, bool, error) {
		path, stat, done, err := c.recoverProtected(ctx, e, p)
		if err != nil || !done {
			return CreateResult{}, false, err
		}
		return result(path, stat), true, nil
	}
	o.late = func(e *epoch, r wire.Reply) {
		t := p.search()
		switch err := replyError(r); {
		case err == nil:
			var res jute.Create2Response
			if jute.Unmarshal(r.Body, &res) == nil {
				t = p.remove(res.Path)
			}
		case !errors.Is(err, ErrOutcomeUnknown):
			return
		}
		_ = c.core.ops.janitor.add(t) // nobody is left to be told
	}
	o.gaveUp = func(err error) error {
		if o.unknown == nil {
			return err
		}
		if full := c.core.ops.janitor.add(p.search()); full != nil {
			err = fmt.Errorf("%w; %w", err, full)
		}
		return err
	}
}

// single makes a frame of one operation.
func single(op jute.MultiOp) *wire.Call { return &wire.Call{Op: op.Op, Body: jute.Marshal(op.Request)} }
