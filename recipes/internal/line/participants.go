package line

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// Participant is a contender, as the recipes report it.
type Participant struct {
	// Name is the node's name, Path its path.
	Name, Path string
	Data       []byte // the node's
	// SessionID is the participant's session, Czxid the transaction that created the node, Since the time of that, by
	// the server's clock. They are zero when the client may not read the node.
	SessionID, Czxid int64
	Since            time.Time
	// DataErr has the reason if Data is missing: it matches framework.ErrDataTooLarge if the data are larger than
	// framework.ContenderDataLimit, compressed or not, or the data of all participants together larger than dataLimit.
	// The other participants are not affected.
	DataErr error
}

const (
	flightSize = 64       // how many nodes are read at a time, since each may be as large as a server allows
	dataLimit  = 16 << 20 // how many bytes of data one call returns, in sum
)

// Participants returns the contenders in the order of the line, with limit > 0 the first of them. It sends one list and
// then one read for each, flightSize at a time. fault is the constructor's error, as for [CheckCall]. A missing directory
// has no contenders. A contender whose node is deleted before the read is left out.
func (l *Line) Participants(ctx context.Context, fault error, limit int) ([]Participant, error) {
	if err := CheckCall(ctx, l.Client, fault); err != nil {
		return nil, err
	}
	names, err := l.Client.GetChildren().ForPath(ctx, l.Dir)
	if err != nil {
		return nil, IgnoreError(err, framework.ErrNoNode)
	}
	names = l.Order.Contenders(names)
	if limit <= 0 {
		limit = len(names)
	}
	all, left := make([]Participant, 0, min(limit, len(names))), dataLimit
	for len(names) > 0 && len(all) < limit {
		flight := names[:min(len(names), flightSize, limit-len(all))]
		names = names[len(flight):]
		if all, left, err = l.readParticipants(ctx, flight, all, left); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readParticipants appends the contenders of names that still exist, with at most left bytes of data.
func (l *Line) readParticipants(
	ctx context.Context, names []string, all []Participant, left int,
) ([]Participant, int, error) {
	read := l.Client.GetData().Undecompressed() // data that cannot be decompressed must not hide the other contenders
	reads := make([]*framework.Pending[framework.DataResult], len(names))
	for i, name := range names {
		reads[i] = read.InBackground().ForPath(ctx, zkpath.Join(l.Dir, name))
	}
	for i, pending := range reads {
		p := Participant{Name: names[i], Path: zkpath.Join(l.Dir, names[i])}
		node, err := AwaitResult(pending)
		if framework.Retryable(err) { // again, with the retry policy
			node.Data, err = read.StoringStatIn(&node.Stat).ForPath(ctx, p.Path)
		}
		switch {
		case err == nil:
			p = ParticipantWithData(l.Client, p, node.Data, node.Stat)
			if len(p.Data) > left {
				p.Data = nil
				p.DataErr = fmt.Errorf("%w: the limit for all participants together is %d bytes",
					framework.ErrDataTooLarge, dataLimit)
			}
			left -= len(p.Data)
		case errors.Is(err, framework.ErrReplyTooLarge):
			stat, statErr := l.Client.CheckExists().ForPath(ctx, p.Path)
			if statErr != nil {
				return nil, 0, statErr
			}
			if stat == nil {
				continue
			}
			p = ParticipantTooLarge(p, *stat, err)
		case errors.Is(err, framework.ErrNoAuth):
		case errors.Is(err, framework.ErrNoNode):
			continue
		default:
			return nil, 0, err
		}
		all = append(all, p)
	}
	return all, left, nil
}

// ParticipantWithData returns p with the data and Stat of its node, which were read Undecompressed.
func ParticipantWithData(client *framework.Client, p Participant, data []byte, stat framework.Stat) Participant {
	p = p.withStat(stat)
	p.Data, p.DataErr = client.Unpacked(p.Path, data)
	return p
}

// ParticipantTooLarge returns p with the Stat of its node, whose read has failed with why: the reply was too large.
func ParticipantTooLarge(p Participant, stat framework.Stat, why error) Participant {
	p = p.withStat(stat)
	p.DataErr = fmt.Errorf("%w: %w", framework.ErrDataTooLarge, why)
	return p
}

func (p Participant) withStat(stat framework.Stat) Participant {
	p.SessionID, p.Czxid, p.Since = stat.EphemeralOwner, stat.Czxid, stat.Created()
	return p
}

// First returns the first element of a list; found is false if the list is empty.
func First[P any](list []P, err error) (first P, found bool, _ error) {
	if err != nil || len(list) == 0 {
		return first, false, err
	}
	return list[0], true, nil
}

// ContenderList has a holder's findings in a list of the directory.
type ContenderList struct {
	Others      bool             // there are other contenders
	Watch       *framework.Watch // of the directory, armed by the list
	Connections uint64           // [framework.Session.Connections] before the list
}

// ListContenders lists and watches the directory. It waits for a connection until ctx ends. The error is ErrNodeDeleted
// if the node of the grant is gone.
func (g *Grant) ListContenders(ctx context.Context) (c ContenderList, err error) {
	var names []string
	view := g.Session.Client().ForRecipes()
	err = RetryThrough(ctx, view, Outages, func(ctx context.Context) (err error) {
		c.Connections = g.Session.Connections()
		names, c.Watch, err = view.GetChildren().WithWatch().ForPath(ctx, g.line.Dir)
		return err
	})
	if errors.Is(err, framework.ErrNoNode) {
		return c, framework.ErrNodeDeleted
	}
	if err != nil {
		return c, err
	}
	for _, name := range names {
		c.Others = c.Others || name != g.Name && g.line.Order.IsContender(name)
	}
	if !slices.Contains(names, g.Name) {
		c.Watch.Stop()
		return ContenderList{}, framework.ErrNodeDeleted
	}
	return c, nil
}
