package wire

import (
	"context"
	"fmt"

	"github.com/go-curator/curator/internal/jute"
)

// loginXid is the xid of SASL requests, and of no others; see handshakeXid.
const loginXid = firstXid

const (
	// maxSteps limits the steps of a login: a server may never complete it.
	maxSteps = 20
	// maxToken limits one token of the server. Kerberos has the largest tokens: Windows allows them 64 KiB.
	maxToken = 128 << 10
)

// saslToken is the only field of both SASL records; it is only written.
type saslToken []byte

func (t saslToken) Fields(c *jute.Coder) { c.Buffer((*[]byte)(&t)) }

// authenticate logs in and presents the credentials, before any other request of a connection. Then it sends a ping,
// whose reply shows that they were accepted: so a connection that is refused is never announced, and no request is lost
// with it. That costs a round trip, and is omitted without login and credentials, unless a server has required some. The
// error is ErrAuthFailed if the server, or the mechanism, refused.
func (a *connectAttempt) authenticate() error {
	s := a.s
	if s.cfg.Login == nil && len(s.cfg.Credentials) == 0 && !a.authRequired {
		return nil
	}
	if err := a.loginWithSASL(); err != nil {
		return err
	}
	ping := jute.Frame(&jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})
	if _, err := a.conn.Write(append(s.credentialFrames(), ping...)); err != nil {
		return err
	}
	for answered := 0; ; {
		frame, err := readFrame(a.in, maxPlainReply)
		if err != nil {
			return fmt.Errorf("authentication: %w", err)
		}
		var h jute.ReplyHeader
		if err := jute.Unmarshal(frame, &h); err != nil {
			return err
		}
		switch {
		case h.Err == jute.CodeSessionExpired:
			return s.endSession(ErrExpired)
		case h.Err == jute.CodeSessionClosedRequireSASL:
			return errLoginRequired
		case h.Xid == jute.XidAuth && h.Err != jute.CodeOK && answered < len(s.cfg.Credentials):
			return authRefusalError("", s.cfg.Credentials[answered].displayName(), h.Err)
		case h.Xid == jute.XidAuth:
			answered++
		case h.Xid == jute.XidPing:
			return nil
		}
	}
}

// credentialFrames returns the frames that present the credentials.
func (s *Session) credentialFrames() (frames []byte) {
	for _, c := range s.cfg.Credentials {
		frames = append(frames, jute.Frame(&jute.RequestHeader{Xid: jute.XidAuth, Op: jute.OpAuth},
			&jute.AuthPacket{Scheme: c.Scheme, Auth: c.Auth})...)
	}
	return frames
}

// authRefusalError returns the error of a refused credential or login. context, if not empty, names the step.
func authRefusalError(context, what string, code int32) error {
	if code == jute.CodeAuthFailed {
		return fmt.Errorf("%w: %sthe server refused %s", ErrAuthFailed, context, what)
	}
	return fmt.Errorf("%w: %sthe server refused %s: %s", ErrAuthFailed, context, what, jute.CodeName(code))
}

// loginWithSASL logs in by SASL, if that is configured.
func (a *connectAttempt) loginWithSASL() error {
	cfg := &a.s.cfg
	if cfg.Login == nil {
		return nil
	}
	a.conn.SetDeadline(a.deadline)
	ctx, cancel := context.WithDeadline(a.s.ctx, a.deadline)
	defer cancel()
	step, err := cfg.Login(ctx, a.server)
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
			if challenge, err = a.exchangeToken(response); err != nil {
				return err
			}
		}
		switch {
		case done:
			return nil
		case response == nil:
			return fmt.Errorf("%w: SASL: the mechanism returned no token, though the login is not done",
				ErrAuthFailed)
		}
	}
	return fmt.Errorf("%w: SASL: the login is not done after %d steps", ErrAuthFailed, maxSteps)
}

// exchangeToken sends a token and returns the server's, nil for none.
func (a *connectAttempt) exchangeToken(response []byte) ([]byte, error) {
	frame := jute.Frame(&jute.RequestHeader{Xid: loginXid, Op: jute.OpSASL}, saslToken(response))
	if _, err := a.conn.Write(frame); err != nil {
		return nil, err
	}
	for {
		frame, err := readFrame(a.in, maxToken)
		if err != nil {
			return nil, fmt.Errorf("SASL: %w", err)
		}
		var h jute.ReplyHeader
		d := jute.NewDecoder(frame)
		if h.Fields(d); d.Err() != nil {
			return nil, d.Err()
		}
		switch {
		case h.Xid != loginXid:
		case h.Err == jute.CodeSessionExpired:
			return nil, a.s.endSession(ErrExpired)
		case h.Err != jute.CodeOK:
			return nil, authRefusalError("SASL: ", "the login of "+a.s.cfg.LoginName, h.Err)
		default:
			var challenge []byte
			d.Buffer(&challenge)
			return challenge, d.Err()
		}
	}
}
