package framework

// Identity is who a client has proved to be, as ACLs name it.
type Identity struct{ Scheme, ID string }

// Anyone is everybody, with credentials or without.
func Anyone() Identity { return Identity{"world", "anyone"} }

// DigestIdentity is who presents WithAuth("digest", []byte("user:password")). Only a hash goes into the tree; everybody who may read an ACL can try
// passwords against it, so let it be a long one.
func DigestIdentity(user, password string) Identity {
	acl := DigestACL(0, user, password)
	return Identity{acl.Scheme, acl.ID}
}

// SASLIdentity is who logs in as the user by SASL, see [WithSASLDigest].
func SASLIdentity(user string) Identity { return Identity{"sasl", user} }

// X509Identity is who has a client certificate with the subject, as Java writes it: "CN=worker,OU=shop".
func X509Identity(subject string) Identity { return Identity{"x509", subject} }

// ContenderACL is the ACL for what contenders of locks, latches, semaphores and barriers share: everything for the creator of a node, and for the
// contenders what they need to queue behind it: READ, CREATE and DELETE. Give it to [WithDefaultACL] of every contender's client, with all
// identities that contend:
//
//	framework.WithDefaultACL(framework.ContenderACL(framework.SASLIdentity("orders"), framework.SASLIdentity("billing"))...)
//
// It is one ACL for the directory and for the nodes in it, because they get along with it:
//
//   - On the directory, READ lets a contender see the queue, CREATE enter it and DELETE leave it. Without one of them a recipe fails with ErrNoAuth.
//   - On a contender's own, ephemeral node READ lets the next one watch it; CREATE and DELETE mean nothing, for it can have no children. Nobody else
//     can write its data or change its ACL. So revocation, which writes into the holder's node, is refused between identities.
//
// What it cannot do: whether a node may be deleted is decided by its parent's ACL. Who may leave a queue by deleting his node may delete everybody's.
// A hold notices that (its context ends with ErrNodeDeleted), after the delivery time of the event. Contenders who must not be able to do this to
// one another cannot share a lock. And whoever comes first creates the directory, with the right to change its ACL: where that matters let an
// administrator create it beforehand, as a persistent node.
//
// The creator must have proved an identity ([WithAuth], [WithSASL], a client certificate): without one, creates fail with ErrInvalidACL.
func ContenderACL(contenders ...Identity) []ACL {
	acl := CreatorACL()
	for _, c := range contenders {
		acl = append(acl, ACL{PermRead | PermCreate | PermDelete, c.Scheme, c.ID})
	}
	return acl
}
