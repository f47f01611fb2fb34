package once

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// Slot identifies one run of a job. Make one with [Named] or [At].
type Slot struct {
	name     string
	start    time.Time
	interval time.Duration // 0: Named
}

// Named returns a slot with a name: any text that can be the name of a node, without "/".
func Named(name string) Slot { return Slot{name: name} }

// At returns the slot that contains t, in a series of intervals of a length: of hours, the hour. It begins at t
// rounded down, in UTC, as time.Time.Truncate does; days begin at midnight UTC, and weeks on Monday. All processes
// must use the same length for a job. With an interval of 0 or less Do returns ErrBadArguments.
func At(t time.Time, every time.Duration) Slot {
	if every <= 0 {
		return Slot{}
	}
	start := t.UTC().Truncate(every)
	return Slot{start.Format(time.RFC3339Nano), start, every}
}

// String returns the slot's name; a slot of a time has the form of RFC 3339.
func (s Slot) String() string { return s.name }

// Time returns the start of a slot made with At; the zero time for a slot made with Named.
func (s Slot) Time() time.Time { return s.start }

func (s Slot) validate() error {
	if s.name == "" {
		return fmt.Errorf("%w: a slot without a name, or an interval that is not positive",
			framework.ErrBadArguments)
	}
	return checkName("slot", s.name)
}

func checkName(what, name string) error {
	if strings.Contains(name, "/") || zkpath.Validate("/"+name, false) != nil || name == "" {
		return fmt.Errorf("%w: the %s %q cannot be the name of a node", framework.ErrBadArguments, what, name)
	}
	return nil
}

// missedBefore returns the slots after the last recorded slot before s: at most so many, the last ones before s, the
// oldest first. Without a record before s nothing was missed.
func (s Slot) missedBefore(records []string, most int) (all []Slot) {
	if s.interval == 0 || most == 0 {
		return nil
	}
	var last time.Time
	for _, name := range records {
		if t, err := time.Parse(time.RFC3339Nano, name); err == nil && t.Before(s.start) && t.After(last) {
			last = t
		}
	}
	if last.IsZero() {
		return nil
	}
	for t := s.start.Add(-s.interval); t.After(last) && len(all) < most; t = t.Add(-s.interval) {
		all = append(all, At(t, s.interval))
	}
	slices.Reverse(all)
	return all
}
