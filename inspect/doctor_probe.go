package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
)

// Probe is what a node that was made for it has told.
type Probe struct {
	// Write is how long it took to make it.
	Write time.Duration
	// Ahead is by how much the leader's clock is ahead of this machine's, give or take Within.
	Ahead, Within time.Duration
}

// WithProbe has [Doctor] make an ephemeral node in the directory, which must exist, and delete it again: the
// only way to learn how long a write takes, whether this client may make nodes there, and what the servers'
// clock says. Default: no node is made.
func WithProbe(dir string) Option {
	return func(l *limits) error {
		var fault *zkpath.Error
		if errors.As(zkpath.Validate(dir, false), &fault) {
			return fmt.Errorf("%w %q: %s", framework.ErrInvalidPath, plain.Text(fault.Path), fault.Reason)
		}
		l.probe = dir
		return nil
	}
}

// probe makes the node. The client goes on deleting it if it cannot at once.
func probe(ctx context.Context, client *framework.Client, dir string) (*Probe, error) {
	var stat framework.Stat
	began := time.Now()
	path, err := client.Create().WithMode(framework.EphemeralSequential).WithProtection().StoringStatIn(&stat).
		ForPath(ctx, zkpath.Join(dir, "curator-probe-"), []byte{})
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	p := &Probe{Write: took, Within: took/2 + time.Millisecond}
	p.Ahead = stat.Created().Sub(began.Add(took / 2))
	return p, client.Delete().Guaranteed().Quietly().ForPath(ctx, path)
}
