package framework

import "slices"

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
// What no ACL can do: the parent's ACL decides whether a node may be deleted, so whoever may leave a queue
// by deleting its own node may delete everybody's. A hold notices that (its context ends with
// ErrNodeDeleted) when the event arrives. Contenders that must not be able to do this to each other cannot
// share a lock.
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

// grant returns an ACL that gives permissions to identities.
func grant(perms Perm, to []Identity) (acl []ACL) {
	for _, i := range to {
		acl = append(acl, ACL{perms, i.Scheme, i.ID})
	}
	return acl
}

// ContenderACL is one ACL for everything that contenders share, directories and nodes alike: everything for
// the creator of a node, and READ, CREATE and DELETE for the contenders, to queue behind it. It is for
// clients that can have only one, such as an ACL provider in Java. Prefer [WithContenders], which gives
// less:
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
