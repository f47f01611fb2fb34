package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/plain"
)

func formatCount(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", more)
}

// String returns the line as text for people: a first line with the path and the kind, and one for each participant.
// Its form may change. Unprintable characters are escaped.
func (l Line) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", plain.Text(l.Path), l.Kind)
	if l.Number != nil {
		fmt.Fprintf(&b, " %d", *l.Number)
	}
	fmt.Fprintln(&b)
	for _, p := range l.Holders {
		fmt.Fprintf(&b, "  holds  %v\n", p)
	}
	for _, p := range l.Waiting {
		fmt.Fprintf(&b, "  waits  %v\n", p)
	}
	if l.More > 0 {
		fmt.Fprintf(&b, "  and %d more\n", l.More)
	}
	if l.ForeignCount > 0 {
		fmt.Fprintf(&b, "  foreign: %d", l.ForeignCount)
		for _, name := range l.Foreign {
			fmt.Fprintf(&b, " %s", plain.Text(name))
		}
		fmt.Fprintln(&b)
	}
	for _, note := range l.Notes {
		fmt.Fprintf(&b, "  note: %s\n", plain.Text(note))
	}
	return b.String()
}

// String returns one line of text for people. Its form may change. Unprintable characters are escaped.
func (p Participant) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, ", plain.Text(p.Name))
	if p.Reader {
		b.WriteString("reader, ")
	}
	if p.Library != "" {
		fmt.Fprintf(&b, "%s, ", p.Library)
	}
	fmt.Fprintf(&b, "session %#x, since %s", uint64(p.Session), p.Since.UTC().Format(time.RFC3339))
	switch {
	case p.Revoked:
		b.WriteString(", asked to release")
	case len(p.Data) > 0:
		fmt.Fprintf(&b, ", %s", plain.Text(string(p.Data)))
	case p.DataLength > 0 && p.Err == nil:
		b.WriteString(", " + formatCount(p.DataLength, "byte of data", "bytes of data"))
	}
	if p.Err != nil {
		fmt.Fprintf(&b, " (%s)", plain.Text(p.Err.Error()))
	}
	return b.String()
}
