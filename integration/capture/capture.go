// Package capture records, request by request, the replies of a real server. The recordings are the golden bytes of
// internal/jute; its testdata/README.md describes how to record them again.
package capture

import (
	"fmt"
	"testing"
	"time"
)

// recording is one operation's file: its name without .hex, its title, and the exchange.
type recording struct {
	name, title string
	run         func(r *recorder)
}

// recordings are made in this order on one fresh server. New ones go to the end: the zxids in all later files depend
// on the recordings before.
var recordings = concat(sessionRecordings, nodeRecordings, readRecordings, transactionRecordings,
	watchRecordings, accessRecordings, peculiarRecordings)

func concat(lists ...[]recording) (all []recording) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// recorder gives a recording its connections.
type recorder struct {
	t    testing.TB
	addr string
	log  *transcript
}

func (r *recorder) record(rec recording, version string) string {
	r.log = newTranscript(fmt.Sprintf("%s: %s", rec.name, rec.title), version)
	rec.run(r)
	return r.log.text.String()
}

const sessionTimeout = 4 * time.Second

// dial opens a recorded connection; its handshake is part of the recording.
func (r *recorder) dial() *conn {
	r.t.Helper()
	return dial(r.t, r.addr, r.log)
}

// open opens a recorded connection whose handshake is left out.
func (r *recorder) open() *conn {
	r.t.Helper()
	return r.reopen(session{})
}

// reopen is open for a session that exists already.
func (r *recorder) reopen(s session) *conn {
	r.t.Helper()
	if s.id != 0 {
		r.log.remark("a new connection of the same session; its handshake is left out")
	}
	c := dial(r.t, r.addr, nil)
	c.connect("", s, 0, sessionTimeout, true)
	r.log.knows(c.session)
	c.log = r.log
	return c
}

// unrecorded does something in a separate session, without a transcript.
func (r *recorder) unrecorded(do func(c *conn)) {
	r.t.Helper()
	c := dial(r.t, r.addr, nil)
	c.connect("", session{}, 0, sessionTimeout, true)
	do(c)
	c.closeSession()
}

// end closes a session whose connection is gone.
func (r *recorder) end(s session) {
	r.t.Helper()
	c := dial(r.t, r.addr, nil)
	c.connect("", s, 0, sessionTimeout, true)
	c.closeSession()
}
