// Package once runs a function in one process per slot: the job that every process of a service starts at the
// hour, and one of them does.
//
//	jobs := once.New(client, "/cron")
//	for range ticker.C {
//		slot := once.At(time.Now(), time.Hour)
//		_, err := jobs.Do(ctx, "report", slot, func(ctx context.Context, run once.Run) error {
//			return report(ctx, run.Slot.Time())
//		})
//		…
//	}
//
// A slot is a time, truncated to an interval, or any text, such as the name of a release. [Jobs.Do] takes the
// job's lock, in turn, looks whether the slot has a record, and if it has none, runs the function and records
// that. Later callers find the record.
//
// # When a process dies
//
// By default the record is written after the function has returned nil: at least once. If the process dies,
// or loses its session, before that, or if the function fails, the slot is free for the next one that calls
// Do, or that waits in it; what the function has done by then is done again. So the function should be one
// that may run again, or should look for what it has done. (A record alone, without the lock, would stay claimed
// for ever when its process dies, or be taken over by time, which two processes may do.)
//
// With [AtMostOnce] the record is written before the function is called, and completed after it. If the
// process dies in between, or the function fails, nobody does it again, and Do says so: [Begun]. Even then
// the function may not have been called at all.
//
// The function's context ends when the lock is lost, before another process can have it, as with package
// mutex; so two functions that stop then never work at the same time, not for different slots either. [Run]
// has a fencing token for systems that can refuse a late one.
//
// # Lost replies
//
// A record whose reply was lost is found again: it stays when the session ends, and has an id in it. A record
// that was written after the function is tried until it is there, also after Do has returned, and also if the
// lock was lost meanwhile: the function has run. (A process that has got the lock by then may have looked
// before the record was there, and does the slot again.) If it cannot be written, or not before Do's context
// ends, the error matches [ErrNotRecorded], and the slot may be done again.
//
// # Old slots
//
// The last records of a job are kept, [WithKeep] says how many; older ones are deleted now and then. A slot
// whose record was deleted is done again if somebody asks for it. What was missed, because no process was
// running, is skipped; with [WithCatchUp] it is done first.
//
// Curator has nothing like it. The znodes are in docs/znodes.md.
package once
