package framework

import (
	"net"
	"regexp"
	"strings"
	"time"
)

// outage is the time without a connection, and decides what of it is worth a line above DEBUG: the first failure and every change of its reason, and
// then, so that a log that was rotated away is no loss, a reminder ever more rarely. It is a value of the manager's goroutine and looks at no clock.
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

// begins notes the loss of a connection.
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

// changed says whether a server's reason is news. That of a server that was not asked before is none if another has the same.
func (o *outage) changed(server, reason string) bool {
	if before, known := o.reasons[server]; known {
		return before != reason
	}
	for _, other := range o.reasons {
		if other == reason {
			return false
		}
	}
	return true
}

// ends notes a connection, and says how long there was none; 0 if nobody has missed it.
func (o *outage) ends(now time.Time) (away time.Duration) {
	if !o.since.IsZero() {
		away = now.Sub(o.since)
	}
	*o = outage{}
	return away
}

// numbers are what differs from attempt to attempt, and from server to server, for one and the same reason: addresses, ports, times, ids.
var numbers = regexp.MustCompile(`[0-9][0-9A-Za-zµ.:]*`)

// reasonOf is what two errors have in common that say the same.
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
