package zktest

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Addr returns the TCP address if Config.Listen is set, else an address of the in-memory network (192.0.2.x).
// Only [Server.Dial] reaches the latter: give the client framework.WithDialer(server.Dial). Both are an IP
// address and port, so that no resolver is needed.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listenAddr != "" {
		return s.listenAddr
	}
	return s.name
}

var clientPort atomic.Int32

// Dial connects to the server in memory, and ignores network and addr. The connection is buffered both ways
// like TCP, has deadlines, and can be used inside a testing/synctest bubble if the server was started there.
// A stopped or closed server refuses (ECONNREFUSED); a paused one accepts and stays silent; a black hole for
// all connections makes Dial wait until Heal or the end of ctx, whose error it then returns.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return s.dialFrom(ctx, network, nil)
}

// dialFrom is Dial from a host, or without one (nil).
func (s *Server) dialFrom(ctx context.Context, network string, from *Host) (net.Conn, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, dialError(network, err)
		}
		s.mu.Lock()
		blocked, gate := (s.blockedAll != 0 || from.isBlocking(s, Both)) && !s.closed, s.gate
		down := from != nil && from.down
		s.mu.Unlock()
		if down {
			return nil, dialError(network, syscall.ECONNREFUSED)
		}
		if !blocked {
			break
		}
		select {
		case <-gate:
		case <-ctx.Done():
		case <-s.quit:
		}
	}
	client := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 32768 + int(clientPort.Add(1))&0x3fff}
	clientEnd, serverEnd := newPipe(client, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2181})
	if !s.serveConn(serverEnd, from) {
		return nil, dialError(network, syscall.ECONNREFUSED)
	}
	return clientEnd, nil
}

func dialError(network string, err error) error {
	return &net.OpError{Op: "dial", Net: network, Err: err}
}

// Dialer returns Dial in the form that go-zookeeper's WithDialer wants.
func (s *Server) Dialer() func(network, addr string, timeout time.Duration) (net.Conn, error) {
	return func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return s.Dial(ctx, network, addr)
	}
}

func (s *Server) openListener(addr string) error {
	s.mu.Lock()
	err := s.listenLocked(addr)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	at := s.listener.Addr()
	s.mu.Unlock()
	if tcp, is := at.(*net.TCPAddr); !is || !tcp.IP.IsLoopback() {
		s.cfg.alarm.Warn("this test server can be reached from other machines: "+
			"it has no TLS and is not made for hostile networks", "addr", at)
	}
	return nil
}

// listenLocked opens the TCP listener and accepts in a goroutine that ends with it.
func (s *Server) listenLocked(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.listener, s.listenAddr = l, l.Addr().String()
	s.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return // closed by Stop or Close
			}
			if !s.serveConn(nc, nil) {
				_ = nc.Close()
			}
		}
	})
	return nil
}
