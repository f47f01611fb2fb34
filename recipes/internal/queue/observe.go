package queue

import (
	"context"

	"github.com/go-curator/curator/framework"
)

// data is what the own node contains; nil for the client's default data.
func (p *place) data(ctx context.Context) []byte {
	if p.Data != nil {
		return p.Data
	}
	return p.Client.Hooks().NodeData(ctx, framework.Acquisition{Recipe: p.Recipe, Path: p.Dir})
}

// tell tells the hooks what a list has shown.
func (p *place) tell(children []string, d Decision) {
	if hooks := p.Client.Hooks(); hooks.Queue != nil {
		hooks.Queue(p.seen(children, d, framework.DataResult{}))
	}
}

// seen is what a list, and, if there is one, a look at the node ahead have shown.
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
