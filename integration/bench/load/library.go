package main

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/integration/bench"
)

// library is go-zookeeper with its Lock, which ends neither with a context nor with its session.
type library struct{ sessions []*zk.Conn }

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func (l *library) turns(_ context.Context, job bench.Job) (turns []turn, err error) {
	for range job.Sessions {
		session, events, err := zk.Connect([]string{*server}, sessionTimeout, zk.WithLogger(quiet{}))
		if err != nil {
			return nil, err
		}
		l.sessions = append(l.sessions, session)
		for event := range events {
			if event.State == zk.StateHasSession {
				break
			}
		}
		go func() {
			for range events { // read, since it logs the events that it has to drop
			}
		}()
	}
	if job.Work != "mutex" {
		return nil, fmt.Errorf("go-zookeeper has nothing for %q", job.Work)
	}
	for i := range job.Contenders {
		lock := zk.NewLock(l.sessions[i%job.Sessions], job.Path, zk.WorldACL(zk.PermAll))
		turns = append(turns, func(_ context.Context, held func()) error {
			if err := lock.Lock(); err != nil {
				return err
			}
			held()
			return lock.Unlock()
		})
	}
	return turns, nil
}

func (l *library) close() error {
	for _, session := range l.sessions {
		session.Close()
	}
	return nil
}
