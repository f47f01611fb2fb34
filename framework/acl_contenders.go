package framework

import "slices"

// Identity is who a client has proved to be, as ACLs name it.
type Identity struct{ Scheme, ID string }

// Anyone is everybody, with credentials or without.
func Anyone() Identity { return Identity{"world", "anyone"} }

// DigestIdentity is who presents WithAuth("digest", []byte("user:password")). Only a hash goes into the
// tree; everybody who may read an ACL can try passwords against it, so let it be a long one.
func DigestIdentity(user, password string) Identity {
	acl := DigestACL(0, user, password)
	return Identity{acl.Scheme, acl.ID}
}

// SASLIdentity is who logs in as the user by SASL, see [WithSASLDigest].
func SASLIdentity(user string) Identity { return Identity{"sasl", user} }

// X509Identity is who has a client certificate with the subject, as Java writes it: "CN=worker,OU=shop".
func X509Identity(subject string) Identity { return Identity{"x509", subject} }

// WithContenders has what the client makes fit for a lock, latch, semaphore or barrier that several
// identities share. self is who this client is, others who contends with it:
//
//	framework.WithContenders(framework.SASLIdentity("orders"), framework.SASLIdentity("billing"))
//
// Each kind of node has an ACL of its own, unless the operation names one:
//
//   - A node that is asked for, such as a contender's own, belongs to self. The others may READ it, to
//     watch it. They cannot write its data, so that revocation, which writes into the holder's node, is
//     refused between identities; nor those of a shared count: make that with an ACL that has WRITE.
//   - The directory that it is made in, if it is missing ([Client.Ensure] and [Client.CreateContainers]
//     make one, too): READ, CREATE and DELETE for self and the others, to see the queue, enter and leave
//     it. The root of a namespace has the same.
//   - Directories above that one, if they are missing: READ and CREATE. What lies directly in them cannot
//     be deleted by contenders, so do not have a recipe's path lead through another's, or through a node
//     that is one's own to delete, such as a barrier.
//
// Nobody may change the ACL of a directory or write its data, whoever came first: it goes as the container
// that it is, or by who has the super user's rights. A directory that is there already keeps the ACL that
// it has.
//
// self must be an identity that the client proves ([WithAuth], [WithSASL], a client certificate), and may
// not be everybody's, nor one that it shares with others: it alone has all rights on the client's nodes. If
// the client proves others beside it, these get nothing. If it does not prove self, what it makes itself is
// closed to it: ErrNoAuth.
//
// What no ACL can do: whether a node may be deleted is decided by its parent's. Who may leave a queue by
// deleting his node may delete everybody's. A hold notices that (its context ends with ErrNodeDeleted),
// after the delivery time of the event. Contenders who must not be able to do this to one another cannot
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
				return invalid("WithContenders", "%+v is nobody's identity; see SASLIdentity, DigestIdentity and X509Identity", i)
			}
		}
		if self.Scheme == "world" {
			return invalid("WithContenders", "the first identity is who this client is, and has all rights: that cannot be everybody")
		}
		node := append([]ACL{{PermAll, self.Scheme, self.ID}}, grant(PermRead, all[1:])...)
		o.aclProvider = func(string) []ACL { return node }
		o.directoryACL, o.aboveACL = grant(PermRead|PermCreate|PermDelete, all), grant(PermRead|PermCreate, all)
		return nil
	}
}

// grant gives permissions to identities.
func grant(perms Perm, to []Identity) (acl []ACL) {
	for _, i := range to {
		acl = append(acl, ACL{perms, i.Scheme, i.ID})
	}
	return acl
}

// ContenderACL is one ACL for what contenders share, directories and nodes alike: everything for the
// creator of a node, and for the contenders what they need to queue behind it, READ, CREATE and DELETE. It
// is for clients that can have but one, such as an ACL provider in Java, and gives more than
// [WithContenders], which is to be preferred:
//
//   - The creator is every identity that its connection has proved. Whoever shares one of them may do
//     everything with the node, and change its ACL.
//   - Whoever comes first creates the directory, with the right to change its ACL: where that matters let
//     an administrator create it beforehand, as a persistent node.
//   - Directories above get CREATE and DELETE for all contenders, too.
//
// For all it can do, and what it cannot, see there. Give it to [WithDefaultACL] of every contender's
// client, with all identities that contend. The creator must have proved an identity ([WithAuth],
// [WithSASL], a client certificate): without one, creates fail with ErrInvalidACL.
func ContenderACL(contenders ...Identity) []ACL {
	return append(CreatorACL(), grant(PermRead|PermCreate|PermDelete, contenders)...)
}
