// Package barrier lets processes all over a cluster wait for each other. It corresponds to Curator's
// DistributedBarrier and DistributedDoubleBarrier, and shares the barriers with them: same nodes, same rules
// (docs/znodes.md).
//
// A [Barrier] is a gate: while it is set, everybody waits.
//
//	b := barrier.New(client, "/barriers/migration")
//	err := b.Set(ctx)    // the process that migrates
//	err  = b.Remove(ctx)
//	err  = b.Wait(ctx)   // everybody else
//
// A [Double] lets a number of members begin a piece of work together, and end it together.
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
// Curator's enter may return because the connection was lost for a moment. Since its fix for that (unreleased
// as of 5.9.0) a member that wakes up late, when others have left already, may wait for ever. Here a member
// is in only when it knows that the barrier has been opened. Curator's leave may return while somebody is
// still inside, after a member has crashed; here it waits for all members. Curator leaves watches and the
// node of a member that gave up; here nothing is left. Everything blocking ends with its context.
//
// # Together with Curator for Java
//
// Members of both kinds share a double barrier. Java members that use it for several rounds can get stuck
// among themselves, or with a member that enters the next round too soon. The rules that members here follow
// to avoid the latter are in docs/znodes.md.
//
// # What the layout does not give
//
// An open double barrier is open for everybody: the number of members is a threshold, not a limit, as in
// Curator, and a member that comes while others are inside is in at once. The last to leave closes it. If
// that member gives up while no server can be reached, the barrier is closed as soon as one can be reached.
// If the last member inside dies without leaving, or closes its client before that, nobody closes it, and the
// next round finds the barrier open. Where that matters give each run a path of its own, or delete the child
// "ready" while nobody uses the barrier.
//
// A member here does not remove a "ready" that was made for the next round, however late its requests arrive:
// it first marks the "ready" that it means by a change of its data. There are exceptions. Two members that
// close the barrier may both be late, one with the mark and one with the removal. And where a member may not
// write to another's "ready", and always with Curator for Java, a request that is delayed for long may close
// the next round's barrier. Members that are inside then do not wait for the others.
package barrier
