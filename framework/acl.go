package framework

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"slices"

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

// ACL grants permissions to an identity. The schemes of a plain server are "world" (id "anyone"), "auth" (id
// "", meaning the identities of the creator), "digest" (id "user:hash") and "ip" (id "10.0.0.0/8").
type ACL struct {
	Perms  Perm
	Scheme string
	ID     string
}

// OpenACL grants all permissions to every client. It is the default.
func OpenACL() []ACL { return []ACL{{PermAll, "world", "anyone"}} }

// ReadACL lets every client read.
func ReadACL() []ACL { return []ACL{{PermRead, "world", "anyone"}} }

// CreatorACL allows everything to the identities of the client that creates the node, and nothing to others.
func CreatorACL() []ACL { return []ACL{{PermAll, "auth", ""}} }

// DigestACL grants permissions to clients that know the user's password. Only a hash goes into the tree.
func DigestACL(perms Perm, user, password string) ACL {
	sum := sha1.Sum([]byte(user + ":" + password))
	return ACL{perms, "digest", user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// ACLProvider returns the ACL for a new node if the operation names none. path is the full path, chroot and namespace
// included. It may be called from several goroutines concurrently and must not block. Nil or an empty result means
// OpenACL. Corresponds to Curator's ACLProvider.
type ACLProvider func(path string) []ACL

var openACL = toWireACL(OpenACL())

func toWireACL(acl []ACL) []jute.ACL {
	out := make([]jute.ACL, len(acl))
	for i, a := range acl {
		out[i] = jute.ACL{Perms: int32(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return out
}

// ACLResult is the result of GetACL in the background.
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

// StoringStatIn makes the operation write the node's Stat to stat when it succeeds.
func (b GetACLBuilder) StoringStatIn(stat *Stat) GetACLBuilder { b.stat = stat; return b }

// ForPath returns the node's ACL; ErrNoNode if the node does not exist.
func (b GetACLBuilder) ForPath(ctx context.Context, path string) ([]ACL, error) {
	r, err := runForeground(ctx, b.operation(path))
	return r.ACL, err
}

// InBackground makes ForPath return immediately.
func (b GetACLBuilder) InBackground() Background[GetACLBuilder, ACLResult] {
	return Background[GetACLBuilder, ACLResult]{b: b}
}

func (b GetACLBuilder) operation(path string) *operation[ACLResult] {
	full, err := b.c.fullPath(path)
	return &operation[ACLResult]{
		c: b.c, operationKind: operationKind{name: "getACL", root: true}, path: path, fault: err,
		procedure: functionProcedure[ACLResult]{makeCall: func(*sessionEpoch) *wire.Call {
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
			if b.stat != nil {
				*b.stat = r.Stat
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

// ForPath replaces the ACL and returns the node's new Stat. After an unknown outcome it is repeated as the
// retry policy says. With a version the repeat cannot take effect twice; if it fails with ErrBadVersion, the
// error is ErrConnectionLoss, because the first try may have succeeded.
func (b SetACLBuilder) ForPath(ctx context.Context, path string) (Stat, error) {
	return runForeground(ctx, b.operation(path))
}

// InBackground makes ForPath return immediately.
func (b SetACLBuilder) InBackground() Background[SetACLBuilder, Stat] {
	return Background[SetACLBuilder, Stat]{b: b}
}

func (b SetACLBuilder) operation(path string) *operation[Stat] {
	full, err := b.c.fullPath(path)
	if err == nil && len(b.acl) == 0 {
		err = badArguments("SetACL needs WithACL with at least one entry: ZooKeeper allows no empty ACL")
	}
	return &operation[Stat]{
		c: b.c, operationKind: operationKind{name: "setACL", write: true, root: true}, path: path, fault: err,
		ambiguous: []error{ErrBadVersion},
		procedure: functionProcedure[Stat]{decode: decodeStat, makeCall: func(*sessionEpoch) *wire.Call {
			req := &jute.SetACLRequest{Path: full, ACL: toWireACL(b.acl), Version: b.version}
			return newCall(jute.OpSetACL, req)
		}},
	}
}

// Identity is an authenticated client, as ACLs name it.
type Identity struct{ Scheme, ID string }

// DigestIdentity is a client with WithAuth("digest", []byte("user:password")). Only a hash goes into the tree. Any
// client that may read the ACL can try passwords against the hash, so use a long password.
//
// It is Identity{"digest", "user:" + base64(sha1("user:password"))}. To grant rights to another service this
// hash is enough: its password stays with it.
func DigestIdentity(user, password string) Identity {
	acl := DigestACL(0, user, password)
	return Identity{acl.Scheme, acl.ID}
}

// SASLIdentity is a client that logs in as the user by SASL, see [WithSASLDigest].
func SASLIdentity(user string) Identity { return Identity{"sasl", user} }

// X509Identity is a client with a certificate for the subject, as Java writes it: "CN=worker,OU=shop".
func X509Identity(subject string) Identity { return Identity{"x509", subject} }

// WithContenders sets the ACLs of the nodes that the client creates for a lock, latch, semaphore or barrier
// that several identities share. self is this client's identity, others are the identities that contend with
// it:
//
//	framework.WithContenders(framework.SASLIdentity("orders"), framework.SASLIdentity("billing"))
//
// Each kind of node has its own ACL, unless the operation names one:
//
//   - The requested node itself, such as a contender's node in the queue, belongs to self. The others have
//     READ, to watch it. They cannot write its data, so revocation, which writes into the holder's node, is
//     refused between identities. So is setting a shared count: create its node with an ACL that has WRITE.
//   - A missing parent of that node ([Client.Ensure] and [Client.CreateContainers] create one, too): READ,
//     CREATE and DELETE for self and the others, to see the queue, enter and leave it. The root of a
//     namespace has the same ACL.
//   - Missing parents further up: READ and CREATE. Contenders cannot delete nodes directly below these, so do
//     not let a recipe's path lead through another recipe's path, or through a node that a contender has to
//     delete, such as a barrier.
//
// No client has permission to change such a parent's ACL or to write its data, not even its creator. The server removes
// it if it is a container; otherwise only the super user can. A parent that exists already keeps its ACL.
//
// self must be an identity that the client proves ([WithAuth], [WithSASL], a client certificate). It must not
// be shared with others, because it alone has all rights on the client's nodes. Other identities that the
// client proves as well get no rights. If the client does not prove self, it has no access to the nodes that
// it creates: ErrNoAuth.
//
// ACLs cannot protect contenders from each other completely. The parent's ACL decides whether a node may be
// deleted, so an identity that can leave a queue by deleting its own node can delete the nodes of all others.
// A hold notices that when the event arrives: its context ends with ErrNodeDeleted. Contenders that must not
// be able to do this to each other cannot share a lock.
//
// [WithDefaultACL] and [WithACLProvider] also set this; the last of the three counts.
func WithContenders(self Identity, others ...Identity) Option {
	all := []Identity{self}
	for _, o := range others {
		if !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return func(o *options) error {
		for _, i := range all {
			if i.Scheme == "" || i.Scheme == "auth" || i.ID == "" {
				return invalidOption("WithContenders",
					"%+v identifies nobody; use SASLIdentity, DigestIdentity or X509Identity", i)
			}
		}
		if self.Scheme == "world" {
			return invalidOption("WithContenders",
				"the first identity must be this client's own, not world:anyone, because it gets all "+
					"permissions")
		}
		node := append([]ACL{{PermAll, self.Scheme, self.ID}}, grantPermissions(PermRead, all[1:])...)
		o.aclProvider = func(string) []ACL { return node }
		o.directoryACL = grantPermissions(PermRead|PermCreate|PermDelete, all)
		o.aboveACL = grantPermissions(PermRead|PermCreate, all)
		return nil
	}
}

func grantPermissions(perms Perm, to []Identity) (acl []ACL) {
	for _, i := range to {
		acl = append(acl, ACL{perms, i.Scheme, i.ID})
	}
	return acl
}

// ContenderACL is one ACL for all the nodes that contenders share, parents included: all rights for the
// creator of a node, and READ, CREATE and DELETE for the contenders. It is for clients that can have only one
// ACL, such as an ACL provider in Java. Prefer [WithContenders], which gives fewer rights:
//
//   - The creator is every identity that its connection has proved. Every client that shares one of these identities
//     has all rights on the node, and can change its ACL.
//   - The first contender creates the parent, with the right to change its ACL. Where that matters let an
//     administrator create the parent first, as a persistent node.
//   - Parents further up get CREATE and DELETE for all contenders, too.
//
// ContenderACL has the limits of WithContenders as well. Give it to [WithDefaultACL] of every contender's client, with
// all identities that contend. The creator must have proved an identity ([WithAuth], [WithSASL], a client certificate);
// otherwise creates fail with ErrInvalidACL.
func ContenderACL(contenders ...Identity) []ACL {
	return append(CreatorACL(), grantPermissions(PermRead|PermCreate|PermDelete, contenders)...)
}
