package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// LoginStep is one SASL login under way. It answers the server's challenges: the first call has none, since the client speaks first. A nil response
// sends nothing more. Done says that all is said: behind a response only the server's word is awaited.
type LoginStep func(challenge []byte) (response []byte, done bool, err error)

// loginXid is used by no other request of a session.
const loginXid = firstXid

// maxSteps bounds a login with a server that never has enough, maxToken what it may say at once: Kerberos has the largest tokens, and Windows allows them 64 KiB.
const (
	maxSteps = 20
	maxToken = 128 << 10
)

var errUnwelcome = errors.New("the server wants its clients to authenticate themselves")

// token is the only field of both SASL records.
type token []byte

func (t token) Encode(e *jute.Encoder) { e.Buffer(t) }

// authenticate makes the server know who we are, before it hears anything else on a connection. It asks for the server's word, with a ping: so a
// connection that is refused is never announced, and nothing is sent on it that would be lost. It costs a round trip, and is left out where there is
// nothing to be said and no server has objected. The error is ErrAuthFailed if the server, or the mechanism, refused.
func (s *Session) authenticate(conn net.Conn, in io.Reader, limit time.Time, server string) error {
	s.mu.Lock()
	wary := s.admission.wary
	s.mu.Unlock()
	if s.cfg.Login == nil && len(s.cfg.Credentials) == 0 && !wary {
		return nil
	}
	if err := s.login(conn, in, limit, server); err != nil {
		return err
	}
	ping := jute.Frame(&jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})
	if _, err := conn.Write(append(s.credentials(), ping...)); err != nil {
		return err
	}
	for answered := 0; ; {
		frame, err := readFrame(in, maxPlain)
		if err != nil {
			return fmt.Errorf("authentication: %w", err)
		}
		var h jute.ReplyHeader
		if err := jute.Unmarshal(frame, &h); err != nil {
			return err
		}
		switch {
		case h.Err == jute.CodeSessionExpired:
			s.end(ErrExpired)
			return ErrExpired
		case h.Err == jute.CodeSessionClosedRequireSASL:
			return unwelcome()
		case h.Xid == jute.XidAuth && h.Err != jute.CodeOK && answered < len(s.cfg.Credentials):
			return refusedBy("", s.cfg.Credentials[answered].who(), h.Err)
		case h.Xid == jute.XidAuth:
			answered++
		case h.Xid == jute.XidPing:
			return nil
		}
	}
}

// refusedBy is a server's refusal of what, in the course of how.
func refusedBy(how, what string, code int32) error {
	if code == jute.CodeAuthFailed {
		return fmt.Errorf("%w: %sthe server refuses %s", ErrAuthFailed, how, what)
	}
	return fmt.Errorf("%w: %sthe server refuses %s: %s", ErrAuthFailed, how, what, jute.CodeName(code))
}

func unwelcome() error { return fmt.Errorf("%w: %w", ErrAuthFailed, errUnwelcome) }

// login is the SASL part of it, if there is one. It must be done at limit.
func (s *Session) login(conn net.Conn, in io.Reader, limit time.Time, server string) error {
	if s.cfg.Login == nil {
		return nil
	}
	conn.SetDeadline(limit)
	ctx, cancel := context.WithDeadline(s.ctx, limit)
	defer cancel()
	step, err := s.cfg.Login(ctx, server)
	if err != nil {
		return fmt.Errorf("%w: SASL: %w", ErrAuthFailed, err)
	}
	var challenge []byte
	for range maxSteps {
		response, done, err := step(challenge)
		if err != nil {
			return fmt.Errorf("%w: SASL: %w", ErrAuthFailed, err)
		}
		if response != nil {
			if challenge, err = s.present(conn, in, response); err != nil {
				return err
			}
		}
		switch {
		case done:
			return nil
		case response == nil:
			return fmt.Errorf("%w: SASL: the mechanism has nothing to say", ErrAuthFailed)
		}
	}
	return fmt.Errorf("%w: SASL: no end after %d steps", ErrAuthFailed, maxSteps)
}

// present sends a token and returns the server's, nil for none.
func (s *Session) present(conn net.Conn, in io.Reader, response []byte) ([]byte, error) {
	if _, err := conn.Write(jute.Frame(&jute.RequestHeader{Xid: loginXid, Op: jute.OpSASL}, token(response))); err != nil {
		return nil, err
	}
	for {
		frame, err := readFrame(in, maxToken)
		if err != nil {
			return nil, fmt.Errorf("SASL: %w", err)
		}
		var h jute.ReplyHeader
		d := jute.NewDecoder(frame)
		if h.Decode(d); d.Err() != nil {
			return nil, d.Err()
		}
		switch {
		case h.Xid != loginXid:
		case h.Err == jute.CodeSessionExpired:
			s.end(ErrExpired)
			return nil, ErrExpired
		case h.Err != jute.CodeOK:
			return nil, refusedBy("SASL: ", "the login of "+s.cfg.LoginName, h.Err)
		default:
			t := d.Buffer()
			return t, d.Err()
		}
	}
}
