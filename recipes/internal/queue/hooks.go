package queue

import (
	"context"

	"github.com/go-curator/curator/framework"
)

// Begin tells the hooks that an acquisition begins. It returns the context to go on with, and what to call at
// its end, with [Finish].
func (l *Line) Begin(ctx context.Context) (context.Context, func(error)) {
	return l.Client.Hooks().Acquire(ctx, framework.Acquisition{Recipe: l.Recipe, Path: l.Dir})
}

// Finish tells the hooks how an acquisition has ended. If one of them does not return, nobody has what was
// acquired: then abandon is called.
func Finish(acquired func(error), err error, abandon func()) {
	told := false
	defer func() {
		if !told && err == nil {
			abandon()
		}
	}()
	acquired(err)
	told = true
}

// data is what the own node contains; nil for the client's default data.
func (p *place) data(ctx context.Context) []byte {
	if p.Data != nil {
		return p.Data
	}
	return p.Client.Hooks().NodeData(ctx, framework.Acquisition{Recipe: p.Recipe, Path: p.Dir})
}

// report tells the hooks what a list has shown.
func (p *place) report(children []string, d Decision) {
	if hooks := p.Client.Hooks(); hooks.Queue != nil {
		hooks.Queue(p.seen(children, d, framework.DataResult{}))
	}
}

// seen is what a list, and, if there was one, a read of the node ahead have shown.
func (p *place) seen(children []string, d Decision, ahead framework.DataResult) framework.Queue {
	q := framework.Queue{
		Recipe: p.Recipe, Path: p.Dir, Node: p.name, Ahead: d.Ahead,
		Behind: d.Predecessor, BehindSession: ahead.Stat.EphemeralOwner, BehindToken: ahead.Stat.Czxid,
	}
	q.BehindData, _ = p.view.Unpacked(p.join(d.Predecessor), ahead.Data)
	for _, name := range children {
		if p.Order.contender(name) {
			q.Length++
		} else {
			q.Foreign++
		}
	}
	if number, ok := p.Order.Number(p.name); ok {
		q.SequenceLeft = max(Limit-number-1, 0)
	}
	return q
}
