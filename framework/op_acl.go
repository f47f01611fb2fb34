package framework

import (
	"context"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// ACLResult is the result of GetACL in the background.
type ACLResult struct {
	ACL  []ACL
	Stat Stat
}

// GetACLBuilder reads a node's ACL. It is a value: each method returns a changed copy.
type GetACLBuilder struct {
	c         *Client
	storeStat *Stat
}

// GetACL begins to read a node's ACL. Corresponds to Curator's getACL.
func (c *Client) GetACL() GetACLBuilder { return GetACLBuilder{c: c} }

// StoringStatIn makes the operation write the node's Stat to stat when it succeeds. In the background, read
// stat only after the operation has ended.
func (b GetACLBuilder) StoringStatIn(stat *Stat) GetACLBuilder { b.storeStat = stat; return b }

// ForPath returns the node's ACL. The error is ErrNoNode if the node does not exist.
func (b GetACLBuilder) ForPath(ctx context.Context, path string) ([]ACL, error) {
	r, err := runForeground(ctx, b.operation(path))
	return r.ACL, err
}

// InBackground makes ForPath return immediately.
func (b GetACLBuilder) InBackground() Background[GetACLBuilder, ACLResult] {
	return Background[GetACLBuilder, ACLResult]{builder: b}
}

func (b GetACLBuilder) operation(path string) *operation[ACLResult] {
	full, err := b.c.fullPath(path)
	return &operation[ACLResult]{
		c: b.c, name: "getACL", createsRoot: true, path: path, argumentError: err,
		storesStat: b.storeStat != nil, procedure: functionProcedure[ACLResult]{makeRequest: func() *wire.Call {
			return newCall(jute.OpGetACL, &jute.PathRequest{Path: full})
		}, decode: func(_ int64, body []byte) (r ACLResult, err error) {
			var res jute.GetACLResponse
			if err := decodeRecord(body, res.Fields); err != nil {
				return r, err
			}
			r.Stat = Stat(res.Stat)
			for _, a := range res.ACL {
				r.ACL = append(r.ACL, ACL{Perm(a.Perms), a.Scheme, a.ID})
			}
			if b.storeStat != nil {
				*b.storeStat = r.Stat
			}
			return r, nil
		}},
	}
}

// SetACLBuilder replaces a node's ACL. It is a value: each method returns a changed copy.
type SetACLBuilder struct {
	c       *Client
	version int32
	acl     []ACL
}

// SetACL begins to replace a node's ACL. Corresponds to Curator's setACL.
func (c *Client) SetACL() SetACLBuilder { return SetACLBuilder{c: c, version: -1} }

// WithVersion makes the operation fail with ErrBadVersion unless the ACL has this version (Stat.Aversion).
// Default -1: any version.
func (b SetACLBuilder) WithVersion(version int32) SetACLBuilder { b.version = version; return b }

// WithACL sets the new ACL.
func (b SetACLBuilder) WithACL(acl ...ACL) SetACLBuilder { b.acl = acl; return b }

// ForPath replaces the ACL and returns the node's new Stat. The error is ErrNoNode if the node does not exist, and
// ErrBadArguments without WithACL.
//
// After an unknown outcome the write is repeated as the retry policy allows. With a version it cannot take effect twice.
// If the repeat fails with ErrBadVersion, the first try may have succeeded: the error is ErrConnectionLoss.
func (b SetACLBuilder) ForPath(ctx context.Context, path string) (Stat, error) {
	return runForeground(ctx, b.operation(path))
}

// InBackground makes ForPath return immediately.
func (b SetACLBuilder) InBackground() Background[SetACLBuilder, Stat] {
	return Background[SetACLBuilder, Stat]{builder: b}
}

func (b SetACLBuilder) operation(path string) *operation[Stat] {
	full, err := b.c.fullPath(path)
	if err == nil && len(b.acl) == 0 {
		err = badArguments("SetACL needs WithACL with at least one entry: ZooKeeper allows no empty ACL")
	}
	return &operation[Stat]{
		c: b.c, name: "setACL", mutates: true, createsRoot: true, path: path, argumentError: err,
		ambiguousErrors: []error{ErrBadVersion},
		procedure: functionProcedure[Stat]{decode: decodeStat, makeRequest: func() *wire.Call {
			req := &jute.SetACLRequest{Path: full, ACL: toWireACL(b.acl), Version: b.version}
			return newCall(jute.OpSetACL, req)
		}},
	}
}
