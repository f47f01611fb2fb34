package wire

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

const (
	// maxFences bounds what is kept of sessions that could not be closed.
	maxFences = 8
	// fenceTries is how often closing one is tried at least before it is left to expire.
	fenceTries = 3
)

// fences are the sessions before this one that may not be closed.
type fences struct {
	mu   sync.Mutex
	left []Fence
}

// keep takes the newest ones.
func (f *fences) keep(all []Fence) { f.left = slices.Clone(all[max(0, len(all)-maxFences):]) }

func (f *fences) all() []Fence {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.left)
}

// tried notes what has come of closing one. stop is why the connection must not go on, given why the session has just been left to expire.
func (f *fences) tried(old Fence, err error) (stop, given error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.left, func(left Fence) bool { return left.SessionID == old.SessionID })
	if i < 0 {
		return nil, nil
	}
	if err == nil {
		f.left = slices.Delete(f.left, i, i+1)
		return nil, nil
	}
	f.left[i].tries++
	if time.Now().Before(old.Until) || f.left[i].tries < fenceTries {
		return err, nil
	}
	f.left[i].left = true
	return nil, err
}

// fence closes the sessions before this one, so that nothing of them can happen any more: a write still in a socket would be executed for as long as
// that session lives. It goes to a server that has just opened a session, and so has a quorum behind it: one that cannot hear its leader could not close
// anything, but each attempt would keep the old session alive.
func (s *Session) fence(network, addr string) error {
	for _, f := range s.Unfenced() {
		if f.left {
			continue
		}
		if err := s.fenced(f, s.closeOld(s.ctx, f, network, addr)); err != nil {
			return err
		}
	}
	return nil
}

// closeLeft tries once more to close the sessions before this one that were left to expire, at the server that has just closed this one. It says whether
// they are gone.
func (s *Session) closeLeft(ctx context.Context, addr string) bool {
	for _, f := range s.Unfenced() {
		if err := s.closeOld(ctx, f, "tcp", addr); err != nil {
			return false
		}
	}
	return true
}

// fenced notes what has come of closing an old session. It returns nil when the connection may go on: it is closed, or nothing of it can be under way any
// more and it has been tried often enough.
func (s *Session) fenced(f Fence, err error) error {
	err, given := s.fences.tried(f, err)
	if given != nil {
		s.log.Warn("a session before this one is not closed; it is left to expire", "old", fmt.Sprintf("%#x", f.SessionID), "err", given)
	}
	return err
}

// Unfenced returns the sessions before this one that may not be closed. Once a member with a quorum has accepted this one these are those that it was not
// possible to close, and of which nothing is under way any more.
func (s *Session) Unfenced() []Fence { return s.fences.all() }

func (s *Session) closeOld(ctx context.Context, f Fence, network, addr string) error {
	conn, limit, err := s.dialOne(ctx, network, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	// No claim to have seen anything: a member that is behind can close a session, too. All in one write: if the answers do not come through, a
	// request that only attached the session would keep it alive instead. Only a login takes several.
	bye := append(s.credentials(), jute.Frame(&jute.RequestHeader{Xid: askXid, Op: jute.OpCloseSession})...)
	with := bye
	if s.cfg.Login != nil {
		with = nil
	}
	resp, in, err := s.exchange(conn, limit, &jute.ConnectRequest{Timeout: int32(s.cfg.Timeout / time.Millisecond), SessionID: f.SessionID, Password: f.Password,
		HasReadOnly: true}, with...)
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if resp.SessionID != 0 {
		if s.cfg.Login != nil {
			if err := s.login(conn, in, limit, addr); err != nil {
				return err
			}
			if _, err := conn.Write(bye); err != nil {
				return err
			}
		}
		h, err := answer(in)
		switch {
		case err != nil:
		case h.Err == jute.CodeSessionClosedRequireSASL:
			err = unwelcome()
		case h.Err != jute.CodeOK && h.Err != jute.CodeSessionExpired:
			err = fmt.Errorf("the server says %s", jute.CodeName(h.Err))
		}
		if err != nil {
			return fmt.Errorf("old session not closed: %w", err)
		}
	}
	return nil
}
