package framework

import (
	"context"
	"crypto/sha1"
	"encoding/base64"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// Perm is a set of permissions.
type Perm int32

// Permissions. PermDelete and PermCreate are about the node's children.
const (
	PermRead   = Perm(jute.PermRead)
	PermWrite  = Perm(jute.PermWrite)
	PermCreate = Perm(jute.PermCreate)
	PermDelete = Perm(jute.PermDelete)
	PermAdmin  = Perm(jute.PermAdmin)
	PermAll    = Perm(jute.PermAll)
)

// ACL grants permissions to an identity. Schemes of a plain server are "world" (id "anyone"), "auth" (id "",
// whoever creates), "digest" (id "user:hash") and "ip" (id "10.0.0.0/8").
type ACL struct {
	Perms  Perm
	Scheme string
	ID     string
}

// OpenACL allows everything to everybody: the default.
func OpenACL() []ACL { return []ACL{{PermAll, "world", "anyone"}} }

// ReadACL allows everybody to read.
func ReadACL() []ACL { return []ACL{{PermRead, "world", "anyone"}} }

// CreatorACL allows everything to the identities of the client that creates the node, and nothing to others.
func CreatorACL() []ACL { return []ACL{{PermAll, "auth", ""}} }

// DigestACL grants permissions to clients that know the user's password. Only a hash goes into the tree.
func DigestACL(perms Perm, user, password string) ACL {
	sum := sha1.Sum([]byte(user + ":" + password))
	return ACL{perms, "digest", user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// ACLProvider says which ACL a new node gets, unless the operation names one. It is asked with the full path,
// chroot and namespace included, may be called from several goroutines at once and must not block. Nil or an
// empty result means OpenACL. Corresponds to Curator's ACLProvider.
type ACLProvider func(path string) []ACL

var openACL = wireACL(OpenACL())

func wireACL(acl []ACL) []jute.ACL {
	out := make([]jute.ACL, len(acl))
	for i, a := range acl {
		out[i] = jute.ACL{Perms: int32(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return out
}

// aclForParent returns the ACL of a missing parent. nearest says that the node asked for lies directly in it.
func (c *Client) aclForParent(full string, nearest bool) []jute.ACL {
	cfg := &c.core.cfg
	switch {
	case cfg.directoryACL == nil:
		return c.aclOf(nil, full)
	case nearest || full == c.view.prefix: // the root of a namespace is a directory as well
		return wireACL(cfg.directoryACL)
	}
	return wireACL(cfg.aboveACL)
}

// ACLResult is what GetACL returns in the background.
type ACLResult struct {
	ACL  []ACL
	Stat Stat
}

// GetACLBuilder reads a node's ACL. It is a value: each method returns a changed copy.
type GetACLBuilder struct {
	c    *Client
	stat *Stat
}

// GetACL begins to read a node's ACL. Corresponds to Curator's getACL.
func (c *Client) GetACL() GetACLBuilder { return GetACLBuilder{c: c} }

// StoringStatIn has the node's Stat written to stat when the operation succeeds.
func (b GetACLBuilder) StoringStatIn(stat *Stat) GetACLBuilder { b.stat = stat; return b }

// ForPath returns the node's ACL; ErrNoNode if there is no node.
func (b GetACLBuilder) ForPath(ctx context.Context, path string) ([]ACL, error) {
	r, err := foreground(ctx, b.operation(path))
	return r.ACL, err
}

// InBackground makes the terminal return at once.
func (b GetACLBuilder) InBackground() Background[GetACLBuilder, ACLResult] {
	return Background[GetACLBuilder, ACLResult]{b}
}

func (b GetACLBuilder) operation(path string) *operation[ACLResult] {
	full, err := b.c.fullPath(path)
	return &operation[ACLResult]{
		c: b.c, name: "getACL", path: path, fault: err, root: true,
		request: func(*epoch) *wire.Call { return newCall(jute.OpGetACL, &jute.PathRequest{Path: full}) },
		decode: func(_ int64, body []byte) (r ACLResult, err error) {
			var res jute.GetACLResponse
			if err := decode(body, &res); err != nil {
				return r, err
			}
			r.Stat = Stat(res.Stat)
			for _, a := range res.ACL {
				r.ACL = append(r.ACL, ACL{Perm(a.Perms), a.Scheme, a.ID})
			}
			store(b.stat, r.Stat)
			return r, nil
		},
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

// WithVersion has the operation fail with ErrBadVersion unless the ACL has this version (Stat.Aversion).
// Default -1: any.
func (b SetACLBuilder) WithVersion(version int32) SetACLBuilder { b.version = version; return b }

// WithACL gives the new ACL.
func (b SetACLBuilder) WithACL(acl ...ACL) SetACLBuilder { b.acl = acl; return b }

// ForPath replaces the ACL and returns the node's new Stat. After an unknown outcome it is repeated as the
// retry policy says; with a version a repeat cannot take effect twice, and when it then meets ErrBadVersion
// the error is ErrConnectionLoss: it may have been our own.
func (b SetACLBuilder) ForPath(ctx context.Context, path string) (Stat, error) {
	return foreground(ctx, b.operation(path))
}

// InBackground makes the terminal return at once.
func (b SetACLBuilder) InBackground() Background[SetACLBuilder, Stat] {
	return Background[SetACLBuilder, Stat]{b}
}

func (b SetACLBuilder) operation(path string) *operation[Stat] {
	full, err := b.c.fullPath(path)
	if err == nil && len(b.acl) == 0 {
		err = badArguments("SetACL needs WithACL: a node without an ACL does not exist")
	}
	return &operation[Stat]{
		c: b.c, name: "setACL", path: path, fault: err, root: true, write: true, decode: statDecoder,
		ambiguous: []error{ErrBadVersion},
		request: func(*epoch) *wire.Call {
			return newCall(jute.OpSetACL, &jute.SetACLRequest{Path: full, ACL: wireACL(b.acl), Version: b.version})
		},
	}
}
