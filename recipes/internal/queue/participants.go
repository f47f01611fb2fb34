package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-curator/curator/framework"
)

// Participant is a contender, ours or anybody's.
type Participant struct {
	// Name is that of the node, Path where it is.
	Name, Path string
	// Data is what the participant has put there.
	Data []byte
	// SessionID is the participant's session, Czxid the transaction that made the node, Since when that was, by the server's clock. They are zero when the
	// client may not read the node.
	SessionID, Czxid int64
	Since            time.Time
	// DataErr matches framework.ErrDataTooLarge when the data are not here because they are larger than framework.ContenderDataLimit, packed or not, or
	// those of all participants together than 16 MiB. It is that participant's trouble: the others are not affected.
	DataErr error
}

const (
	// flightSize is how many nodes are read at a time: they may be as large as a server lets them be, and what is too large is let go with its flight.
	flightSize = 64
	// dataLimit is how many bytes of data one answer has, in sum.
	dataLimit = 16 << 20
)

// Participants returns the contenders, first in line first: one list, and then one read for each, flightSize at a time; with limit > 0 it stops
// at that many. fault is what is wrong with the recipe, see [Ready]. A missing directory has none, and who leaves while it reads is left out. One whose data are too large is listed without them.
func (l *Line) Participants(ctx context.Context, fault error, limit int) ([]Participant, error) {
	if err := Ready(ctx, l.Client, fault); err != nil {
		return nil, err
	}
	names, err := l.Client.GetChildren().ForPath(ctx, l.Dir)
	if errors.Is(err, framework.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names = l.Order.Contenders(names)
	read := l.Client.GetData().Undecompressed() // one who writes something else shall not hide the others
	all, left := make([]Participant, 0, len(names)), dataLimit
	for len(names) > 0 && (limit <= 0 || len(all) < limit) {
		flight := min(len(names), flightSize)
		if limit > 0 {
			flight = min(flight, limit-len(all))
		}
		reads := make([]*framework.Pending[framework.DataResult], flight)
		for i, name := range names[:flight] {
			reads[i] = read.InBackground().ForPath(ctx, l.join(name))
		}
		for i, pending := range reads {
			node, err := Result(pending)
			if framework.Retryable(err) { // once more, this time as the retry policy says
				node.Data, err = read.StoringStatIn(&node.Stat).ForPath(ctx, l.join(names[i]))
			}
			p := Participant{Name: names[i], Path: l.join(names[i])}
			switch {
			case err == nil:
				p = Known(l.Client, p, node.Data, node.Stat)
				if len(p.Data) > left {
					p.Data, p.DataErr = nil, fmt.Errorf("%w: %d bytes for all participants together", framework.ErrDataTooLarge, dataLimit)
				}
				left -= len(p.Data)
			case errors.Is(err, framework.ErrReplyTooLarge):
				stat, statErr := l.Client.CheckExists().ForPath(ctx, p.Path)
				if statErr != nil {
					return nil, statErr
				}
				if stat == nil {
					continue
				}
				p = TooLarge(p, *stat, err)
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

// Known is p with what a read of its node, Undecompressed, has found.
func Known(client *framework.Client, p Participant, data []byte, stat framework.Stat) Participant {
	p = p.with(stat)
	p.Data, p.DataErr = client.Unpacked(p.Path, data)
	return p
}

// TooLarge is p with what is known of its node when a read has failed with why, since its data fit in no answer.
func TooLarge(p Participant, stat framework.Stat, why error) Participant {
	p = p.with(stat)
	p.DataErr = fmt.Errorf("%w: %w", framework.ErrDataTooLarge, why)
	return p
}

func (p Participant) with(stat framework.Stat) Participant {
	p.SessionID, p.Czxid, p.Since = stat.EphemeralOwner, stat.Czxid, stat.Created()
	return p
}

// First is what a list with a limit of one says: false if there is nobody.
func First[P any](list []P, err error) (first P, found bool, _ error) {
	if err != nil || len(list) == 0 {
		return first, false, err
	}
	return list[0], true, nil
}
