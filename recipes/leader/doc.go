// Package leader elects one of many processes as leader, and ends the leader's term in time when it is lost. It
// corresponds to Curator's LeaderLatch and LeaderSelector, and shares elections with them: the znodes and the order
// of participants are the same (docs/znodes.md). A latch and a selector at the same path do not see each other and
// can both lead. So use only one of the two kinds at a path.
//
// A [Selector] runs a function while it leads. Use it for work that must end before another participant's
// work begins:
//
//	s := leader.NewSelector(client, "/leaders/billing", func(ctx context.Context) error {
//		return bill(ctx) // ctx ends with the term
//	}, leader.WithID(hostname))
//	err := s.Run(ctx) // again and again, until ctx ends
//
// A [Latch] takes part in the election until it is closed. Await returns when it leads:
//
//	l, err := leader.NewLatch(client, "/leaders/billing", leader.WithID(hostname))
//	defer l.Close()
//	for {
//		term, err := l.Await(ctx)
//		if err != nil {
//			return err
//		}
//		bill(ctx, term) // until ctx or term.Context() ends: neither ends the other
//	}
//
// If bill returns earlier, wait for either: as long as the term lasts, Await returns it again. After the end of a
// term continue the loop, whatever bill returned: the latch has kept its place in the line, or has joined it again.
//
// # Guarantees of a term
//
// Leadership is a lock, and can be lost like a lock. The context of a [Term] ends, with a cause, before another
// participant can become the leader: the contexts of two terms never overlap. Valid of a [Term] computes from the clock
// whether the term still lasts. Even so, the process may be stopped after it has checked either, and before its
// request takes effect in another system. Where that matters, send [Term.FencingToken] to that system with each
// request; if that system is ZooKeeper, put [Term.Guard] into the transaction.
//
// One case is not covered: an administrator deletes the leader's node. Leader and successor then get the event at
// about the same time. The former leader rejoins the election. (Curator's LeaderLatch does not detect the deletion,
// so that two leaders remain.)
//
// # A lost connection
//
// By default a term ends when the connection is lost, as in Curator. A latch keeps its node. If it reconnects before
// the session expires, it leads again with a new [Term] on the same node, without an election, and no other
// participant has led in between. A selector's Run deletes its node, after the function has returned, and rejoins at
// the end of the line. With the policy framework.SessionOnly ([WithLossPolicy]) a term outlives a lost connection,
// until its session may have expired: the restart of a server does not end it. That is equally safe, since the client
// computes in advance when the session may expire (see framework.Safety).
//
// # Observing
//
// [Observe] reports the leader, and each change, to a process that does not take part. Participants, Leader
// and Health of a latch or selector show the present moment.
package leader
