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
		c: b.c, opKind: opKind{name: "getACL", root: true}, path: path, fault: err,
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
			if b.stat != nil {
				*b.stat = r.Stat
			}
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
		c: b.c, opKind: opKind{name: "setACL", write: true, root: true}, path: path, fault: err,
		decode: statDecoder, ambiguous: []error{ErrBadVersion},
		request: func(*epoch) *wire.Call {
			return newCall(jute.OpSetACL, &jute.SetACLRequest{Path: full, ACL: wireACL(b.acl), Version: b.version})
		},
	}
}

// Identity is an authenticated client, as ACLs name it.
type Identity struct{ Scheme, ID string }

// DigestIdentity is a client with WithAuth("digest", []byte("user:password")). Only a hash goes into the
// tree. Everybody who may read an ACL can try passwords against it, so use a long one.
func DigestIdentity(user, password string) Identity {
	acl := DigestACL(0, user, password)
	return Identity{acl.Scheme, acl.ID}
}

// SASLIdentity is a client that logs in as the user by SASL, see [WithSASLDigest].
func SASLIdentity(user string) Identity { return Identity{"sasl", user} }

// X509Identity is a client with a certificate for the subject, as Java writes it: "CN=worker,OU=shop".
func X509Identity(subject string) Identity { return Identity{"x509", subject} }

// WithContenders gives the nodes that the client makes the ACLs for a lock, latch, semaphore or barrier
// that several identities share. self is this client's identity, others are those that contend with it:
//
//	framework.WithContenders(framework.SASLIdentity("orders"), framework.SASLIdentity("billing"))
//
// Each kind of node has an ACL of its own, unless the operation names one:
//
//   - A node that is asked for, such as a contender's own, belongs to self. The others may READ it, to
//     watch it. They cannot write its data, so revocation, which writes into the holder's node, is refused
//     between identities. So is setting a shared count: make its node with an ACL that has WRITE.
//   - The directory in which it is made, if it is missing ([Client.Ensure] and [Client.CreateContainers]
//     make one, too): READ, CREATE and DELETE for self and the others, to see the queue, enter and leave
//     it. The root of a namespace has the same.
//   - Missing directories above that one: READ and CREATE. Contenders cannot delete what lies directly in
//     them, so do not let a recipe's path lead through another recipe's, or through a node that a contender
//     has to delete, such as a barrier.
//
// Nobody may change a directory's ACL or write its data, whoever made it. It goes as the container that it
// is, or by the hand of the super user. A directory that exists already keeps its ACL.
//
// self must be an identity that the client proves ([WithAuth], [WithSASL], a client certificate). It must
// not be everybody's, nor shared, because it alone has all rights on the client's nodes. Other identities
// that the client proves as well get nothing. If the client does not prove self it has no access to what it
// makes itself: ErrNoAuth.
//
// What no ACL can do: the parent's ACL decides whether a node may be deleted, so whoever may leave a queue by
// deleting its own node may delete everybody's. A hold notices that (its context ends with ErrNodeDeleted)
// when the event arrives. Contenders that must not be able to do this to each other cannot share a lock.
//
// The last of this, [WithDefaultACL] and [WithACLProvider] counts.
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
				return invalid("WithContenders",
					"%+v is nobody's identity; see SASLIdentity, DigestIdentity and X509Identity", i)
			}
		}
		if self.Scheme == "world" {
			return invalid("WithContenders",
				"the first identity is this client's own, and has all rights: that cannot be everybody")
		}
		node := append([]ACL{{PermAll, self.Scheme, self.ID}}, grant(PermRead, all[1:])...)
		o.aclProvider = func(string) []ACL { return node }
		o.directoryACL, o.aboveACL = grant(PermRead|PermCreate|PermDelete, all), grant(PermRead|PermCreate, all)
		return nil
	}
}

func grant(perms Perm, to []Identity) (acl []ACL) {
	for _, i := range to {
		acl = append(acl, ACL{perms, i.Scheme, i.ID})
	}
	return acl
}

// ContenderACL is one ACL for everything that contenders share, directories and nodes alike: everything for
// the creator of a node, and READ, CREATE and DELETE for the contenders, to queue behind it. It is for
// clients that can have only one, such as an ACL provider in Java. Prefer [WithContenders], which gives less:
//
//   - The creator is every identity that its connection has proved. Whoever shares one of them may do
//     everything with the node, and change its ACL.
//   - Whoever comes first makes the directory, with the right to change its ACL. Where that matters let an
//     administrator make it first, as a persistent node.
//   - Directories above get CREATE and DELETE for all contenders, too.
//
// What it cannot do is described there. Give it to [WithDefaultACL] of every contender's client, with all
// identities that contend. The creator must have proved an identity ([WithAuth], [WithSASL], a client
// certificate); otherwise creates fail with ErrInvalidACL.
func ContenderACL(contenders ...Identity) []ACL {
	return append(CreatorACL(), grant(PermRead|PermCreate|PermDelete, contenders)...)
}
