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
	// maxFences bounds how many earlier sessions are remembered.
	maxFences = 8
	// fenceTries is the least number of tries to close an earlier session before it is left to expire.
	fenceTries = 3
)

// fences are the earlier sessions that are not known to be closed.
type fences struct {
	mu   sync.Mutex
	open []Fence
}

// keep takes the newest ones.
func (f *fences) keep(all []Fence) { f.open = slices.Clone(all[max(0, len(all)-maxFences):]) }

func (f *fences) all() []Fence {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.open)
}

// due returns the sessions to close before the next session is announced.
func (f *fences) due() []Fence {
	return slices.DeleteFunc(f.all(), func(old Fence) bool { return old.abandoned })
}

// tried records the outcome of a try to close an earlier session. stop is the error if the connection must not
// continue; abandoned is the error if the session has just been left to expire.
func (f *fences) tried(old Fence, err error, at time.Time) (stop, abandoned error) {
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

// fence closes the earlier sessions, so that nothing of them can happen any more: a write still in a socket would be
// executed as long as its session lives. It uses the server that has just opened a session, and so has a quorum. A
// server that cannot hear its leader could close nothing, but each attempt would keep the earlier session alive. The
// connection may continue if the error is nil: each is closed, or was tried often enough after its Until.
func (s *Session) fence(server string) error {
	for _, f := range s.fences.due() {
		err := s.closeOld(s.ctx, f, server)
		if errors.Is(err, errGone) { // from a server with a quorum
			err = nil
		}
		stop, abandoned := s.fences.tried(f, err, time.Now())
		if abandoned != nil {
			s.cfg.Logger.Warn("cannot close an earlier session of this client; its nodes stay until it "+
				"expires",
				"old", fmt.Sprintf("%#x", f.SessionID), "err", abandoned)
		}
		if stop != nil {
			return stop
		}
	}
	return nil
}

// closeAbandoned tries once more to close the earlier sessions that were left to expire, at the server that has just
// closed this one. It reports whether they are gone.
func (s *Session) closeAbandoned(ctx context.Context, server string) bool {
	for _, f := range s.fences.all() {
		if err := s.closeOld(ctx, f, server); err != nil && !errors.Is(err, errGone) {
			return false
		}
	}
	return true
}

// lastWord limits the time for which Close looks for a server without a connection.
const lastWord = time.Second

// closeUnconnected closes this session, which has ended here, if its connection is gone: it tries each server once, and
// reports whether one has closed it. A reply that the session does not exist does not count: it may come from a leader
// that has lost its quorum. closeUnconnected does nothing for a session that no quorum has confirmed, or if earlier
// sessions are not closed yet.
func (s *Session) closeUnconnected(ctx context.Context) bool {
	if !s.Agreed() || len(s.fences.all()) > 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	id, password := s.Identity()
	for _, server := range s.hosts.shuffledAll() {
		err := s.closeOld(ctx, Fence{SessionID: id, Password: password}, server)
		if err == nil || errors.Is(err, errGone) || ctx.Err() != nil {
			return err == nil
		}
	}
	return false
}

// errGone means that the server does not know the session.
var errGone = errors.New("the server knows no such session")

// closeOld closes a session on a separate connection. nil means that the server has closed it.
func (s *Session) closeOld(ctx context.Context, f Fence, server string) error {
	a, err := s.dialOne(ctx, server)
	if err != nil {
		return err
	}
	defer a.conn.Close()
	defer context.AfterFunc(ctx, func() { a.conn.Close() })()
	// The request claims to have seen nothing: a member that is behind can close a session, too. All goes in
	// one write: if the answers are lost, a request that only attached the session would have kept it alive.
	// Only a login takes several.
	bye := append(s.credentials(), jute.Frame(&jute.RequestHeader{Xid: askXid, Op: jute.OpCloseSession})...)
	with := bye
	if s.cfg.Login != nil {
		with = nil
	}
	resp, err := a.exchange(&jute.ConnectRequest{Timeout: int32(s.cfg.Timeout / time.Millisecond),
		SessionID: f.SessionID, Password: f.Password, HasReadOnly: true}, with...)
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if resp.SessionID == 0 {
		return errGone
	}
	if s.cfg.Login != nil {
		if err := a.login(); err != nil {
			return err
		}
		if _, err := a.conn.Write(bye); err != nil {
			return err
		}
	}
	h, err := a.answer()
	switch {
	case err != nil:
	case h.Err == jute.CodeSessionClosedRequireSASL:
		err = errLoginRequired
	case h.Err == jute.CodeSessionExpired:
		return errGone
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
