// Package group keeps the members of a group: who is there, with which data, who has come and who has gone.
//
//	me, err := group.Join(client, "/members", "host-7", address)
//	defer me.Leave(ctx)
//	for event, err := range me.Follow(ctx) { … }
//
// A member is an ephemeral node below the group's path, with the member's id as its name. It is there for as
// long as the member's process has its session, and made anew by the rules of package node. The members are
// read from a cache of package cache: that costs a request per change, and none to ask.
//
// Whatever a [Group] reports comes with whether it is current: read on the present connection, and after a
// comparison with everything that changed while there was no connection. Until then the group keeps what it
// knew. A member whose session is lost, or whose process has died, is a member until the servers end the
// session. A child of the group's node that belongs to no session (a persistent node) is no member; it is logged once.
//
// # Curator for Java
//
// The nodes are those of GroupMember, which may be in the same group. GroupMember always counts itself, and every
// child whatever its kind; here nobody is a member whose node is not there.
package group
