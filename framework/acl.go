package framework

import (
	"crypto/sha1"
	"encoding/base64"

	"github.com/go-curator/curator/internal/jute"
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

// ACL grants permissions to an identity. The schemes of a server without further authentication providers are "world"
// (id "anyone"), "auth" (id "", meaning the identities of the creator), "digest" (id "user:hash") and "ip" (id
// "10.0.0.0/8").
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

// ACLProvider returns the ACL for a new node if the operation names no ACL. path is the full path, chroot and namespace
// included. The client may call it from several goroutines concurrently; it must not block. A nil or empty result means
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

// Identity is an authenticated client, as ACLs name it.
type Identity struct{ Scheme, ID string }

// DigestIdentity is a client with WithAuth("digest", []byte("user:password")). Only a hash goes into the tree. A
// client with ADMIN on a node (on old servers any that may read its ACL) can try passwords against the hash, so use a
// long password.
//
// The result is Identity{"digest", "user:" + base64(sha1("user:password"))}. A program that grants rights to another
// service needs only this hash, not the service's password.
func DigestIdentity(user, password string) Identity {
	acl := DigestACL(0, user, password)
	return Identity{acl.Scheme, acl.ID}
}

// SASLIdentity is a client that logs in as the user by SASL, see [WithSASLDigest].
func SASLIdentity(user string) Identity { return Identity{"sasl", user} }

// X509Identity is a client with a certificate for the subject, as Java writes it: "CN=worker,OU=shop".
func X509Identity(subject string) Identity { return Identity{"x509", subject} }

func grantPermissions(perms Perm, to []Identity) (acl []ACL) {
	for _, i := range to {
		acl = append(acl, ACL{perms, i.Scheme, i.ID})
	}
	return acl
}

// ContenderACL is one ACL for all the nodes that contenders share, parents included: all rights for the
// creator of a node, and READ, CREATE and DELETE for the contenders. It is for clients that can have only one
// ACL, such as an ACL provider in Java. Prefer [WithContenders], which gives fewer rights. With ContenderACL:
//
//   - All identities that the creator's connection has proved get all rights. So every client that shares one of these
//     identities can change the node's ACL.
//   - The first contender creates the parent, and so has the right to change its ACL. Where that matters let an
//     administrator create the parent first, as a persistent node.
//   - All contenders have CREATE and DELETE on the parents further up, too.
//
// ContenderACL has the limits of WithContenders as well. Give it to [WithDefaultACL] of every contender's client, with
// all identities that contend. The creator must have proved an identity ([WithAuth], [WithSASL], a client certificate);
// otherwise creates fail with ErrInvalidACL.
func ContenderACL(contenders ...Identity) []ACL {
	return append(CreatorACL(), grantPermissions(PermRead|PermCreate|PermDelete, contenders)...)
}
