package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/node"
)

// Owner is the data of the lock's node: the manager that holds the lock. The node's ctime is the time of the grant.
type Owner struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
}

// Manager is one of several processes that watch over a database. One at a time may act. The right to act is a claim
// on one named node, so that operators see its holder in one read.
type Manager struct {
	Client *framework.Client
	Path   string // of the lock's node
	Self   Owner
	// Act does the work that needs the lock, until ctx ends: then another manager may act. It calls valid right
	// before each step that two managers must not do. token grows from manager to manager, for stores that can
	// compare it.
	Act func(ctx context.Context, token int64, valid func() bool) error
	// Other, if not nil, is called with the lock's holder when this manager begins to wait for the lock.
	Other func(Owner)
}

// Run takes the lock whenever it is free, and acts for as long as it is this manager's, until ctx ends or Act
// fails.
func (m *Manager) Run(ctx context.Context) error {
	for {
		err := m.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

// turn waits for the lock, and acts. It returns nil for transient errors of the wait: Run tries again.
func (m *Manager) turn(ctx context.Context) error {
	data, err := json.Marshal(m.Self)
	if err != nil {
		return err
	}
	claim, err := node.TryClaim(ctx, m.Client, m.Path, data)
	if errors.Is(err, node.ErrNotAcquired) {
		var other Owner
		holder, _, _ := node.Holder(ctx, m.Client, m.Path)
		if m.Other != nil && json.Unmarshal(holder.Data, &other) == nil {
			m.Other(other)
		}
		claim, err = node.AwaitClaim(ctx, m.Client, m.Path, data)
	}
	switch {
	case framework.Retryable(err), errors.Is(err, framework.ErrSessionLost):
		return nil
	case err != nil:
		return err
	}
	defer claim.Release(context.WithoutCancel(ctx)) // ends with the session at the latest
	acting, cancel := context.WithCancel(claim.Context())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	err = m.Act(acting, claim.FencingToken(), claim.Valid)
	if claim.Context().Err() != nil { // the loss of the lock is not a failure of Act
		return nil
	}
	return err
}
