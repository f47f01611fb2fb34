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

// connectFailure has the reason why the last attempt to connect failed, or the last connection was lost. Callers that
// wait for a connection without success get it with their error.
type connectFailure struct {
	mu     sync.Mutex
	server string // guarded by mu
	err    error  // nil while connected; guarded by mu
}

func (f *connectFailure) recordFailure(server string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.server, f.err = server, err
}

func (f *connectFailure) lastFailure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.err == nil:
		return nil
	case f.server == "" || strings.Contains(f.err.Error(), f.server):
		return &attemptError{f.err}
	}
	return &attemptError{fmt.Errorf("%s: %w", f.server, f.err)}
}

// attemptError is the reason why an attempt to connect has failed. It does not match the errors of package context,
// because a caller would take the time limit of the attempt for the deadline of the caller's context.
type attemptError struct{ err error }

func (e *attemptError) Error() string {
	return strings.ReplaceAll(plain.Text(e.err.Error()), context.DeadlineExceeded.Error(), "timed out")
}

func (e *attemptError) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

func (e *attemptError) As(target any) bool { return errors.As(e.err, target) }

// disconnectedError adds to err the reason for the missing connection.
type disconnectedError struct {
	err     error
	servers string
	failure error // of the last attempt, or the loss of the last connection; nil if there is none yet
}

func (e *disconnectedError) Error() string {
	if e.failure == nil {
		return fmt.Sprintf("%v; no connection to %s: the first attempt is in progress",
			e.err, plain.Text(e.servers))
	}
	return fmt.Sprintf("%v; no connection to %s; last attempt: %v", e.err, plain.Text(e.servers), e.failure)
}

func (e *disconnectedError) Unwrap() []error {
	if e.failure == nil {
		return []error{e.err}
	}
	return []error{e.err, e.failure}
}

var (
	errNeverConnected  = newSentinel("not connected yet", ErrNotConnected)
	errNotConnectedNow = newSentinel("not connected at present", ErrNotConnected)
	// errNoQuorum is the error of a wait for a member with a quorum while a member without one is connected.
	errNoQuorum = newSentinel("not connected to a member with a quorum", ErrNotConnected)
)

// connectionOutage describes the time without a connection, and decides which failed attempts are logged above DEBUG:
// the first, each with a new reason, and reminders at growing intervals, because a log may be rotated. The manager's
// goroutine owns it.
type connectionOutage struct {
	since         time.Time         // of the loss, or of the first failed attempt; zero while connected
	attempts      int               // failed so far
	reasons       map[string]string // the last reason of each server
	loggedChanges int               // new reasons logged since the last reminder
	nextReminder  time.Time
	reminderPause time.Duration // between the last reminder and the next one
}

const (
	minReminderPause, maxReminderPause = time.Minute, 16 * time.Minute
	// maxLoggedChanges limits the new reasons logged between two reminders: the reason may change with every attempt.
	maxLoggedChanges = 10
)

func (o *connectionOutage) beginOutage(now time.Time) {
	if o.since.IsZero() {
		*o = connectionOutage{since: now}
	}
}

// recordAttempt records a failed attempt to connect, and reports whether to log it.
func (o *connectionOutage) recordAttempt(now time.Time, server, reason string) bool {
	o.beginOutage(now)
	o.attempts++
	changed := o.isReasonNew(server, reason)
	if o.reasons == nil {
		o.reasons = map[string]string{}
	}
	o.reasons[server] = reason
	switch {
	case o.nextReminder.IsZero():
		o.reminderPause = minReminderPause
	case !now.Before(o.nextReminder):
		o.reminderPause, o.loggedChanges = min(2*o.reminderPause, maxReminderPause), 0
	case changed && o.loggedChanges < maxLoggedChanges:
		o.loggedChanges++
		return true
	default:
		return false
	}
	o.nextReminder = now.Add(o.reminderPause)
	return true
}

// isReasonNew reports whether a server's reason differs from that server's last reason or, for a server tried for the
// first time, from the last reasons of all others.
func (o *connectionOutage) isReasonNew(server, reason string) bool {
	if before, known := o.reasons[server]; known {
		return before != reason
	}
	return !slices.Contains(slices.Collect(maps.Values(o.reasons)), reason)
}

// elapsedTime returns how long there has been no connection; 0 if no connection was lost and no attempt has failed.
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

// varyingParts matches the parts of an error's text that differ between attempts and servers although the reason is the
// same: addresses, ports, times, ids.
var varyingParts = regexp.MustCompile(`[0-9][0-9A-Za-zµ.:]*`)

// failureReason returns the text of an error without the parts that vary although the reason is the same.
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
