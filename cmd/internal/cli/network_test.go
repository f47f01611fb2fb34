//go:build linux || darwin

package cli_test

import (
	"io"
	"net"
	"sync"

	"github.com/stretchr/testify/require"
)

// network is a network between one program and the server. When it is cut no more bytes arrive, and neither end is
// notified.
type network struct {
	listener net.Listener
	server   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// throughNetwork gives the programs that are started next a network of their own.
func (b *bed) throughNetwork() *network {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	n := &network{listener: listener, server: b.srv.Addr()}
	n.wg.Go(n.accept)
	b.Cleanup(func() {
		listener.Close()
		n.setCut(true)
		n.mu.Lock()
		for _, c := range n.conns {
			c.Close()
		}
		n.mu.Unlock()
		n.wg.Wait()
	})
	b.env = append(b.env, "CURATOR_SERVERS="+listener.Addr().String())
	return n
}

// direct connects the programs that are started next without a network.
func (b *bed) direct() { b.env = append(b.env, "CURATOR_SERVERS="+b.srv.Addr()) }

func (n *network) setCut(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
	if !cut { // lost bytes stay lost: those connections are broken
		for _, c := range n.conns {
			c.Close()
		}
		n.conns = nil
	}
}

func (n *network) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut
}

func (n *network) accept() {
	for {
		client, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		n.conns = append(n.conns, client)
		cut := n.cut
		n.mu.Unlock()
		if cut {
			continue
		}
		server, err := net.Dial("tcp", n.server)
		if err != nil {
			client.Close()
			continue
		}
		n.mu.Lock()
		n.conns = append(n.conns, server)
		n.mu.Unlock()
		n.wg.Go(func() { n.carry(client, server) })
		n.wg.Go(func() { n.carry(server, client) })
	}
}

// carry copies bytes until one end closes. If the network is cut the other end does not notice even that.
func (n *network) carry(to, from net.Conn) {
	_, _ = io.Copy(whileWhole{n, to}, from)
	if !n.isCut() {
		to.Close()
	}
}

type whileWhole struct {
	n  *network
	to net.Conn
}

func (w whileWhole) Write(b []byte) (int, error) {
	if w.n.isCut() {
		return len(b), nil
	}
	return w.to.Write(b)
}
