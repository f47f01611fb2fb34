package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/plain"
)

// connectFailure is the last failure to connect, for the errors of callers that wait without success.
type connectFailure struct {
	mu     sync.Mutex
	server string
	err    error
}

func (t *connectFailure) recordFailure(server string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.server, t.err = server, err
}

func (t *connectFailure) lastFailure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.err == nil:
		return nil
	case t.server == "" || strings.Contains(t.err.Error(), t.server):
		return &attemptError{t.err}
	}
	return &attemptError{fmt.Errorf("%s: %w", t.server, t.err)}
}

// attemptError is the reason why an attempt to connect has failed. The attempt has its own time limit, which must not
// be mistaken for the deadline of a caller's context: so attemptError does not match the context errors.
type attemptError struct{ err error }

func (e *attemptError) Error() string {
	return strings.ReplaceAll(plain.Text(e.err.Error()), context.DeadlineExceeded.Error(), "timed out")
}

func (e *attemptError) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

func (e *attemptError) As(target any) bool { return errors.As(e.err, target) }

// disconnectedError is err together with the reason for the missing connection.
type disconnectedError struct {
	err     error
	servers string
	last    error // nil if no attempt has ended yet
}

func (e *disconnectedError) Error() string {
	if e.last == nil {
		return fmt.Sprintf("%v; no connection to %s: the first attempt is under way",
			e.err, plain.Text(e.servers))
	}
	return fmt.Sprintf("%v; no connection to %s; last attempt: %v", e.err, plain.Text(e.servers), e.last)
}

func (e *disconnectedError) Unwrap() []error {
	if e.last == nil {
		return []error{e.err}
	}
	return []error{e.err, e.last}
}

var (
	errNeverConnected  = newSentinel("not connected yet", ErrNotConnected)
	errNotConnectedNow = newSentinel("not connected at present", ErrNotConnected)
	// errNoQuorum is for callers that cannot use a server that serves reads only.
	errNoQuorum = newSentinel("not connected to a member with a quorum", ErrNotConnected)
)

// connectionOutage is the time without a connection. It decides which failures are logged above DEBUG: the first,
// every change of the reason, and then reminders at growing intervals, for logs that were rotated. It belongs to
// the manager's goroutine and looks at no clock.
type connectionOutage struct {
	since    time.Time         // of the loss, or of the first failed attempt; zero while connected
	attempts int               // how many have failed so far
	reasons  map[string]string // the last reason of each server
	changes  int               // how many were logged since the last reminder
	remind   time.Time         // the next reminder
	pause    time.Duration     // from that reminder to the next
}

const (
	// minReminderPause and maxReminderPause are the shortest and the longest pause between two reminders.
	minReminderPause, maxReminderPause = time.Minute, 16 * time.Minute
	// maxLoggedChanges limits the changes logged between two reminders: the reason may change with every attempt.
	maxLoggedChanges = 10
)

func (o *connectionOutage) beginOutage(now time.Time) {
	if o.since.IsZero() {
		*o = connectionOutage{since: now}
	}
}

// recordAttempt records a failed attempt to connect, and returns whether to log it.
func (o *connectionOutage) recordAttempt(now time.Time, server, reason string) bool {
	o.beginOutage(now)
	o.attempts++
	changed := o.isReasonNew(server, reason)
	if o.reasons == nil {
		o.reasons = map[string]string{}
	}
	o.reasons[server] = reason
	switch {
	case o.remind.IsZero():
		o.pause = minReminderPause
	case !now.Before(o.remind):
		o.pause, o.changes = min(2*o.pause, maxReminderPause), 0
	case changed && o.changes < maxLoggedChanges:
		o.changes++
		return true
	default:
		return false
	}
	o.remind = now.Add(o.pause)
	return true
}

// isReasonNew reports whether a server's reason is worth a log line: it differs from that server's last reason or,
// for a server tried for the first time, from the reasons of all others.
func (o *connectionOutage) isReasonNew(server, reason string) bool {
	if before, known := o.reasons[server]; known {
		return before != reason
	}
	return !slices.Contains(slices.Collect(maps.Values(o.reasons)), reason)
}

// elapsedTime returns how long there has been no connection; 0 if none was lost and no attempt has failed.
func (o *connectionOutage) elapsedTime(now time.Time) time.Duration {
	if o.since.IsZero() {
		return 0
	}
	return now.Sub(o.since)
}

// endOutage records a connection and returns how long there was none.
func (o *connectionOutage) endOutage(now time.Time) (away time.Duration) {
	away = o.elapsedTime(now)
	*o = connectionOutage{}
	return away
}

// numbers matches the parts of an error that differ between attempts and servers although the reason is the
// same: addresses, ports, times, ids.
var varyingParts = regexp.MustCompile(`[0-9][0-9A-Za-zµ.:]*`)

// failureReason returns the part of an error that is the same whenever the reason is the same.
func failureReason(server string, err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if host, _, e := net.SplitHostPort(server); e == nil {
		text = strings.ReplaceAll(text, host, "")
	}
	return varyingParts.ReplaceAllString(text, "")
}
