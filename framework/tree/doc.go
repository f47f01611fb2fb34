// Package tree works on whole subtrees: [Walk] reads one, [Delete] and [DeleteChildren] delete one, [Dump] writes one
// to a stream, and [Restore] creates it again from there. Curator has only the deletion, as ZKPaths.deleteChildren.
//
// All functions take a client, or a view of one: paths are below its namespace and its chroot, and the retry policy is
// the view's. With the view of a session they end with that session; otherwise they continue in the next.
//
// They send hundreds of requests at the same time, as operations in the background, and then wait for all replies: a
// flight. A flight that a lost connection has interrupted is repeated as a whole when the retry policy says so, which
// does no harm. They do not count for [framework.ErrBackgroundFull]. Hooks are called for each of them.
package tree
