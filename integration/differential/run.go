package differential

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// Outcome has the messages that the sessions of a history received: a text for each operation, one for the tree that
// is left, and one for each session's end.
type Outcome []string

// home is the root of all histories. It is empty when one begins.
const home = "/h"

// Host runs histories on a server, one at a time.
type Host struct {
	system  System
	super   *client         // looks at all and sweeps
	unknown map[string]bool // kinds of requests that the server does not know
}

// NewHost connects, and asks which requests the server knows.
func NewHost(system System) (*Host, error) {
	h := &Host{system: system, super: &client{}, unknown: map[string]bool{"unknown": true}}
	if _, err := h.super.start(system); err != nil {
		return nil, err
	}
	for kind := range kinds {
		if err := h.ask(kind); err != nil {
			return nil, err
		}
	}
	_, err := h.do(Op{Kind: "auth", Auth: [2]string{"digest", superUser}})
	return h, err
}

// ask sends a request without a body, and notes it if the server closes the connection upon it.
func (h *Host) ask(kind string) error {
	code := kinds[kind]
	if code == 0 || code == jute.OpAuth || code == jute.OpCloseSession {
		return nil
	}
	h.super.xid++
	err := h.super.write(jute.Frame(&jute.RequestHeader{Xid: xidOf(code, h.super.xid), Op: code}))
	if err != nil {
		return err
	}
	frame, err := h.super.read()
	if err != nil {
		return err
	}
	var header jute.ReplyHeader
	if err := jute.Unmarshal(frame, &header); err != nil || !closes(header) {
		return err
	}
	h.unknown[kind] = true
	_, _, err = h.super.connect(h.system, jute.ConnectRequest{Timeout: int32(maxTimeout.Milliseconds()),
		SessionID: h.super.id, Password: h.super.password, HasReadOnly: true})
	return err
}

// closes reports whether the server closes the connection after this reply: it does not support the operation, and
// replies ahead of the requests in flight.
func closes(answer jute.ReplyHeader) bool {
	return answer.Err == jute.CodeUnimplemented && answer.Zxid == -1
}

// Close ends the host's session.
func (h *Host) Close() error {
	_, err := h.do(Op{Kind: "closeSession"})
	h.super.drop()
	return err
}

type run struct {
	host    *Host
	names   names
	clients map[int]*client
	order   []int // sessions, in the order of their first operation
}

// Run executes a history. After an error there is no outcome: the server is gone, or silent.
func (h *Host) Run(ops []Op) (outcome Outcome, err error) {
	created, err := h.do(Op{Kind: "create", Path: home})
	if err != nil || created.Err != 0 {
		return nil, fmt.Errorf("%s: no home: %d, %w", h.system.Name(), created.Err, err)
	}
	r := &run{host: h, clients: map[int]*client{},
		names: names{base: created.Zxid, sessions: map[int64]int{}, times: map[int64]int64{}}}
	defer r.end()
	for at := 0; at < len(ops); {
		batch := h.batchAt(ops[at:])
		texts, err := r.batch(batch)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", h.system.Name(), batch[0], err)
		}
		outcome = append(outcome, texts...)
		at += len(batch)
	}
	tree, err := r.audit()
	if err != nil {
		return nil, fmt.Errorf("%s: audit: %w", h.system.Name(), err)
	}
	outcome = append(outcome, tree)
	for _, number := range r.order {
		text, err := r.farewell(number)
		if err != nil {
			return nil, fmt.Errorf("%s: closing: %w", h.system.Name(), err)
		}
		outcome = append(outcome, text)
	}
	return outcome, h.sweep()
}

// farewell ends a session for good, wherever it is: one left over would expire in the middle of a later
// history.
func (r *run) farewell(number int) (string, error) {
	c, text := r.clients[number], ""
	if c.nc == nil {
		var err error
		if text, err = r.action(c, Op{Session: number, Kind: attach}); err != nil || c.nc == nil {
			return text, err
		}
		text += "\n"
	}
	texts, err := r.batch([]Op{{Session: number, Kind: "closeSession"}})
	return text + strings.Join(texts, ""), err
}

// batchAt returns the operations that are sent before the first reply is read.
func (h *Host) batchAt(ops []Op) []Op {
	alone := func(op Op) bool { return op.alone() || h.unknown[op.Kind] }
	n := 1
	for n < len(ops) && ops[n-1].More && ops[n].Session == ops[0].Session && !alone(ops[n-1]) && !alone(ops[n]) {
		n++
	}
	return ops[:n]
}

func (r *run) end() {
	for _, c := range r.clients {
		c.drop()
	}
}

// batch does operations of one session and returns their texts.
func (r *run) batch(ops []Op) ([]string, error) {
	number := ops[0].Session
	c := r.clients[number]
	if c == nil {
		c = &client{}
		r.clients[number] = c
		r.order = append(r.order, number)
		if err := r.begin(c, number); err != nil {
			return nil, err
		}
	}
	if slices.Contains(actions, ops[0].Kind) {
		text, err := r.action(c, ops[0])
		return []string{text}, err
	}
	if c.nc == nil {
		return slices.Repeat([]string{"not connected"}, len(ops)), nil
	}
	var frames []byte
	for i, op := range ops {
		frames = append(frames, r.frame(c, op, c.xid+int32(i)+1)...)
	}
	if err := c.write(frames); err != nil {
		return nil, err
	}
	texts := make([]string, len(ops))
	for i, op := range ops {
		c.xid++
		text, err := r.await(c, op)
		if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	return texts, nil
}

func (r *run) begin(c *client, number int) error {
	answer, err := c.start(r.host.system)
	r.names.sessions[answer.SessionID] = number
	return err
}

func (r *run) frame(c *client, op Op, xid int32) []byte {
	code := kinds[op.Kind]
	if op.Kind == "unknown" {
		code = op.Num
	}
	return jute.Frame(&jute.RequestHeader{Xid: xidOf(code, xid), Op: code},
		op.request(code, func(z int64) int64 { return r.names.base + z }))
}

// xidOf is the xid that a request of the kind has in every client.
func xidOf(code, xid int32) int32 {
	switch code {
	case jute.OpPing:
		return jute.XidPing
	case jute.OpAuth:
		return jute.XidAuth
	case jute.OpSetWatches, jute.OpSetWatches2:
		return jute.XidSetWatches
	}
	return xid
}

// await reads up to the reply of an operation, whatever its xid says, and returns all that was read.
func (r *run) await(c *client, op Op) (string, error) {
	var lines []string
	for {
		frame, err := c.read()
		if err != nil {
			return "", err
		}
		if frame == nil {
			return strings.Join(append(lines, "connection closed"), "\n"), nil
		}
		var header jute.ReplyHeader
		if err := jute.Unmarshal(frame, &header); err != nil {
			return "", err
		}
		if header.Xid == jute.XidNotification {
			lines = append(lines, r.names.event(header.Zxid, frame[16:]))
			continue
		}
		code := kinds[op.Kind]
		xid := "ok"
		if header.Xid != xidOf(code, c.xid) {
			xid = fmt.Sprintf("%d instead of %d", header.Xid, xidOf(code, c.xid))
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("error %d at %s, xid %s: %s", header.Err,
			r.names.zxid(header.Zxid), xid,
			r.names.reply(code, frame[16:])), ": "))
		if op.Kind == "closeSession" || closes(header) || op.Kind == "auth" && header.Err != 0 {
			more, err := r.rest(c)
			return strings.Join(append(lines, more...), "\n"), err
		}
		return strings.Join(lines, "\n"), nil
	}
}

// rest reads until the server closes the connection.
func (r *run) rest(c *client) ([]string, error) {
	var lines []string
	for {
		frame, err := c.read()
		if err != nil {
			return nil, err
		}
		if frame == nil {
			return append(lines, "connection closed"), nil
		}
		var header jute.ReplyHeader
		if err := jute.Unmarshal(frame, &header); err != nil {
			return nil, err
		}
		if header.Xid == jute.XidNotification {
			lines = append(lines, r.names.event(header.Zxid, frame[16:]))
		} else {
			lines = append(lines, fmt.Sprintf("a reply to xid %d", header.Xid))
		}
	}
}

// action executes an operation other than a request.
func (r *run) action(c *client, op Op) (string, error) {
	hello := jute.ConnectRequest{Timeout: int32(maxTimeout.Milliseconds()), SessionID: c.id,
		Password: slices.Clone(c.password), HasReadOnly: true}
	switch op.Kind {
	case cut:
		c.drop()
		return "", until(c.id, r.host.system.Connected)
	case reaped:
		return "", until(c.id, func(int64) (bool, error) {
			found, err := r.host.do(Op{Kind: "exists", Path: op.Path})
			return found.Err == 0, err
		})
	case restart:
		text, err := r.farewell(op.Session)
		if err != nil {
			return "", err
		}
		return text, r.begin(c, op.Session)
	case attach:
		switch op.Num {
		case 1:
			hello.Password[0]++
		case 2:
			hello.LastZxidSeen = 1 << 60
		}
		return r.reattach(c, hello)
	}
	return r.expire(c, op.Kind == vanish, hello)
}

// expire lets a session expire. Its text does not depend on the time of the expiry: on a busy machine the session may
// expire before the reply to the handshake has come, or long after the server has stopped listing it.
func (r *run) expire(c *client, vanishes bool, hello jute.ConnectRequest) (string, error) {
	alive, err := r.host.system.Lives(c.id)
	if err != nil {
		return "", err
	}
	before, err := r.host.do(Op{Kind: "sync", Path: home})
	if err != nil {
		return "", err
	}
	hello.Timeout = int32(expiry.Milliseconds())
	text, err := r.reattach(c, hello)
	if err != nil || !alive {
		return text, err
	}
	if c.nc == nil {
		text = r.welcome(c, jute.ConnectResponse{SessionID: c.id, Timeout: hello.Timeout, Password: c.password,
			HasReadOnly: true})
	}
	if vanishes {
		c.drop()
	} else {
		if c.nc != nil {
			if err := c.nc.SetDeadline(time.Now().Add(patience)); err != nil {
				return "", err
			}
		}
		more, err := r.rest(c)
		if err != nil {
			return "", err
		}
		text = strings.Join(append([]string{text}, more...), "\n")
	}
	// The real server may close a silent connection before it ends its session. When it ends a session it closes the
	// session's last connection, even a new one, and it does not list a session that it is about to end. Only the
	// transaction proves the end.
	if err := until(c.id, r.host.system.Lives); err != nil {
		return "", err
	}
	return text, until(c.id, func(int64) (bool, error) {
		now, err := r.host.do(Op{Kind: "sync", Path: home})
		return now.Zxid <= before.Zxid, err
	})
}

// welcome is the text of an answer to a handshake.
func (r *run) welcome(c *client, answer jute.ConnectResponse) string {
	return fmt.Sprintf("%s timeout %d password %v read-only %v %v", r.names.session(answer.SessionID),
		answer.Timeout,
		slices.Equal(answer.Password, c.password), answer.HasReadOnly, answer.ReadOnly)
}

// until waits while holds is true for a session.
func until(session int64, holds func(session int64) (bool, error)) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		still, err := holds(session)
		if err != nil || !still {
			return err
		}
		if time.Now().After(end) {
			return errSilent
		}
	}
}

// reattach connects with a session's id and returns a text for the outcome. A real server now and then closes the
// connection without a reply when the session has just expired, so a client that may expect a reply tries again.
func (r *run) reattach(c *client, hello jute.ConnectRequest) (string, error) {
	for attempt := 0; ; attempt++ {
		answer, answered, err := c.connect(r.host.system, hello)
		switch {
		case err != nil:
			return "", err
		case answered:
			return r.welcome(c, answer), nil
		case hello.LastZxidSeen > 0 || attempt == 10:
			// its old connection, whose end is not waited for
			return "closed without an answer", until(c.id, r.host.system.Connected)
		}
		time.Sleep(time.Millisecond)
	}
}
