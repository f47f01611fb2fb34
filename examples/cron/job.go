package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/once"
)

// reports makes a report per slot until ctx ends. All processes of the service call it; one of them makes it.
func reports(ctx context.Context, client *framework.Client, every time.Duration, out io.Writer) error {
	jobs := once.New(client, "/cron", once.WithCatchUp(24))
	for ctx.Err() == nil {
		_, err := jobs.Do(ctx, "report", once.At(time.Now(), every), func(ctx context.Context, run once.Run) error {
			_, err := fmt.Fprintf(out, "the report of %v\n", run.Slot)
			return err
		})
		if err != nil && ctx.Err() == nil {
			slog.Warn("the report is tried again in the next slot", "err", err) // which catches up
		}
		select {
		case <-time.After(time.Until(time.Now().Truncate(every).Add(every))):
		case <-ctx.Done():
		}
	}
	return nil
}
