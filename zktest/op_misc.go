package zktest

import (
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// ping (11), sync (9), whoAmI (107), createSession (-10), closeSession (-11), sasl (102), deleteContainer (20).

func (s *Server) ping(*clientRequest) (jute.Record, Error) { return nil, ok }

func (s *Server) sync(r *clientRequest) (jute.Record, Error) {
	var req jute.PathRequest
	if err := r.decodeRecord(&req); err != ok {
		return nil, err
	}
	if r.path = req.Path; req.Path == jute.Null {
		return &jute.IntResponse{Value: -1}, ok // the answer is null
	}
	return &jute.PathResponse{Path: req.Path}, ok
}

// whoAmI names the users that the connection has proved to be, without their hashes.
func (s *Server) whoAmI(r *clientRequest) (jute.Record, Error) {
	response := &jute.WhoAmIResponse{}
	for _, id := range r.conn.auth {
		user := id.User
		if id.Scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		response.Info = append(response.Info, provedIdentity{Scheme: id.Scheme, User: user})
	}
	return response, ok
}

// createSession, sent within a session, restarts its timeout, with the time in the request until the next request. The
// reply is a handshake's.
func (s *Server) createSession(r *clientRequest, _ *logEntry) Error {
	var timeout int32
	if r.body.Int(&timeout); r.body.Err() != nil {
		return ErrMarshalling
	}
	if ses := s.sessions[r.conn.sessionID]; ses != nil {
		s.touchSession(ses, int64(timeout))
	}
	return ok
}

// closeOwnSession closes a session for its client: the client still gets the events of its deleted nodes and the
// reply, then the connection is closed.
func (s *Server) closeOwnSession(r *clientRequest, e *logEntry) Error {
	e.closes = r.conn.sessionID
	s.prepareClose(e)
	return ok
}

// deleteContainer is meant for the reaper. A 3.9 server executes a client's request: it deletes a childless node,
// whatever the ACLs. Earlier servers misread the request, so that it never names a node.
func (s *Server) deleteContainer(r *clientRequest, e *logEntry) Error {
	if !s.cfg.Profile.behaviour().readsDeleteContainer {
		return ErrBadArguments
	}
	var req jute.PathRequest
	if err := r.decodeRecord(&req); err != ok {
		return err
	}
	r.path = req.Path
	if _, err := parseDeletePath(req.Path); err != ok {
		return err
	}
	return s.prepareReap(e, req.Path)
}
