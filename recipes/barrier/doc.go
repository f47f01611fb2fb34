// Package barrier lets processes wait for each other, in two forms. It corresponds to Curator's
// DistributedBarrier and DistributedDoubleBarrier, and shares the barriers with them: the znodes and the
// rules are the same (docs/znodes.md).
//
// A [Barrier] is a gate: while it is set, every process waits before it.
//
//	b := barrier.New(client, "/barriers/migration")
//	err := b.Set(ctx)    // the process that migrates
//	err  = b.Remove(ctx)
//	err  = b.Wait(ctx)   // all other processes
//
// A [Double] lets a given number of members begin a piece of work together, and end it together.
//
//	d := barrier.NewDouble(client, "/barriers/step-7", 3)
//	member, err := d.Enter(ctx) // until three are there
//	if err != nil {
//		return err
//	}
//	err = work(member.Context()) // ends when the membership is lost
//	err = member.Leave(ctx)      // until all are done
//
// # Better than Curator
//
// Curator's enter can return too early, because the connection was lost for a moment. With its fix for that
// (unreleased as of 5.9.0) a member that wakes up late, after others have left, can wait for ever. Here Enter returns
// only when the barrier was certainly opened. Curator's leave can return while a member is still inside, after
// another member has crashed; here Leave waits for all members. When a caller gives up, Curator leaves its node and
// watches on the server; here they are deleted. Every blocking call ends with its context.
//
// # Together with Curator for Java
//
// Members of both kinds share a double barrier. Java members that use a barrier for several rounds can
// deadlock among themselves, or with a member that enters the next round too soon. Members of this library
// follow rules that avoid the second case: see docs/znodes.md.
//
// # Limits of the layout
//
// An open double barrier is open for all, as in Curator: the number of members is a threshold, not a limit. A member
// that enters while others are inside is in immediately.
//
// The last member to leave closes the barrier. If that member gives up while no server can be reached, its client
// closes the barrier as soon as a server can be reached. But if the last member inside dies without leaving, or
// closes its client too early, no member closes the barrier, and the next round finds it open. Where that matters,
// give each round a separate path, or delete the child "ready" while the barrier is not in use.
//
// A delayed request to close the barrier could close the next round's barrier by mistake, by deleting its
// "ready". A member of this library prevents that: it first marks the present "ready", by a change of its
// data, and deletes only the marked node. The mistake remains possible in these cases:
//
//   - Two members close the barrier, and both are late: one with the mark, the other with the deletion.
//   - The member has no permission to write to the "ready" of another member.
//   - The member uses Curator for Java.
//
// Members inside then do not wait for the others.
package barrier
