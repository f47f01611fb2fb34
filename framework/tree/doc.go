// Package tree works on whole subtrees: [Walk] reads one, [Delete] and [DeleteChildren] delete one, [Dump] writes one
// to a stream, and [Restore] creates it again from there. Curator has only the deletion, as ZKPaths.deleteChildren.
//
// All functions take a client, or a view of one: paths are below its namespace and its chroot, and the retry policy is
// the view's. With the view of a session they fail when that session is lost; otherwise they continue in the next.
//
// They send hundreds of requests together, as operations in the background, and then wait for all replies: this is a
// flight. After a lost connection the retry policy decides whether the flight is repeated as a whole; a repeat does no
// harm. The requests do not count for [framework.ErrBackgroundFull]. Hooks are called for each of them.
package tree
