package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

// pingLatency is the result of ping, in JSON. Times are in milliseconds.
type pingLatency struct {
	Server string     `json:"server"`
	Reads  roundTrips `json:"read"`
	Syncs  roundTrips `json:"sync"`
}

type roundTrips struct {
	Least  float64 `json:"min"`
	Median float64 `json:"median"`
	Most   float64 `json:"max"`
}

func newPing(h commandHost) *cobra.Command {
	var out outputForm
	count := 10
	cmd := &cobra.Command{
		Use:   "ping",
		Short: "Print how long the connected server and the leader take to reply",
		Long: `Print how long the connected server takes to reply to a read, and how long the leader takes to reply to a
sync, through the connected server. The requests are sent one after the other.`,
		Args:              argumentCount(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out.formFlag(cmd.Flags())
	cmd.Flags().IntVarP(&count, "count", "c", count, "how many requests of each kind")
	return h.setAction(cmd, func(ctx context.Context, client *framework.Client, _ []string) error {
		if count < 1 {
			return usageError("--count %d: give 1 or more", count)
		}
		reads, err := measureTimes(count, func() error {
			_, err := client.CheckExists().ForPath(ctx, "/")
			if errors.Is(err, framework.ErrNoAuth) {
				return nil // a reply: another client may own "/"
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("the server does not reply: %w", err)
		}
		syncs, err := measureTimes(count, func() error { return client.Sync().ForPath(ctx, "/") })
		if err != nil {
			return fmt.Errorf("the server replies to reads (%v ms), but the leader does not reply: %w", reads.Median, err)
		}
		l := pingLatency{client.Health().Server, reads, syncs}
		return out.printValue(cmd, l, func(w io.Writer) {
			fmt.Fprintf(w, "%s\tmin\tmedian\tmax\tms\n", printableName(l.Server))
			for _, of := range []struct {
				what string
				roundTrips
			}{{"read", l.Reads}, {"sync, by the leader", l.Syncs}} {
				fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\n", of.what, of.Least, of.Median, of.Most)
			}
		})
	})
}

func measureTimes(count int, ask func() error) (roundTrips, error) {
	var took []float64
	for range count {
		began := time.Now()
		if err := ask(); err != nil {
			return roundTrips{}, err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	slices.Sort(took)
	return roundTrips{took[0], took[count/2], took[count-1]}, nil
}
