package inspecthttp

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/flow"
)

// mostGone is the number of removed lines that are remembered, for viewers that still show them.
const mostGone = 4096

// board holds the last screen for the viewers. Each change has a number. A viewer gives the number up to which it has
// received all, and receives the changes since then: so a slow viewer delays no other, and nothing is queued for it.
type board struct {
	mu      sync.Mutex
	changed flow.Signal
	number  int64 // of the last change
	whole   int64 // a viewer that has received less gets everything
	head    piece
	client  piece
	lines   map[int]piece
	gone    []departure // in the order of their numbers
	targets map[target]string
}

// piece is a part of the screen as JSON, and the number of its last change.
type piece struct {
	json   json.RawMessage
	number int64
}

type departure struct {
	line   int
	number int64
}

// news is a message to a viewer.
type news struct {
	Now    int64             `json:"now"`             // by this process's clock, in milliseconds since 1970
	Whole  bool              `json:"whole,omitempty"` // replaces all earlier messages
	Config *config           `json:"config,omitempty"`
	Head   json.RawMessage   `json:"head,omitempty"`
	Client json.RawMessage   `json:"client,omitempty"`
	Lines  []json.RawMessage `json:"lines,omitempty"`
	Gone   []int             `json:"gone,omitempty"` // the ids of lines
}

// config is sent to a viewer once.
type config struct {
	Root   string `json:"root"`
	Delete bool   `json:"delete"`
	Token  string `json:"token,omitempty"`
}

// reset removes all but the client's view.
func (b *board) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.number++
	b.whole = b.number
	b.head, b.lines, b.gone, b.targets = piece{}, map[int]piece{}, nil, nil
	b.client.number = b.number
	b.changed.Fire()
}

// put hangs up a screen in place of the last one. Only one goroutine does that.
func (b *board) put(s screen) {
	// json.Marshal cannot fail here: there are no maps, floats or interfaces.
	head, _ := json.Marshal(s.head)
	lines := make(map[int]json.RawMessage, len(s.lines))
	for _, l := range s.lines {
		lines[l.ID], _ = json.Marshal(l)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	next, some := b.number+1, false
	renew := func(p *piece, with json.RawMessage) {
		if !bytes.Equal(p.json, with) {
			*p, some = piece{with, next}, true
		}
	}
	renew(&b.head, head)
	for id, line := range lines {
		p := b.lines[id]
		renew(&p, line)
		b.lines[id] = p
	}
	for id := range b.lines {
		if _, there := lines[id]; !there {
			delete(b.lines, id)
			b.gone, some = append(b.gone, departure{id, next}), true
		}
	}
	if over := len(b.gone) - mostGone; over > 0 {
		b.whole = b.gone[over-1].number
		b.gone = append([]departure(nil), b.gone[over:]...)
	}
	if b.targets = s.targets; some {
		b.number = next
		b.changed.Fire()
	}
}

// putClient replaces the client's view.
func (b *board) putClient(v clientView) {
	client, _ := json.Marshal(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !bytes.Equal(b.client.json, client) {
		b.number++
		b.client = piece{client, b.number}
		b.changed.Fire()
	}
}

// since returns the changes since a number, 0 for a viewer that has received nothing, and the number of the last
// change. The channel is closed at the next one.
func (b *board) since(number int64) (n news, last int64, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = news{Now: time.Now().UnixMilli(), Whole: number < b.whole}
	if n.Whole {
		number = 0
	}
	if b.head.number > number {
		n.Head = b.head.json
	}
	if b.client.number > number {
		n.Client = b.client.json
	}
	for _, line := range b.lines {
		if line.number > number {
			n.Lines = append(n.Lines, line.json)
		}
	}
	if !n.Whole {
		for _, d := range b.gone {
			if d.number > number {
				n.Gone = append(n.Gone, d.line)
			}
		}
	}
	return n, b.number, b.changed.C()
}

// path returns where a participant that is shown has its node.
func (b *board) path(t target) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	path, ok := b.targets[t]
	return path, ok
}
