package wire

// callState says where a call is.
type callState int8

const (
	callNew callState = iota
	callQueued
	callWritten
	callDone
)

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
