// Package chaos runs a service of yours, with several replicas, against an in-process ZooKeeper ensemble
// through thousands of schedules of faults, in virtual time, and checks what you say must hold. It needs no
// server, no containers and no sleeps: a virtual minute takes some milliseconds.
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
//						held.Use("export") // what must not happen twice at a time
//						done.Made(p)
//						held.Done()
//						lock.ReleaseInBackground()
//					}
//				})
//			}
//		})
//	}
//
// It works with any client of ZooKeeper that takes a dialer: this library's
// (framework.WithDialer([Process.Dial])), or go-zookeeper alone (zk.WithDialer([Process.Dialer]())).
//
// # What happens in a run
//
// The scenario is called once in each run, in a testing/synctest bubble of its own. It prepares data, names
// what must hold and starts the processes of the service. Then the faults of the run's [Plan], which was
// drawn from a seed before, strike connections, requests, processes, servers and the network between
// servers. When they are over, everything is healed, the service has to make [World.Progress] within
// [Config.Patience], and its processes are asked to stop. In the end nothing may be left: no session, no
// ephemeral node, no watch, no goroutine.
//
// # What is checked
//
// [World.Exclusive] and [World.Shared]: no two hold what one may hold, nobody acts under a right that is lost
// or has passed to another, tokens grow. [World.Store]: a store that refuses old tokens, as the one behind a
// service should; it has to refuse nobody who holds the right. [World.Progress]: it goes on after the faults.
// [World.Always], [World.Eventually], [World.AtRest], [World.Finally]: functions of your own.
// [World.History]: what was done, for a checker such as porcupine. Beside these, always: nothing is left, and
// all members have the same data.
//
// # When a run fails
//
// The test prints what was violated, the seed, and the shortest plan that still fails: faults, processes and
// servers are left out, and times made round, as long as it still fails. Its story tells in virtual time who
// did what, who believed that it held what, and what was logged ([Process.Logger]); the servers' trace and a
// sequence diagram (Mermaid) are in files beside it. Flags, after -args if other packages are tested as well:
//
//	-chaos.seed=N      play one seed again, and tell its story
//	-chaos.plan=FILE   play a plan again, as a failure has left it
//	-chaos.count=N     how many schedules (default 100, or Config.Count; a fifth with -short)
//	-chaos.time=5m     as many as there is time for
//	-chaos.from=N      the first seed (default 1)
//	-chaos.jobs=N      processes (default one per processor)
//
// # What it cannot do
//
// Go's runtime decides in which order goroutines run that are ready at one virtual instant. So a seed gives
// the same plan always, and nearly always the same run; a failure says in how many of ten replays it came
// again. A paused process cannot be stopped in the middle of its code: what it sends and gets waits, its
// calls of this package wait, and its own timers go on.
//
// Each schedule runs in a child process of the test binary, so that a panic, a deadlock, or a loop that never
// ends costs one schedule only. A test function calls [Test] or [Find] once.
package chaos
