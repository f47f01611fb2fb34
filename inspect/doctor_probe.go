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

// Probe has the measurements made with a node of [WithProbe].
type Probe struct {
	// Write is the time that the create took.
	Write time.Duration
	// Ahead is by how much the leader's clock is ahead of this machine's, give or take Within.
	Ahead, Within time.Duration
}

// WithProbe has [Doctor] create an ephemeral node in the directory, which must exist, and delete it again. This is
// the only way to learn how long a write takes, whether this client may create nodes there, and the time of the
// servers' clock. Default: no node is created.
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

// createProbe creates the node, and deletes it. If the deletion fails, the client retries it in the background.
func createProbe(ctx context.Context, client *framework.Client, dir string) (*Probe, error) {
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
