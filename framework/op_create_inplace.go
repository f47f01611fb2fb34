package framework

import (
	"fmt"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

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
