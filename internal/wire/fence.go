package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

const (
	// maxFences limits the number of earlier sessions that are remembered.
	maxFences = 8
	// fenceTries is the least number of tries to close an earlier session before it is left to expire.
	fenceTries = 3
)

// openFences are the earlier sessions that are not known to be closed.
type openFences struct {
	mu   sync.Mutex
	open []Fence
}

// keepNewest makes the newest of all the open ones.
func (f *openFences) keepNewest(all []Fence) { f.open = slices.Clone(all[max(0, len(all)-maxFences):]) }

func (f *openFences) listOpen() []Fence {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.open)
}

// dueForClosing returns the sessions to close before the next session is announced.
func (f *openFences) dueForClosing() []Fence {
	return slices.DeleteFunc(f.listOpen(), func(old Fence) bool { return old.abandoned })
}

// recordTry records the outcome of a try to close an earlier session, and returns err as stop if the connection must not
// continue, as abandoned if the session is left to expire from now on.
func (f *openFences) recordTry(old Fence, err error, at time.Time) (stop, abandoned error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.open, func(other Fence) bool { return other.SessionID == old.SessionID })
	if i < 0 {
		return nil, nil
	}
	if err == nil {
		f.open = slices.Delete(f.open, i, i+1)
		return nil, nil
	}
	f.open[i].tries++
	if at.Before(old.Until) || f.open[i].tries < fenceTries {
		return err, nil
	}
	f.open[i].abandoned = true
	return nil, err
}

// closeEarlierSessions closes the earlier sessions: a write that is still in a socket would be executed as long as its
// session lives. It uses the server that has just opened a session, and so has a quorum: a server without one could
// close nothing, and each attempt there would prolong the earlier session. The error is nil, and the connection may
// continue, if each is closed, or was tried often enough after its Until.
func (s *Session) closeEarlierSessions(server string) error {
	for _, f := range s.fences.dueForClosing() {
		err := s.closeSeparately(s.ctx, f, server)
		if errors.Is(err, errUnknownSession) { // reported by a server with a quorum
			err = nil
		}
		stop, abandoned := s.fences.recordTry(f, err, time.Now())
		if abandoned != nil {
			s.cfg.Logger.Warn("cannot close an earlier session of this client; its ephemeral nodes "+
				"stay until it expires",
				"old", fmt.Sprintf("%#x", f.SessionID), "err", abandoned)
		}
		if stop != nil {
			return stop
		}
	}
	return nil
}

// closeAbandoned tries once more to close the earlier sessions that were left to expire, at the server that has just
// closed this one. It reports whether none is left.
func (s *Session) closeAbandoned(ctx context.Context, server string) bool {
	for _, f := range s.fences.listOpen() {
		if err := s.closeSeparately(ctx, f, server); err != nil && !errors.Is(err, errUnknownSession) {
			return false
		}
	}
	return true
}

// closeSearchTime limits the time for which Close looks for a server without a connection.
const closeSearchTime = time.Second

// closeUnconnected closes this session, which has ended here, if its connection is gone: it tries each server once, and
// reports whether one has closed it. A reply that the session does not exist does not count: a leader that has lost its
// quorum may have sent it. closeUnconnected does nothing for a session that no quorum has confirmed, or if earlier
// sessions are not closed yet.
func (s *Session) closeUnconnected(ctx context.Context) bool {
	if !s.Agreed() || len(s.fences.listOpen()) > 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, closeSearchTime)
	defer cancel()
	id, password := s.Identity()
	for _, server := range s.hosts.shuffledServers() {
		err := s.closeSeparately(ctx, Fence{SessionID: id, Password: password}, server)
		if err == nil || errors.Is(err, errUnknownSession) || ctx.Err() != nil {
			return err == nil
		}
	}
	return false
}

// errUnknownSession means that the server does not know the session.
var errUnknownSession = errors.New("the server knows no such session")

// closeSeparately closes a session on a separate connection. nil means that the server has closed it.
func (s *Session) closeSeparately(ctx context.Context, f Fence, server string) error {
	a, err := s.beginAttempt(ctx, server)
	if err != nil {
		return err
	}
	defer a.conn.Close()
	defer context.AfterFunc(ctx, func() { a.conn.Close() })()
	// The connect request claims zxid 0, since a member that is behind can close a session, too. All requests are in one
	// write: a connect request alone would prolong the session. Only a login needs several writes.
	bye := append(s.credentialFrames(), jute.Frame(&jute.RequestHeader{Xid: handshakeXid, Op: jute.OpCloseSession})...)
	with := bye
	if s.cfg.Login != nil {
		with = nil
	}
	resp, err := a.exchangeConnect(&jute.ConnectRequest{Timeout: int32(s.cfg.Timeout / time.Millisecond),
		SessionID: f.SessionID, Password: f.Password, HasReadOnly: true}, with...)
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if resp.SessionID == 0 {
		return errUnknownSession
	}
	if s.cfg.Login != nil {
		if err := a.loginWithSASL(); err != nil {
			return err
		}
		if _, err := a.conn.Write(bye); err != nil {
			return err
		}
	}
	h, err := a.awaitReply()
	switch {
	case err != nil:
	case h.Err == jute.CodeSessionClosedRequireSASL:
		err = errLoginRequired
	case h.Err == jute.CodeSessionExpired:
		return errUnknownSession
	case resp.ReadOnly:
		err = fmt.Errorf("%w: the server has no quorum", errRefused)
	case h.Err != jute.CodeOK:
		err = fmt.Errorf("the server reports: %s", jute.CodeName(h.Err))
	}
	if err != nil {
		return fmt.Errorf("the earlier session was not closed: %w", err)
	}
	return nil
}
