package servers

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/go-curator/curator/compare/internal/bed"
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

// Close implements Server.
func (z *ZooKeeper) Close() error { return z.bed.End() }
