package proxy

import "sync"

// gate lets bytes of one direction pass, or holds them back.
type gate struct {
	mu      sync.Mutex
	shut    bool
	opened  chan struct{} // closed when the gate opens again
	passing int
	idle    chan struct{} // closed when the last one has passed a shut gate
}

// enter waits until the gate is open, or done is closed: then it returns false. Each enter is followed by a leave.
func (g *gate) enter(done <-chan struct{}) bool {
	for {
		g.mu.Lock()
		if !g.shut {
			g.passing++
			g.mu.Unlock()
			return true
		}
		opened := g.opened
		g.mu.Unlock()
		select {
		case <-opened:
		case <-done:
			return false
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passing--
	if g.shut && g.passing == 0 {
		close(g.idle)
	}
}

// close shuts the gate. Goroutines that have entered continue; the channel is closed when they have left.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut = true
		g.opened = make(chan struct{})
		g.idle = make(chan struct{})
		if g.passing == 0 {
			close(g.idle)
		}
	}
	return g.idle
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		g.shut = false
		close(g.opened)
	}
}

// wait is closed as soon as the gate is open; nil when it is open now.
func (g *gate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		return nil
	}
	return g.opened
}
