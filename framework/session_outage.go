package framework

import (
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
)

// outage is the time without a connection. It decides which failures are logged above DEBUG: the first, every
// change of the reason, and then reminders at growing intervals, for logs that were rotated. It belongs to
// the manager's goroutine and looks at no clock.
type outage struct {
	since    time.Time         // of the loss, or of the first failure; zero with a connection
	attempts int               // failed so far
	reasons  map[string]string // the last one of each server
	changes  int               // told since the last reminder
	remind   time.Time         // the next reminder
	pause    time.Duration     // and how long after that the one after it
}

const (
	// remindFirst and remindMost bound the pauses between two reminders.
	remindFirst, remindMost = time.Minute, 16 * time.Minute
	// mostChanges is how many changes are told between two reminders: the reason may change with every attempt.
	mostChanges = 10
)

func (o *outage) begins(now time.Time) {
	if o.since.IsZero() {
		*o = outage{since: now}
	}
}

// failed notes an attempt that has failed, and says whether to tell of it.
func (o *outage) failed(now time.Time, server, reason string) bool {
	o.begins(now)
	o.attempts++
	changed := o.changed(server, reason)
	if o.reasons == nil {
		o.reasons = map[string]string{}
	}
	o.reasons[server] = reason
	switch {
	case o.remind.IsZero():
		o.pause = remindFirst
	case !now.Before(o.remind):
		o.pause, o.changes = min(2*o.pause, remindMost), 0
	case changed && o.changes < mostChanges:
		o.changes++
		return true
	default:
		return false
	}
	o.remind = now.Add(o.pause)
	return true
}

// changed says whether a server's reason is news. A server that was not asked before has no news if another
// has given the same reason.
func (o *outage) changed(server, reason string) bool {
	if before, known := o.reasons[server]; known {
		return before != reason
	}
	return !slices.Contains(slices.Collect(maps.Values(o.reasons)), reason)
}

// ends notes a connection and returns how long there was none; 0 if none was lost or tried in vain.
func (o *outage) ends(now time.Time) (away time.Duration) {
	if !o.since.IsZero() {
		away = now.Sub(o.since)
	}
	*o = outage{}
	return away
}

// numbers match what differs between attempts and servers for the same reason: addresses, ports, times, ids.
var numbers = regexp.MustCompile(`[0-9][0-9A-Za-zµ.:]*`)

// reasonOf returns the part of an error that is the same for the same reason.
func reasonOf(server string, err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if host, _, e := net.SplitHostPort(server); e == nil {
		text = strings.ReplaceAll(text, host, "")
	}
	return numbers.ReplaceAllString(text, "")
}
