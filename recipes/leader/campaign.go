package leader

import (
	"context"
	"errors"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/line"
)

// Campaign joins the election at path, blocks until this process leads, and returns the term. It takes part in the same
// elections as a [Selector], for code that cannot be the Selector's function. The caller ends the term by [Term.Resign];
// the client deletes the node of a lost term, after the grace ([framework.WithFenceGrace]). A term that is neither
// resigned nor lost lasts as long as the session.
//
// When ctx ends, Campaign returns immediately, and the client deletes the node in the background. The term outlives ctx,
// and its context has the values of ctx. Until Campaign has a node in the line, the retry policy limits the attempts;
// from then on it waits through lost connections and lost sessions. It returns the errors of [Selector.Run], except
// ErrRunning, and framework.ErrNotConnected and ErrConnectionLoss after the last attempt.
//
// The options are a Selector's. Curator has no such method; etcd's client has, as Election.Campaign.
func Campaign(ctx context.Context, client *framework.Client, path string, opts ...Option) (*Term, error) {
	s := NewSelector(client, path, func(context.Context) error { return nil }, opts...)
	err := line.CheckCall(ctx, client, s.err)
	if err != nil {
		return nil, wrapError(path, "campaign", err)
	}
	term, err := s.joinLine(ctx)
	if err != nil {
		return nil, wrapError(path, "campaign", err)
	}
	s.recordTermBegin(term)
	client.Spawn(func(ctx context.Context) { // the client's end is the term's as well
		<-term.Context().Done()
		defer func() { // also if the logger ends the goroutine
			defer close(term.done)
			client.Pause(ctx, term.grant.Hold.Grace())
			if cause := term.endCause(); !errors.Is(cause, ErrSessionLost) { // a lost session is closed by the client
				term.deleted = startDeletion(term.grant, cause)
			}
			if term.deleted != nil {
				term.deleted.IfFailed(func(err error) { line.LogRefusal(client, term.Path(), err) })
			}
		}()
		s.recordTermEnd(term)
	})
	return term, nil
}
