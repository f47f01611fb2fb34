package inspecthttp

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/flow"
)

// mostRemoved is the number of removed lines that are remembered, for viewers that still show them.
const mostRemoved = 4096

// screenBoard holds the last screen for the viewers. Each change has a number. A viewer gives the number of the last
// change that it has received, and receives the changes since then: so a slow viewer delays no other, and nothing is
// queued for it.
type screenBoard struct {
	mu      sync.Mutex
	changed flow.Signal
	number  int64 // of the last change
	whole   int64 // a viewer whose number is smaller receives the whole screen
	head    screenPart
	client  screenPart
	lines   map[int]screenPart
	removed []removedLine // in the order of their numbers
	targets map[shownNode]string
}

// screenPart is a part of the screen as JSON, and the number of its last change.
type screenPart struct {
	json   json.RawMessage
	number int64
}

type removedLine struct {
	line   int
	number int64
}

type viewerMessage struct {
	Now    int64             `json:"now"`             // by this process's clock, in milliseconds since 1970
	Whole  bool              `json:"whole,omitempty"` // replaces all earlier messages
	Config *viewerConfig     `json:"config,omitempty"`
	Head   json.RawMessage   `json:"head,omitempty"`
	Client json.RawMessage   `json:"client,omitempty"`
	Lines  []json.RawMessage `json:"lines,omitempty"`
	Gone   []int             `json:"gone,omitempty"` // the ids of lines
}

// viewerConfig is sent to a viewer once.
type viewerConfig struct {
	Root   string `json:"root"`
	Delete bool   `json:"delete"`
	Token  string `json:"token,omitempty"`
}

// clear removes all but the client's view.
func (b *screenBoard) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.number++
	b.whole = b.number
	b.head, b.lines, b.removed, b.targets = screenPart{}, map[int]screenPart{}, nil, nil
	b.client.number = b.number
	b.changed.Fire()
}

// putScreen replaces the screen. Only one goroutine calls it.
func (b *screenBoard) putScreen(s pageScreen) {
	// json.Marshal cannot fail here: there are no maps, floats or interfaces.
	head, _ := json.Marshal(s.head)
	lines := make(map[int]json.RawMessage, len(s.lines))
	for _, l := range s.lines {
		lines[l.ID], _ = json.Marshal(l)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	next, changed := b.number+1, false
	renew := func(p *screenPart, with json.RawMessage) {
		if !bytes.Equal(p.json, with) {
			*p, changed = screenPart{with, next}, true
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
			b.removed, changed = append(b.removed, removedLine{id, next}), true
		}
	}
	if over := len(b.removed) - mostRemoved; over > 0 {
		b.whole = b.removed[over-1].number
		b.removed = append([]removedLine(nil), b.removed[over:]...)
	}
	if b.targets = s.targets; changed {
		b.number = next
		b.changed.Fire()
	}
}

// putClient replaces the client's view.
func (b *screenBoard) putClient(v clientView) {
	client, _ := json.Marshal(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !bytes.Equal(b.client.json, client) {
		b.number++
		b.client = screenPart{client, b.number}
		b.changed.Fire()
	}
}

// changesSince returns the changes since a number, 0 for a viewer that has received nothing, and the number of the last
// change. The channel is closed at the next one.
func (b *screenBoard) changesSince(number int64) (n viewerMessage, last int64, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = viewerMessage{Now: time.Now().UnixMilli(), Whole: number < b.whole}
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
		for _, d := range b.removed {
			if d.number > number {
				n.Gone = append(n.Gone, d.line)
			}
		}
	}
	return n, b.number, b.changed.C()
}

// nodePath returns the path of a shown participant's node.
func (b *screenBoard) nodePath(t shownNode) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	path, ok := b.targets[t]
	return path, ok
}
