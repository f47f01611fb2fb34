package servers

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/go-curator/curator/compare/internal/bed"
	"github.com/go-curator/curator/compare/internal/clock"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/zkserver"
)

// ZooKeeper is an ensemble as the module integration starts it, with the time limits that ensembles usually run
// with: a tick of 2 s, a syncLimit of 5.
type ZooKeeper struct {
	bed *bed.Bed
	*zkserver.Ensemble
}

func zookeeper(dir string, n int) (*ZooKeeper, error) {
	z := &ZooKeeper{bed: bed.New(filepath.Join(dir, "zookeeper"))}
	if err := z.bed.Try(func() { z.Ensemble = zkserver.StartEnsemble(z.bed, n, zkserver.AsUsual()) }); err != nil {
		return nil, errors.Join(err, z.bed.End())
	}
	return z, nil
}

// Addrs implements Server.
func (z *ZooKeeper) Addrs() (addrs []string) {
	for i := range z.Size() {
		addrs = append(addrs, z.Addr(i))
	}
	return addrs
}

// Start implements Server. It waits for as much of the ensemble as can serve.
func (z *ZooKeeper) Start(i int) error {
	if err := z.Ensemble.Start(i); err != nil {
		return err
	}
	if z.Size() > 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return z.AwaitServing(ctx)
}

// Step implements Server. A member's time is read from a node just created through it, if it leads.
func (z *ZooKeeper) Step(i int, by time.Duration) error {
	pid, err := z.Pid(i)
	if err == nil {
		err = clock.Step(pid, by)
	}
	if err != nil {
		return err
	}
	return clock.Await(context.Background(), by, func(ctx context.Context) (now time.Time, err error) {
		client, err := framework.New(z.Addr(i), framework.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return now, err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		var stat framework.Stat
		_, err = client.Create().WithMode(framework.Ephemeral).StoringStatIn(&stat).ForPath(ctx, "/clock", nil)
		return stat.Created(), err
	})
}

// Close implements Server.
func (z *ZooKeeper) Close() error { return z.bed.End() }
