package wire

// queue is the calls that are not written yet: the urgent ones first, each kind in the order of submission.
// Session.mu guards it.
type queue struct{ urgent, others callList }

func (q *queue) n() int { return q.urgent.n + q.others.n }

func (q *queue) list(c *Call) *callList {
	if c.Urgent {
		return &q.urgent
	}
	return &q.others
}

func (q *queue) push(c *Call) {
	c.waits = true
	q.list(c).push(c)
}

func (q *queue) remove(c *Call) {
	c.waits = false
	q.list(c).remove(c)
}

// first is the next call, nil if there is none.
func (q *queue) first() *Call {
	if q.urgent.n > 0 {
		return q.urgent.first
	}
	return q.others.first
}

// each calls f, which may remove the call that it is given.
func (q *queue) each(f func(*Call)) {
	for _, c := range []*Call{q.urgent.first, q.others.first} {
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
