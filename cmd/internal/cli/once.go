package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/cmd/internal/run"
	"github.com/go-curator/curator/recipes/once"
)

// onceCommand is the command once.
type onceCommand struct {
	holdCommand
	wait       time.Duration
	atMostOnce bool
	slot       once.Slot
}

func newOnce(c clientConnection) *cobra.Command {
	d := onceCommand{holdCommand: holdCommand{clientConnection: c}}
	cmd := &cobra.Command{
		Use:   "once PATH SLOT [flags] -- COMMAND [ARGUMENT]…",
		Short: "Run a command once for a slot, on one machine",
		Long: `Run a command once for a slot, such as an hour or a release, on the machine that acquires it first.

PATH is the job, below a directory for jobs: /cron/report. SLOT is any text without "/", or @D: the
present interval of that length, in UTC, as @1h or @24h. All must use the same text, or length.
The job's lock is held while the command runs, and works as with "curator lock": the command has ended
before another process can run the job, for this slot or another one.

Status 0 of the command is recorded, and all other processes for the slot exit with 0 without running it.
If it ends with another status, or is terminated because the lock was lost, or a signal has asked it to
end, nothing is recorded: the next process, or the next waiter, runs it again. The same happens if the
machine dies before the command has had an effect, or after that and before the record is written: at
least once. It must be safe to run the command again.

With --at-most-once the record is written before the command is started. If the machine dies after that,
or the command fails, no process runs it again, whether or not it has had an effect: all others exit with 121.`,
		Example: `  curator once /cron/report "$(date +%F)" -- ./report.sh
  curator once /cron/cleanup @1h --jitter 30s -- ./cleanup.sh
  curator once /releases/announce v1.4.0 --at-most-once -- ./announce.sh v1.4.0`,
		Args: d.parseArguments,
		RunE: func(*cobra.Command, []string) error { return d.runOnce() },
	}
	cmd.Flags().BoolVar(&d.atMostOnce, "at-most-once", false, "record the slot before the command is started")
	cmd.Flags().DurationVar(&d.wait, "wait", 0,
		"wait at most this long for others that run the job, then exit with 121 (default: for ever)")
	d.holdCommand.flags(cmd.Flags())
	return cmd
}

// parseArguments takes PATH SLOT -- COMMAND…. The slot of an interval is fixed here: --jitter may end in the next one.
func (d *onceCommand) parseArguments(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if dash != 2 || dash == len(args) {
		return usageError("write %s PATH SLOT -- COMMAND [ARGUMENT]…", cmd.CommandPath())
	}
	if d.wait < 0 {
		return usageError("--wait %v is negative", d.wait)
	}
	if d.wait == 0 && cmd.Flags().Changed("wait") {
		return usageError("--wait %v is too short to find out whether another process runs the job: give a second, say, or leave it out "+
			"to wait for ever", d.wait)
	}
	d.slot = once.Named(args[1])
	if length, isTime := strings.CutPrefix(args[1], "@"); isTime {
		every, err := time.ParseDuration(length)
		if err != nil || every <= 0 {
			return usageError("the slot %q is no interval: write @1h, @24h, @15m", args[1])
		}
		d.slot = once.At(time.Now(), every)
	}
	if err := d.checkArguments(cmd, args[0], args[2:]); err != nil {
		return err
	}
	if path.Dir(d.path) == "/" {
		return usageError("the path %q is to be that of a job below a directory for jobs: /cron/report", d.path)
	}
	return nil
}

func (d *onceCommand) runOnce() error {
	return d.connectAndRun(func(ctx context.Context, stop func()) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		inTime := func() bool { return true } // ends the wait, unless it has come to its end
		if d.wait > 0 {
			inTime = time.AfterFunc(d.wait, func() { cancel(context.DeadlineExceeded) }).Stop
			defer inTime()
		}
		var opts []once.Option
		if d.atMostOnce {
			opts = append(opts, once.AtMostOnce())
		}
		var end error // of the command, if it has run
		heard := func() {}
		defer func() { heard() }()
		jobs := once.New(d.rejoiningClient(), path.Dir(d.path), opts...)
		outcome, err := jobs.Do(ctx, path.Base(d.path), d.slot, func(work context.Context, r once.Run) error {
			if stop(); !inTime() || ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if end = d.runJob(work, r); programExitOf(end).code != 0 {
				return end
			}
			var asked context.Context // a signal that asks to end does not wait for the record
			asked, heard = d.untilSignal(context.Background())
			context.AfterFunc(asked, func() { cancel(context.Cause(asked)) })
			return nil
		})
		if end != nil {
			return d.endAfterRun(end, err)
		}
		return d.endWithoutRun(ctx, outcome, err)
	})
}

// runJob runs the command under the job's lock. The slot is done only if the command has exited with status 0 and was
// not asked to end: after a signal it may have ended early with any status.
func (d *onceCommand) runJob(ctx context.Context, r once.Run) error {
	h := commandHold{Hold: onceRunHold{ctx, r}, node: r.Path(), token: r.FencingToken, slot: r.Slot.String()}
	least, began := d.minHold, time.Now()
	d.minHold = 0
	outcome, end := d.runCommand(h)
	if programExitOf(end).code != 0 {
		return end
	}
	if outcome.Passed != nil {
		return programExit{run.Status(outcome.Passed), fmt.Errorf("%s was asked to end (%v): the slot %s is not recorded as "+
			"done", d.command[0], outcome.Passed, d.slot)}
	}
	d.keepHold(h, least-time.Since(began))
	return end
}

// endAfterRun returns the program's end after the command has run. err is the result of Do.
func (d *onceCommand) endAfterRun(end, err error) error {
	switch {
	case programExitOf(end).code != 0:
		return end
	case errors.Is(err, once.ErrNotRecorded):
		return programExit{exitFailure, fmt.Errorf("%s has ended with status 0, and may be run again for the slot: %w",
			d.command[0], err)}
	case err != nil && d.verbose:
		printLine(d.cmd.ErrOrStderr(), "%v", err)
	}
	return end
}

// endWithoutRun is the end of the program when the command has not run.
func (d *onceCommand) endWithoutRun(ctx context.Context, outcome once.Outcome, err error) error {
	switch {
	case err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return programExit{exitNotAcquired, fmt.Errorf("not acquired within %v: %w", d.wait, err)}
	case err != nil:
		return err
	case outcome == once.Begun:
		return programExit{exitNotAcquired, fmt.Errorf("another process has begun the slot %s of %s, and runs it, has failed "+
			"or has died: no process runs it again, unless you delete the record", d.slot, d.path)}
	case d.verbose:
		printLine(d.cmd.ErrOrStderr(), "the slot %s of %s was done before", d.slot, d.path)
	}
	return nil
}

// onceRunHold is a run of package once as something that a command can be run under.
type onceRunHold struct {
	ctx context.Context
	run once.Run
}

func (h onceRunHold) Context() context.Context { return h.ctx }
func (h onceRunHold) Remaining() time.Duration { return h.run.Remaining() }
