// Package porcupine checks histories of package [chaos] for linearizability, by github.com/anishathalye/porcupine,
// with models of the recipes: a lock or an election, a read-write lock, a semaphore, a counter, a queue.
//
//	history := w.History("lock", porcupine.Check(porcupine.Lock()))
//	…
//	done := history.Call(p, porcupine.Acquire{By: p.Name(), Token: token})
//	done(nil)
//
// It is a separate module, so that users of the library do not get porcupine.
package porcupine
