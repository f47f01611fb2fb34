package inspecthttp

import (
	"context"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
)

const (
	// mostChanges and mostMargins bound the remembered state changes and seconds of margins.
	mostChanges, mostMargins = 30, 120
)

type clientHistory struct {
	mu      sync.Mutex // guards all; taken before the board's
	session int64
	changes []changeView // the last one last
	margins []int64      // see clientView
}

// clientView is the state of the page's client. Times are milliseconds since 1970, lengths of time milliseconds.
type clientView struct {
	State   string       `json:"state"`
	Fine    bool         `json:"fine"` // it is connected to a quorum
	Epoch   int64        `json:"epoch"`
	Since   int64        `json:"since,omitempty"`
	Away    int64        `json:"away,omitempty"`
	Server  string       `json:"server,omitempty"`
	Session string       `json:"session,omitempty"`
	Trouble string       `json:"trouble,omitempty"`
	Changes []changeView `json:"changes,omitempty"`

	Rule        string `json:"rule"`
	Standalone  bool   `json:"standalone,omitempty"`
	Timeout     int64  `json:"timeout"`
	Bound       int64  `json:"bound"`
	Margin      int64  `json:"margin"`
	Heartbeat   int64  `json:"heartbeat,omitempty"`
	Steady      int64  `json:"steady"`
	Holds       int    `json:"holds"`
	Refused     string `json:"refused,omitempty"`
	Queued      int    `json:"queued"`
	InFlight    int    `json:"inFlight"`
	Cleanups    int    `json:"cleanups"`
	Connections uint64 `json:"connections"`
	// Margins is for how long holds were certain, second by second, and -1 when nothing was held.
	Margins []int64 `json:"margins,omitempty"`
}

// changeView is a state change.
type changeView struct {
	State string `json:"state"`
	Epoch int64  `json:"epoch"`
	At    int64  `json:"at"`
	Why   string `json:"why,omitempty"`
}

// recordStates records the client's state changes until the page is closed.
func (p *Page) recordStates() {
	for change := range p.client.StateChanges(p.ctx) {
		v := changeView{State: change.State.String(), Epoch: change.Epoch, At: time.Now().UnixMilli()}
		if trouble := p.client.Health().Trouble; trouble != nil && !isConnected(change.State) {
			v.Why = shownText(trouble.Error(), 300)
		}
		p.health.mu.Lock()
		p.health.changes = append(p.health.changes, v)
		p.health.changes = p.health.changes[max(0, len(p.health.changes)-mostChanges):]
		p.health.mu.Unlock()
		if isConnected(change.State) {
			p.recordSession()
		}
		p.showClient(false)
	}
	p.showClient(false) // the client may be closed
}

func isConnected(s framework.State) bool {
	return s == framework.Connected || s == framework.Reconnected
}

// recordSession records the id of the client's session, for which it waits for a second.
func (p *Page) recordSession() {
	ctx, cancel := context.WithTimeout(p.ctx, time.Second)
	defer cancel()
	if s, err := p.client.Session(ctx); err == nil {
		p.health.mu.Lock()
		p.health.session = s.ID()
		p.health.mu.Unlock()
	}
}

// recordMargin records the client's margin; it is called once a second.
func (p *Page) recordMargin(ctx context.Context) {
	if ctx.Err() == nil {
		p.showClient(true)
	}
}

// showClient puts the client's state on the board, and adds to its margins if a second has passed.
func (p *Page) showClient(second bool) {
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	h := p.client.Health()
	s := h.Safety
	if second {
		margin := int64(-1)
		if s.Holds > 0 {
			margin = s.Remaining.Milliseconds()
		}
		p.health.margins = append(p.health.margins, margin)
		p.health.margins = p.health.margins[max(0, len(p.health.margins)-mostMargins):]
	}
	v := clientView{
		State: h.State.String(), Fine: h.Err() == nil, Epoch: h.Epoch, Server: shownText(h.Server, 200),
		Session: sessionText(p.health.session), Changes: p.health.changes,
		Rule: s.Rule.String(), Standalone: s.Standalone, Timeout: s.SessionTimeout.Milliseconds(),
		Bound: s.Bound.Milliseconds(), Margin: s.Margin.Milliseconds(), Heartbeat: s.Heartbeat.Milliseconds(),
		Steady: s.Steady.Milliseconds(), Holds: s.Holds, Queued: h.Queued, InFlight: h.InFlight,
		Cleanups: h.Cleanups, Connections: h.Connections, Margins: p.health.margins,
	}
	if h.Closed {
		v.State = "closed"
	}
	if !h.Since.IsZero() {
		v.Since = h.Since.UnixMilli()
	}
	if !h.Away.IsZero() {
		v.Away = h.Away.UnixMilli()
	}
	if h.Trouble != nil {
		v.Trouble = shownText(h.Trouble.Error(), 300)
	}
	if s.Refused != nil {
		v.Refused = shownText(s.Refused.Error(), 300)
	}
	p.board.putClient(v)
}
