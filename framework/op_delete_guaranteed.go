package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/internal/wire"
)

// removalState is how far a node's removal is that the client does not give up: a guaranteed delete, and
// every clean-up.
type removalState int8

const (
	removalTried   removalState = iota // the caller's operation goes on
	removalAwaited                     // the request is under way, and its caller has left
	removalOwed                        // it is a clean-up
	removalOver
)

type removalEvent int8

const (
	removalDone       removalEvent = iota
	removalRefused                 // by the server
	removalUnfinished              // not executed, or the outcome is unknown
	removalBlocked                 // by children, which are to be deleted, too
	removalLeft                    // the caller has left
	removalVoid                    // the client is closed, or the node has gone with its session
)

type removalAction int8

const (
	removalNoAction removalAction = iota
	removalHandOver               // make it a clean-up
	removalRetry                  // try again after a pause
	removalWarn                   // say that the node stays
)

// removalMoves are the transitions of a removal. Those that are not there end it.
var removalMoves = map[when[removalState, removalEvent]]then[removalState, removalAction]{
	{removalTried, removalLeft}:         {removalAwaited, removalNoAction},
	{removalTried, removalUnfinished}:   {removalOwed, removalHandOver},
	{removalAwaited, removalUnfinished}: {removalOwed, removalHandOver},
	{removalAwaited, removalBlocked}:    {removalOwed, removalHandOver},
	{removalOwed, removalUnfinished}:    {removalOwed, removalRetry},
	{removalOwed, removalRefused}:       {removalOver, removalWarn},
}

func (s removalState) next(ev removalEvent) (removalState, removalAction) {
	move, ok := removalMoves[when[removalState, removalEvent]{s, ev}]
	if !ok {
		return removalOver, removalNoAction
	}
	return move.state, move.action
}

// removalEventOf is the event of an operation's error.
func removalEventOf(err error) removalEvent {
	switch {
	case unlessNoNode(err) == nil:
		return removalDone
	case unfinished(err):
		return removalUnfinished
	}
	return removalRefused
}

// guaranteed is the debt of a guaranteed delete.
type guaranteed struct {
	c     *Client
	state removalState
	owed  cleanup
}

func (g *guaranteed) apply(ev removalEvent) (full error) {
	var action removalAction
	if g.state, action = g.state.next(ev); action == removalHandOver {
		full = g.c.core.ops.cleanups.add(g.owed)
	}
	return full
}

// recover implements debt.
func (g *guaranteed) recover(context.Context, *run[struct{}]) (v struct{}, done bool, err error) {
	return v, false, nil
}

// answered implements debt.
func (g *guaranteed) answered(error) {}

// late implements debt.
func (g *guaranteed) late(reply wire.Reply) {
	err := replyError(reply)
	ev := removalEventOf(err)
	if g.owed.children && errors.Is(err, ErrNotEmpty) {
		ev = removalBlocked
	}
	g.apply(removalLeft)
	g.apply(ev) // nobody is left to be told that there are too many clean-ups
}

// failed implements debt.
func (g *guaranteed) failed(err error) error {
	if full := g.apply(removalEventOf(err)); full != nil {
		err = fmt.Errorf("%w; %w", err, full)
	}
	return err
}
