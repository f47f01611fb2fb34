package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
)

func newLock(c clientConnection) *cobra.Command {
	t := acquireCommand{holdCommand: holdCommand{clientConnection: c}}
	var shared, exclusive bool
	cmd := &cobra.Command{
		Use:   "lock PATH [flags] -- COMMAND [ARGUMENT]…",
		Short: "Run a command while holding the lock at a path",
		Long: `Run a command while holding the lock at a path.

The lock is that of Java's InterProcessMutex; with --shared or --exclusive it is the reading or writing
side of an InterProcessReadWriteLock, which is another lock: all that use a path must use one kind.`,
		Example: `  curator lock /locks/backup -- pg_dump -f /backup/db.sql db
  curator lock /locks/nightly --try --min-hold 1m --jitter 5s -- ./nightly.sh
  curator lock /locks/catalog --shared -- ./read.sh     # beside others with --shared
  curator lock /locks/catalog --exclusive -- ./write.sh # alone`,
		Args: t.parseArguments,
		RunE: func(*cobra.Command, []string) error {
			if shared && exclusive {
				return usageError("--shared and --exclusive contradict each other")
			}
			if shared || exclusive {
				return t.acquireAndRun(readWriteSide(t.path, shared, (*rwlock.Side).TryAcquire),
					readWriteSide(t.path, shared, (*rwlock.Side).Acquire))
			}
			return t.acquireAndRun(mutexAt(t.path, (*mutex.Mutex).TryAcquire), mutexAt(t.path, (*mutex.Mutex).Acquire))
		},
	}
	cmd.Flags().BoolVar(&shared, "shared", false, "the reading side of a read-write lock: beside other readers")
	cmd.Flags().BoolVar(&exclusive, "exclusive", false, "the writing side of a read-write lock: alone")
	t.flags(cmd.Flags())
	return cmd
}

type acquireFunc = func(context.Context, *framework.Client) (commandHold, error)

func mutexAt(path string, acquire func(*mutex.Mutex, context.Context) (*mutex.Lock, error)) acquireFunc {
	return func(ctx context.Context, client *framework.Client) (commandHold, error) {
		l, err := acquire(mutex.New(client, path), ctx)
		if err != nil {
			return commandHold{}, err
		}
		h := commandHold{Hold: l, node: l.Path(), token: l.FencingToken(), release: l.Release}
		return h, h.refuseOtherKind(ctx, client, path, "--exclusive or --shared, as they do", "__READ__", "__WRIT__")
	}
}

func readWriteSide(
	path string, shared bool, acquire func(*rwlock.Side, context.Context) (*rwlock.Lock, error),
) acquireFunc {
	return func(ctx context.Context, client *framework.Client) (commandHold, error) {
		lock := rwlock.New(client, path)
		side := lock.WriteLock()
		if shared {
			side = lock.ReadLock()
		}
		l, err := acquire(side, ctx)
		if err != nil {
			return commandHold{}, err
		}
		h := commandHold{Hold: l, node: l.Path(), token: l.FencingToken(), release: l.Release}
		return h, h.refuseOtherKind(ctx, client, path, "neither --shared nor --exclusive", "-lock-", "__lock__")
	}
}

// refuseOtherKind releases the lock and returns an error if the path is also used for a lock of the other kind: the two kinds
// do not exclude each other. Of two that come at the same time the later one sees the earlier one's node.
func (h commandHold) refuseOtherKind(ctx context.Context, client *framework.Client, path, give string, marks ...string) error {
	names, err := client.GetChildren().ForPath(ctx, path)
	for _, name := range names {
		for _, mark := range marks {
			if strings.Contains(name, mark) && err == nil {
				err = usageError("others use %s for a lock of the other kind (%s): give %s", path, name, give)
			}
		}
	}
	if err != nil {
		release, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = h.release(release) // Close retries the deletion
	}
	return err
}
