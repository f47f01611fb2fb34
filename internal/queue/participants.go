package queue

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
)

// Participant is a contender, ours or anybody's.
type Participant struct {
	Name, Path string
	Data       []byte
	// SessionID, Czxid and Since are 0 when the client has no right to read the node.
	SessionID, Czxid int64
	Since            time.Time // by the server's clock
}

// Participants returns the contenders, first in line first: one list, and then one read for each, all in one flight; with limit > 0 it stops
// at that many. A missing directory has none, and who leaves while it reads is left out.
func (l *Line) Participants(ctx context.Context, limit int) ([]Participant, error) {
	names, err := l.Client.GetChildren().ForPath(ctx, l.Dir)
	if errors.Is(err, framework.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names = l.Order.Contenders(names)
	read := l.Client.GetData().Undecompressed() // one who writes something else shall not hide the others
	all := make([]Participant, 0, len(names))
	for len(names) > 0 && (limit <= 0 || len(all) < limit) {
		flight := len(names)
		if limit > 0 {
			flight = min(flight, limit-len(all))
		}
		reads := make([]*framework.Pending[framework.DataResult], flight)
		for i, name := range names[:flight] {
			reads[i] = read.InBackground().ForPath(ctx, l.join(name))
		}
		for i, pending := range reads {
			node, err := result(pending)
			if framework.Retryable(err) { // once more, this time as the retry policy says
				node.Data, err = read.StoringStatIn(&node.Stat).ForPath(ctx, l.join(names[i]))
			}
			p := Participant{Name: names[i], Path: l.join(names[i])}
			switch {
			case err == nil:
				p.Data, p.SessionID, p.Czxid, p.Since = l.Client.Unpacked(p.Path, node.Data), node.Stat.EphemeralOwner, node.Stat.Czxid, node.Stat.Created()
			case errors.Is(err, framework.ErrNoAuth):
			case errors.Is(err, framework.ErrNoNode):
				continue
			default:
				return nil, err
			}
			all = append(all, p)
		}
		names = names[flight:]
	}
	return all, nil
}
