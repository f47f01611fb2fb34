package proxy

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// link is one connection through the proxy.
type link struct {
	client  *net.TCPConn
	aborted chan struct{} // closed when the link is to end without ceremony
	// broken is set after a failed write: it has taken the error that the read of the same side would have reported.
	broken atomic.Bool

	mu     sync.Mutex
	server *net.TCPConn // nil until attached
	dead   bool
}

func newLink(client *net.TCPConn) *link {
	return &link{client: client, aborted: make(chan struct{})}
}

// readUntil reads from the client until opened is closed. It returns false if the client went away before, or the
// link was aborted.
func (l *link) readUntil(opened <-chan struct{}) (early []byte, alive bool) {
	if opened == nil {
		return nil, true
	}
	stopped := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-opened:
			l.client.SetReadDeadline(time.Unix(1, 0))
		case <-stopped:
		}
	})
	buffer := make([]byte, 4<<10)
	var err error
	for err == nil {
		var n int
		n, err = l.client.Read(buffer)
		early = append(early, buffer[:n]...)
	}
	close(stopped)
	watcher.Wait()
	if !isTimeout(err) {
		return nil, false
	}
	l.client.SetReadDeadline(time.Time{})
	return early, true
}

// onAbort calls f when the link is aborted, unless stop is called before.
func (l *link) onAbort(f func()) (stop func()) {
	stopped := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-l.aborted:
			f()
		case <-stopped:
		}
	})
	return func() {
		close(stopped)
		watcher.Wait()
	}
}

// attach gives the link its server side, unless it has been aborted before.
func (l *link) attach(server *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		reset(server)
		return false
	}
	l.server = server
	return true
}

// abort resets both sides, unless the link has ended already.
func (l *link) abort() { l.finish(reset) }

// close ends a link after an orderly end of both ways; the bytes in the system's buffers will be delivered.
func (l *link) close() { l.finish(func(conn *net.TCPConn) { conn.Close() }) }

func (l *link) finish(end func(*net.TCPConn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return
	}
	l.dead = true
	close(l.aborted)
	end(l.client)
	if l.server != nil {
		end(l.server)
	}
}

// sever resets one side and leaves the other as it is.
func (l *link) sever(side Direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if side&ToClient != 0 {
		reset(l.client)
	}
	if side&ToServer != 0 && l.server != nil {
		reset(l.server)
	}
}

// end reports to one side that the other has ended, in order or not.
func (l *link) end(to *net.TCPConn, orderly bool) {
	if orderly {
		to.CloseWrite()
		return
	}
	l.abort()
}

func (l *link) setWriteDeadline(direction Direction, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case direction == ToClient:
		l.client.SetWriteDeadline(at)
	case l.server != nil:
		l.server.SetWriteDeadline(at)
	}
}

// reset closes with RST, so that the other end notices immediately and no port is kept in TIME_WAIT.
func reset(conn *net.TCPConn) {
	conn.SetLinger(0)
	conn.Close()
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
