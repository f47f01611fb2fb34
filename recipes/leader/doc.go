// Package leader elects one process of many, and tells it in time when its leadership ends. It corresponds to
// Curator's LeaderLatch and LeaderSelector, and shares elections with them: same nodes, same order
// (docs/znodes.md). A latch and a selector at one path are two different elections: all participants of a
// path must be of the same kind.
//
// A [Selector] runs a function while it leads. Use it for work that must have ended before another
// participant begins:
//
//	s := leader.NewSelector(client, "/leaders/billing", func(ctx context.Context) error {
//		return bill(ctx) // ctx ends with the term
//	}, leader.WithID(hostname))
//	err := s.Run(ctx) // again and again, until ctx ends
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
// Leadership is a lock, and can be lost like one. The context of a [Term] ends, with a cause, before the
// servers can make somebody else the leader: two terms' contexts never overlap. [Term.Valid] says the same
// from the clock. But after a look at either the process may stand still before its request takes effect in
// another system. Where that matters give that system the [Term.FencingToken], or, if it is ZooKeeper, put
// [Term.Guard] into the transaction.
//
// If an administrator deletes the leader's node, leader and successor learn of it at about the same time:
// that is not covered. The former leader then joins the line again. (Curator's LeaderLatch does not notice,
// and there are two leaders for good.)
//
// # A lost connection
//
// By default a term ends when the connection is lost, as in Curator. The node stays: when the connection
// comes back within the session, the same participant goes on with a new [Term] on the same node, without an
// election, and nobody else has led in between. With the policy framework.SessionOnly ([WithLossPolicy]) a
// term lasts as long as its session certainly does, so that the restart of a server does not end it. That is
// as safe here, since the client's own clock knows the end of the session in advance (see framework.Safety).
//
// # Who leads
//
// [Observe] reports who leads, also that nobody does, to a process that does not take part. Participants,
// Leader and Health show the present moment.
package leader
