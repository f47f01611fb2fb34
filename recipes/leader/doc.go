// Package leader elects one process of many, and tells it in time when it is not the one any more. It corresponds to Curator's LeaderLatch and
// LeaderSelector, and shares elections with them: same nodes, same order (docs/znodes.md). The two layouts are different elections: all
// participants of a path use the same kind.
//
// A [Selector] runs a function while it leads. It is the right one for work that must have ended before somebody else begins:
//
//	s, err := leader.NewSelector(client, "/leaders/billing", func(ctx context.Context) error {
//		return bill(ctx) // ctx ends with the term
//	}, leader.WithID(hostname))
//	err = s.Run(ctx) // again and again, until ctx ends
//
// A [Latch] takes part until it is closed, and says whether it leads:
//
//	l, err := leader.NewLatch(client, "/leaders/billing", leader.WithID(hostname))
//	defer l.Close()
//	for {
//		term, err := l.Await(ctx)
//		if err != nil {
//			return err
//		}
//		bill(term.Context())
//	}
//
// # What a term is worth
//
// Leadership is a lock, and can be lost like one. The context of a [Term] ends, with a cause, before the servers can make somebody else the
// leader: two terms' contexts never overlap. [Term.Valid] says the same from the clock. Between a look at either and the effect of a request
// to some other system the process may stand still for any time: where that matters give that system the [Term.FencingToken], or, if it is
// ZooKeeper, put [Term.Guard] into the transaction.
//
// Not covered is an administrator who deletes the leader's node: leader and successor learn of it at about the same time. The former leader
// then stands in line again. (Curator's LeaderLatch does not notice, and there are two leaders for good.)
//
// # A lost connection
//
// By default a term ends when the connection is lost, as in Curator. The node stays: when the connection comes back within the session, the
// same participant goes on with a new [Term] on the same node, without an election, and nobody else has led in between. With
// [WithSessionOnly] a term lives as long as its session certainly does, so that the restart of a server changes nothing. That is as safe
// here, since the end of the session is known in advance by the client's own clock (see framework.Safety).
//
// # Who leads
//
// [Observe] tells anybody who leads, nobody included, without taking part. Participants, Leader and Health answer for the moment.
package leader
