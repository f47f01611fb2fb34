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

// taking is a command that takes something once: lock and permit.
type taking struct {
	under
	try  bool
	wait time.Duration
}

func (t *taking) flags(f *pflag.FlagSet) {
	f.BoolVar(&t.try, "try", false, "do not wait: exit with 121 if another process holds it")
	f.DurationVar(&t.wait, "wait", 0, "wait at most this long, then exit with 121 (0s: as --try; default: for ever)")
	t.under.flags(f)
}

// take acquires, runs the command and releases. acquire waits until ctx ends.
func (t *taking) take(
	try, acquire func(ctx context.Context, client *framework.Client) (hold, error),
) error {
	if t.try && t.wait > 0 {
		return usage("--try and --wait contradict each other")
	}
	if t.wait < 0 {
		return usage("--wait %v is negative", t.wait)
	}
	if t.wait == 0 && t.cmd.Flags().Changed("wait") {
		t.try = true
	}
	return t.begin(func(ctx context.Context, stop func()) error {
		h, err := t.acquired(ctx, try, acquire)
		if err != nil {
			return err
		}
		stop() // from here on the signals are the command's
		_, err = t.run(h)
		release, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if failed := h.release(release); failed != nil && t.verbose {
			say(t.cmd.ErrOrStderr(), "%v", failed) // Close retries the deletion
		}
		return err
	})
}

func (t *taking) acquired(
	ctx context.Context, try, acquire func(context.Context, *framework.Client) (hold, error),
) (hold, error) {
	if t.try {
		h, err := try(ctx, t.client)
		if errors.Is(err, mutex.ErrNotAcquired) {
			err = t.heldBy(ctx, err)
		}
		return h, err
	}
	waiting := ctx
	if t.wait > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, t.wait)
		defer cancel()
	}
	h, err := acquire(waiting, t.patient())
	if errors.Is(err, context.DeadlineExceeded) {
		err = exit{exitNotAcquired, t.heldBy(ctx, fmt.Errorf("not acquired within %v: %w", t.wait, err))}
	}
	return h, err
}

// heldBy adds the path's present holder to err, if that is known within two seconds.
func (t *taking) heldBy(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	line, unknown := inspect.Who(ctx, t.client, t.path)
	if unknown != nil || len(line.Holders) == 0 {
		return err
	}
	connected, _ := inspect.Connections(ctx, t.client)
	p := line.Holders[0]
	by := "session " + session(p.Session)
	if p.Session == 0 {
		by = "a node that is not ephemeral"
	}
	if client := connected.By[p.Session].Client; client != "" {
		by += " of " + plain.Text(client)
	}
	if !p.Since.IsZero() {
		by += ", which joined the line " + age(p.Since) + " ago"
	}
	if len(p.Data) > 0 {
		by += ", with the data " + plain.Text(string(p.Data))
	}
	if more := len(line.Holders) - 1; more > 0 {
		by += fmt.Sprintf(", and %d more", more)
	}
	return fmt.Errorf("%w; held by %s", err, by)
}
