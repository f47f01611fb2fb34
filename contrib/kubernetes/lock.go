// Package curatorkubernetes lets the leader election of client-go, which controllers of Kubernetes use, keep its record in
// ZooKeeper.
//
//	lock := curatorkubernetes.NewLock(client, "/controllers/billing", hostname)
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{Lock: lock, …})
//
// The manager of controller-runtime takes it as LeaderElectionResourceLockInterface. It is a separate module, so that
// users of the library do not get client-go.
package curatorkubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/go-curator/curator/framework"
)

// Lock implements resourcelock.Interface with a node whose data are the record, as JSON. Each process makes its own Lock.
// Safe for concurrent use.
//
// It is client-go that elects: the leader renews the record, and another process may lead when it has not seen a renewal
// for LeaseDuration. So the guarantee is client-go's, by the clocks of the processes, and the node is persistent: an
// ephemeral one would be deleted with its session, possibly while its leader still leads. Where a loss must be noticed
// before another process leads, use package leader; a process of package leader does not take part in this election.
//
// Without a connection every method fails immediately, with framework.ErrNotConnected: client-go tries again after
// RetryPeriod, and with ReleaseOnCancel it calls OnStoppedLeading only when its attempt to release has ended.
type Lock struct {
	client         *framework.Client
	path, identity string
	version        atomic.Int64 // of the node when it was last read or written; -1 before
}

// NewLock returns the lock at path for the process with this identity, which must be unique. The node is created when a
// process first leads, with missing parents, and stays.
func NewLock(client *framework.Client, path, identity string) *Lock {
	l := &Lock{client: client, path: path, identity: identity}
	l.version.Store(-1)
	return l
}

// Get implements resourcelock.Interface. If there is no node the error is a NotFound of apimachinery. A node without data
// is a record without a holder.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.checkConnected(); err != nil {
		return nil, nil, err
	}
	var stat framework.Stat
	data, err := l.client.GetData().StoringStatIn(&stat).ForPath(ctx, l.path)
	if errors.Is(err, framework.ErrNoNode) {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "znodes"}, l.path)
	}
	if err != nil {
		return nil, nil, err
	}
	var record resourcelock.LeaderElectionRecord
	if len(data) > 0 {
		if err := json.Unmarshal(data, &record); err != nil {
			return nil, nil, fmt.Errorf("the data of %s are no record of an election: %w", l.path, err)
		}
	}
	l.version.Store(int64(stat.Version))
	return &record, data, nil
}

// Create implements resourcelock.Interface. If the node exists the error is framework.ErrNodeExists.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	data, err := json.Marshal(record)
	if err == nil {
		err = l.checkConnected()
	}
	if err != nil {
		return err
	}
	_, err = l.client.Create().CreatingParentsIfNeeded().ForPath(ctx, l.path, data)
	if err == nil {
		l.version.Store(0)
	}
	return err
}

// Update implements resourcelock.Interface. If the node has changed since the last Get, Create or Update of this Lock, the
// error is framework.ErrBadVersion. Versions begin again with a new node, so do not delete the node while processes take
// part.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	data, err := json.Marshal(record)
	if err == nil {
		err = l.checkConnected()
	}
	if err != nil {
		return err
	}
	version := int32(l.version.Load())
	if version < 0 {
		return fmt.Errorf("%w: call Get or Create before Update", framework.ErrBadVersion)
	}
	stat, err := l.client.SetData().WithVersion(version).ForPath(ctx, l.path, data)
	if err == nil {
		l.version.Store(int64(stat.Version))
	}
	return err
}

func (l *Lock) checkConnected() error {
	if err := l.client.Err(); err != nil {
		return err
	}
	if state := l.client.State().State; !state.IsConnected() {
		return fmt.Errorf("%w: the state is %v", framework.ErrNotConnected, state)
	}
	return nil
}

// RecordEvent implements resourcelock.Interface: it logs the event.
func (l *Lock) RecordEvent(event string) {
	l.client.Logger().Info("leader election", "path", l.path, "identity", l.identity, "event", event)
}

// Identity implements resourcelock.Interface.
func (l *Lock) Identity() string { return l.identity }

// Describe implements resourcelock.Interface: it returns the path.
func (l *Lock) Describe() string { return l.path }
