package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/node"
)

// Owner is the data of the lock's node: the manager that holds the lock.
type Owner struct {
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// Manager is one of several processes that watch over a database. One at a time may act. The right to act is a claim
// on one named node, so that operators see its holder in one read.
type Manager struct {
	Client *framework.Client
	Path   string        // of the lock's node
	Self   Owner         // Since is set when the lock is taken
	Every  time.Duration // how often a manager without the lock tries to take it

	// Act does the work that needs the lock, until ctx ends: then another manager may act. It calls valid right
	// before each step that two managers must not do. token grows from manager to manager, for stores that can
	// compare it.
	Act func(ctx context.Context, token int64, valid func() bool) error
	// Other is called with the lock's holder, each time that this manager could not take the lock.
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
		case <-time.After(m.Every):
		case <-ctx.Done():
			return nil
		}
	}
}

// turn tries to take the lock, and acts if that succeeds. It returns nil for transient errors: Run tries again.
func (m *Manager) turn(ctx context.Context) error {
	self := m.Self
	self.Since = time.Now()
	data, err := json.Marshal(self)
	if err != nil {
		return err
	}
	claim, err := node.TryClaim(ctx, m.Client, m.Path, data)
	switch {
	case errors.Is(err, node.ErrNotAcquired):
		return m.tell(ctx)
	case framework.Retryable(err), errors.Is(err, framework.ErrSessionLost):
		return nil
	case err != nil:
		return err
	}
	defer func() {
		releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = claim.Release(releasing) // if it is not released by then, the client continues in the background
	}()
	acting, cancel := context.WithCancel(claim.Context())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	err = m.Act(acting, claim.FencingToken(), claim.Valid)
	if claim.Context().Err() != nil { // the loss of the lock is not a failure of Act
		return nil
	}
	return err
}

// tell calls Other with the lock's holder, if its node can be read.
func (m *Manager) tell(ctx context.Context) error {
	data, err := m.Client.GetData().ForPath(ctx, m.Path)
	if errors.Is(err, framework.ErrNoNode) || framework.Retryable(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var other Owner
	if err := json.Unmarshal(data, &other); err == nil && m.Other != nil {
		m.Other(other)
	}
	return nil
}
