package wire

// callState says where a call is.
type callState int8

const (
	callNew callState = iota
	callQueued
	callWritten
	callDone
)

// waiting is the calls that are not written yet: the urgent ones in front of the others, each kind in the order of submission. Session.mu guards it.
type waiting struct{ urgent, others callList }

func (w *waiting) n() int { return w.urgent.n + w.others.n }

func (w *waiting) list(c *Call) *callList {
	if c.Urgent {
		return &w.urgent
	}
	return &w.others
}

func (w *waiting) push(c *Call)   { w.list(c).push(c) }
func (w *waiting) remove(c *Call) { w.list(c).remove(c) }

func (w *waiting) pop() *Call {
	if c := w.urgent.pop(); c != nil {
		return c
	}
	return w.others.pop()
}

// each calls f, which may remove the call that it is given.
func (w *waiting) each(f func(*Call)) {
	for _, c := range []*Call{w.urgent.first, w.others.first} {
		for c != nil {
			following := c.next
			f(c)
			c = following
		}
	}
}

// callList is a FIFO of calls that any call can leave. Session.mu guards it.
type callList struct {
	first, last *Call
	n           int
}

func (l *callList) push(c *Call) {
	c.prev, c.next = l.last, nil
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	l.n++
}

func (l *callList) remove(c *Call) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	l.n--
}

func (l *callList) pop() *Call {
	c := l.first
	if c != nil {
		l.remove(c)
	}
	return c
}
