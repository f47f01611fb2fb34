package capture

import (
	"bytes"
	"time"
)

var sessionRecordings = []recording{
	{"connect", "a new session; the request ends with the read-only byte", func(r *recorder) {
		c := r.dial()
		c.connect("ConnectRequest", session{}, 0, sessionTimeout, true)
		c.log = nil
		c.closeSession()
	}},
	{"connect_short", "a new session; the request has no read-only byte, so neither has the response", func(
		r *recorder,
	) {
		c := r.dial()
		c.connect("ConnectRequest", session{}, 0, sessionTimeout, false)
		c.log = nil
		c.closeSession()
	}},
	{"connect_timeout_bounded", "a new session; the server grants less than the 60 s asked for", func(
		r *recorder,
	) {
		c := r.dial()
		c.connect("ConnectRequest", session{}, 0, time.Minute, true)
		c.log = nil
		c.closeSession()
	}},
	{"connect_again", "a session taken up again on a second connection, with the last zxid seen", func(
		r *recorder,
	) {
		first := r.open()
		first.net.Close()
		c := r.dial()
		c.connect("ConnectRequest", first.session, 1, sessionTimeout, true)
		c.log = nil
		c.closeSession()
	}},
	{"connect_refused", "a session id with a wrong password: the response says session 0, timeout 0", func(
		r *recorder,
	) {
		first := r.open()
		c := r.dial()
		c.connect("ConnectRequest", session{first.session.id, bytes.Repeat([]byte{7}, 16)}, 0, sessionTimeout, true)
		c.closedByServer()
		r.log.remark("so is the session's own connection, before the password is looked at")
		first.log = nil
		first.closedByServer()
		r.end(first.session)
	}},
	{"connect_ahead", "a last zxid that the server has not reached: no response, the connection is closed", func(
		r *recorder,
	) {
		c := r.dial()
		c.write("ConnectRequest", body{}.int(0).long(1<<40).int(4000).long(0).bytes(make([]byte, 16)).bool(false))
		c.closedByServer()
	}},
	{"ping", "the keep-alive", func(r *recorder) {
		c := r.open()
		c.callXid(0, "ping", xidPing, opPing, nil)
		c.log = nil
		c.closeSession()
	}},
	{"close_session", "the end of a session; the server then closes the connection", func(r *recorder) {
		c := r.open()
		c.call(0, "closeSession", opCloseSession, nil)
		c.closedByServer()
	}},
	{"unknown_opcode", "an operation the server does not know: -6, and the connection is closed", func(
		r *recorder,
	) {
		c := r.open()
		c.call(-6, "unknown", 999, pathOnly("/unknown"))
		c.closedByServer()
		r.end(c.session)
	}},
}
