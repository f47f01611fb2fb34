// Package group maintains the membership of a group: the members, their data, and events of members that join and
// leave.
//
//	me, err := group.Join(client, "/members", "host-7", address)
//	defer me.Leave(ctx)
//	for event, err := range me.Follow(ctx) { … }
//
// A member is an ephemeral node below the group's path, with the member's id as its name. It exists for as long as
// the member's process has its session, and is recreated by the rules of package node. The members are read from a
// cache of package cache: that costs a request per change, and none to read.
//
// A [Group] also reports whether its members are current: read on the present connection, including all changes
// during the time without a connection. Until then the group keeps the last known members. A member whose session is
// lost, or whose process has died, remains a member until the servers end the session. A child of the group's node
// that belongs to no session (a persistent node) is not a member; it is logged once.
//
// # Curator for Java
//
// The nodes have the layout of GroupMember, which may be in the same group. GroupMember always counts itself, and
// every child whatever its kind; here a process without a node is not a member.
package group
