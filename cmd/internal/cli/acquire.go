package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/recipes/mutex"
)

// acquireCommand is a command that takes something once: lock and permit.
type acquireCommand struct {
	holdCommand
	try  bool
	wait time.Duration
}

func (t *acquireCommand) flags(f *pflag.FlagSet) {
	f.BoolVar(&t.try, "try", false, "do not wait: exit with 121 if another process holds it")
	f.DurationVar(&t.wait, "wait", 0, "wait at most this long, then exit with 121 (0s: as --try; default: for ever)")
	t.holdCommand.flags(f)
}

// acquireAndRun acquires, runs the command and releases. acquire waits until ctx ends.
func (t *acquireCommand) acquireAndRun(
	try, acquire func(ctx context.Context, client *framework.Client) (commandHold, error),
) error {
	if t.try && t.wait > 0 {
		return usageError("--try and --wait contradict each other")
	}
	if t.wait < 0 {
		return usageError("--wait %v is negative", t.wait)
	}
	if t.wait == 0 && t.cmd.Flags().Changed("wait") {
		t.try = true
	}
	return t.connectAndRun(func(ctx context.Context, stop func()) error {
		h, err := t.afterAcquire(ctx, try, acquire)
		if err != nil {
			return err
		}
		stop() // from here on the signals are the command's
		_, err = t.runCommand(h)
		release, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if failed := h.release(release); failed != nil && t.verbose {
			printLine(t.cmd.ErrOrStderr(), "%v", failed) // Close retries the deletion
		}
		return err
	})
}

func (t *acquireCommand) afterAcquire(
	ctx context.Context, try, acquire func(context.Context, *framework.Client) (commandHold, error),
) (commandHold, error) {
	if t.try {
		h, err := try(ctx, t.client)
		if errors.Is(err, mutex.ErrNotAcquired) {
			err = t.describeHolder(ctx, err)
		}
		return h, err
	}
	waiting := ctx
	if t.wait > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, t.wait)
		defer cancel()
	}
	h, err := acquire(waiting, t.rejoiningClient())
	if errors.Is(err, context.DeadlineExceeded) {
		err = programExit{exitNotAcquired, t.describeHolder(ctx, fmt.Errorf("not acquired within %v: %w", t.wait, err))}
	}
	return h, err
}

// describeHolder adds the path's present holder to err, if that is known within two seconds.
func (t *acquireCommand) describeHolder(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	line, unknown := inspect.Who(ctx, t.client, t.path)
	if unknown != nil || len(line.Holders) == 0 {
		return err
	}
	connected, _ := inspect.Connections(ctx, t.client)
	p := line.Holders[0]
	by := "session " + sessionText(p.Session)
	if p.Session == 0 {
		by = "a node that is not ephemeral"
	}
	if client := connected.By[p.Session].Client; client != "" {
		by += " of " + plain.Text(client)
	}
	if !p.Since.IsZero() {
		by += ", which joined the line " + ageText(p.Since) + " ago"
	}
	if len(p.Data) > 0 {
		by += ", with the data " + plain.Text(string(p.Data))
	}
	if more := len(line.Holders) - 1; more > 0 {
		by += fmt.Sprintf(", and %d more", more)
	}
	return fmt.Errorf("%w; held by %s", err, by)
}
