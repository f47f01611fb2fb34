// Package once runs a function in one process per slot: a job that every process of a service starts at the hour, and
// that one of them executes.
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
// A slot is a time, truncated to an interval, or any text, such as the name of a release. [Jobs.Do] acquires the
// job's lock, reads the slot's record, and if there is none, runs the function and records that. Later callers find
// the record.
//
// # When a process dies
//
// By default the record is written after the function has returned nil: at least once. If the process dies, or loses
// its session, before that, or if the function fails, the slot is free for the next caller of Do, or a waiting one;
// then the function's work is repeated. So the function should be idempotent, or check for its earlier results. (A
// record alone, without the lock, would stay claimed for ever when its process dies, or be taken over after a
// timeout, possibly by two processes.)
//
// With [AtMostOnce] the record is written before the function is called, and completed after it. If the process dies
// in between, or the function fails, no process repeats it, and Do returns [Begun]. Even then the function may not
// have been called at all.
//
// The function's context ends when the lock is lost, before another process can acquire it, as with package mutex; so
// functions that stop then never run at the same time, also not for different slots. [Run] has a fencing token for
// systems that can refuse a late writer.
//
// # Lost replies
//
// A record whose reply was lost is found again: it is persistent and contains an id. The write of a record after the
// function has returned is retried until it is executed, also after Do has returned, and also if the lock was lost: the
// function has run. (A process that acquires the lock before that may find no record, and then runs the slot again.)
// If the record cannot be written, or not before Do's context ends, the error matches [ErrNotRecorded], and the slot
// may be run again.
//
// # Old slots
//
// [WithKeep] sets how many records of a job are kept; older ones are deleted now and then. A slot whose record was
// deleted is run again if Do is called for it. Slots that were missed, because no process was running, are skipped;
// with [WithCatchUp] they are run first.
//
// Curator has nothing like it. The znodes are in docs/znodes.md.
package once
