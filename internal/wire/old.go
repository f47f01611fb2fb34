package wire

import "github.com/go-curator/curator/internal/jute"

// Servers before 3.6 close the connection on an operation that they do not know, such as addWatch. So before the first
// such operation on a server that may be so old, the session sends a harmless question: whether there are watches on a
// path without a slash, which no watch can have.
//
//	type of watcher                  3.5               3.6 to 3.8        3.9
//	4, which is new in 3.9           MarshallingError  MarshallingError  NoWatcher
//	3, all types                     NoWatcher         MarshallingError  NoWatcher
//
// (From 3.6 to 3.8 a server looks for recursive watches on the parents of a path, and fails when there is no slash.)
// Until the reply the other calls wait, to keep their order.

// noPath is the path in the questions.
const noPath = "x"

// before36 judges the answer to the question for watchers of a type: whether the server is older than 3.6, and whether
// that is certain, or one more question is needed. Servers that answer otherwise are not older: they have to be tried.
func before36(watcherType, code int32) (older, certain bool) {
	switch {
	case code == jute.CodeUnimplemented: // before 3.5
		return true, true
	case watcherType == jute.WatcherPersistent:
		return false, code != jute.CodeMarshallingError
	}
	return code == jute.CodeNoWatcher, true
}

// asks reports whether a call has to wait for the answer to a question, which it asks if need be. A question that is
// lost with its connection is not repeated: it may be why the connection ended. Session.mu is held.
func (s *Session) asks(l *link, c *Call) bool {
	if !l.asking && ops[c.Op].from36 && !s.calls.asked[l.server] {
		s.calls.asked[l.server], l.asking = true, true
		s.ask(l, jute.WatcherPersistent)
	}
	return l.asking
}

// ask sends a question. Session.mu is held.
func (s *Session) ask(l *link, watcherType int32) {
	s.write(l, &Call{
		Op: jute.OpCheckWatches, Body: jute.Marshal(&jute.PathIntRequest{Path: noPath, Value: watcherType}),
		Done: func(r Reply) {
			if r.Err != nil {
				return // the connection is gone
			}
			s.locked(func() (t todo) {
				if s.links.live != l {
					return t
				}
				older, certain := before36(watcherType, r.Code)
				if !certain {
					s.ask(l, jute.WatcherAny)
					return t
				}
				if older {
					for code, op := range ops {
						if op.from36 {
							s.calls.unknown[serverOp{l.server, code}] = true
						}
					}
				}
				l.asking = false
				s.pump(&t)
				return t
			})
		},
	})
}
