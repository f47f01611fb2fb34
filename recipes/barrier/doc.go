// Package barrier lets processes all over a cluster wait for each other. It corresponds to Curator's DistributedBarrier and
// DistributedDoubleBarrier, and shares the barriers with them: same nodes, same rules (docs/znodes.md).
//
// A [Barrier] is a gate: while it is set, everybody waits.
//
//	b := barrier.New(client, "/barriers/migration")
//	err := b.Set(ctx)    // whoever migrates
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
// Curator's enter may return because the connection blinked, and since its fix for that (unreleased as of 5.9.0) a member that wakes up
// late, when others have left already, may wait for ever. Here a member is in when it knows that the barrier has been opened, and only
// then. Curator's leave may return while somebody is still inside, after a member has crashed; here it waits for all of them. Curator
// leaves the node of a member that gave up, and watches, behind; here nothing is left. Everything blocking ends with its context.
//
// # Together with Curator for Java
//
// Members of both kinds share a double barrier. Java members that use it for one round after the other can get stuck among themselves, or
// with anybody who is back too soon; the rules that members here follow to avoid the latter are in docs/znodes.md.
//
// # What the layout does not give
//
// A double barrier that is open is open for everybody: the number of members is a threshold, not a limit, as in Curator, and who comes
// while others are inside is in at once. It is closed by the last to leave, also when that one has given up while no server could be reached, as
// soon as one can be. When the last inside dies without leaving, or closes its client before that, nobody does it, and the next round finds the
// barrier open. Where that matters give each run a path of its own, or delete the child "ready" while nobody uses the barrier.
//
// A member here does not remove a "ready" that was made for the next round, however late its requests arrive (but where two who close a barrier
// are late at once, with the mark and with what follows it). For that it marks the one it means by a change of its data; where "ready" is another's
// who lets nobody write to it, and always with members with Curator for Java, a request that is delayed for long may still close the next round's
// barrier. Who is inside then does not wait for the others.
package barrier
