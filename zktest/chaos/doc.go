// Package chaos runs your service, with several replicas, against an in-process ZooKeeper ensemble through thousands
// of schedules of faults, in virtual time, and checks the properties that you name. It needs no server, no
// containers and no sleeps: a virtual minute takes some milliseconds.
//
//	func TestOneExporterAtATime(t *testing.T) {
//		chaos.Test(t, func(w *chaos.World) {
//			right, done := w.Exclusive("export"), w.Progress("exports")
//			for range 3 {
//				w.Start("exporter", func(p *chaos.Process) {
//					client, err := framework.New(w.ConnectString(), framework.WithDialer(p.Dial),
//						framework.WithSessionTimeout(w.SessionTimeout()))
//					…
//					for p.Context().Err() == nil {
//						lock, err := m.Acquire(p.Context())
//						…
//						held := right.Granted(p, lock.Context())
//						held.Use("export") // only one process at a time may do this
//						done.Made(p)
//						held.Done()
//						lock.ReleaseInBackground()
//					}
//				})
//			}
//		})
//	}
//
// It works with any ZooKeeper client that takes a dialer: this library (framework.WithDialer([Process.Dial])), or
// go-zookeeper alone (zk.WithDialer([Process.Dialer]())).
//
// # A run
//
// Each run calls the scenario once, in a separate testing/synctest bubble. The scenario prepares data, names the
// checks and starts the processes of the service. Then the faults of the run's [Plan], which was drawn from a seed
// before, strike connections, requests, processes, servers and the network between servers. After the last fault all
// faults are undone, the service has to make [World.Progress] within [Config.Patience], and its processes are asked
// to stop. After that there must be no session, no ephemeral node, no watch and no goroutine.
//
// # Checks
//
// [World.Exclusive] and [World.Shared]: no more processes hold a right than its limit, no process acts under a right
// that is lost or has passed to another, tokens grow. [World.Store]: a store that refuses old tokens, as the store
// behind a service should; it must not refuse the holder of the right. [World.Progress]: the service makes progress
// after the faults. [World.Always], [World.Eventually], [World.AtRest], [World.Finally]: your own functions.
// [World.History]: the operations of a run, for a checker such as porcupine. Always checked: nothing is left, and
// all members have the same data.
//
// # When a run fails
//
// The test prints the violation, the seed, and the shortest plan that still fails: faults, processes and servers are
// left out, and times made round, as long as it still fails. The plan's story lists in virtual time the acts of the
// processes, their grants and losses, the faults, and the log lines ([Process.Logger]). The story, the servers'
// trace and a sequence diagram (Mermaid) are kept in files. Flags, after -args if other packages are tested as well:
//
//	-chaos.seed=N      play one seed again, and print its story
//	-chaos.plan=FILE   play a plan again, as a failure has left it
//	-chaos.count=N     how many schedules (default 100, or Config.Count; a fifth with -short)
//	-chaos.time=5m     as many as there is time for
//	-chaos.from=N      the first seed (default 1)
//	-chaos.jobs=N      processes (default one per processor)
//
// # Limits
//
// Go's runtime decides the order of goroutines that are ready at one virtual instant. So a seed always gives the
// same plan, and nearly always the same run; a failure's report has the number of replays, of ten, that failed
// again. A paused process cannot be stopped in the middle of its code: its packets wait in both directions, its
// calls of this package wait, and its own timers still run.
//
// Each schedule runs in a child process of the test binary, so that a panic, a deadlock, or an endless loop costs one
// schedule only. A test function calls [Test] or [Find] once.
package chaos
