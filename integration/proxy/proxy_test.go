package proxy

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	soon    = 10 * time.Second       // for what must happen
	awhile  = 100 * time.Millisecond // for what must not
	greeted = "hello"
)

// server accepts connections and hands them to the test.
func server(t *testing.T) (addr string, accepted <-chan *net.TCPConn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conns := make(chan *net.TCPConn, 100)
	var loop sync.WaitGroup
	loop.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns <- conn.(*net.TCPConn)
		}
	})
	t.Cleanup(func() {
		listener.Close()
		loop.Wait()
		close(conns)
		for conn := range conns {
			conn.Close()
		}
	})
	return listener.Addr().String(), conns
}

func dial(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

func next(t *testing.T, accepted <-chan *net.TCPConn) *net.TCPConn {
	t.Helper()
	select {
	case conn := <-accepted:
		t.Cleanup(func() { conn.Close() })
		return conn
	case <-time.After(soon):
		t.Fatal("no connection at the server")
		return nil
	}
}

func send(t *testing.T, conn *net.TCPConn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

func receives(t *testing.T, conn *net.TCPConn, text string) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(soon))
	got := make([]byte, len(text))
	n, err := io.ReadFull(conn, got)
	require.NoError(t, err, "after %q", got[:n])
	require.Equal(t, text, string(got))
}

// silent checks that neither a byte nor the end of the connection comes.
func silent(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(awhile))
	n, err := conn.Read(make([]byte, 1))
	require.True(t, isTimeout(err), "%d bytes, %v", n, err)
}

func ends(t *testing.T, conn *net.TCPConn, how error) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(soon))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, how)
}

// refused checks that a connection is reset, perhaps while it is opened.
func refused(t *testing.T, p *Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		require.ErrorIs(t, err, syscall.ECONNRESET)
		return
	}
	defer conn.Close()
	ends(t, conn.(*net.TCPConn), syscall.ECONNRESET)
}

func pair(t *testing.T, p *Proxy, accepted <-chan *net.TCPConn) (client, server *net.TCPConn) {
	t.Helper()
	client = dial(t, p)
	server = next(t, accepted)
	send(t, client, greeted)
	receives(t, server, greeted)
	return client, server
}

func TestRelayCountsAndShowsAllBytes(t *testing.T) {
	addr, accepted := server(t)
	var up, down bytes.Buffer
	conns := make(chan int, 10)
	p := NewTapped(t, addr, func(conn int) (func([]byte), func([]byte)) {
		conns <- conn
		return func(b []byte) { up.Write(b) }, func(b []byte) { down.Write(b) }
	})
	client, server := pair(t, p, accepted)
	send(t, server, "good day")
	receives(t, client, "good day")
	client.CloseWrite()
	ends(t, server, io.EOF)
	send(t, server, ", bye")
	server.Close()
	receives(t, client, ", bye")
	ends(t, client, io.EOF)
	p.Close()
	assert.Equal(t, Stats{Accepted: 1, ToServer: 5, ToClient: 13}, p.Stats())
	assert.Equal(t, greeted, up.String())
	assert.Equal(t, "good day, bye", down.String())
	assert.Equal(t, 1, <-conns)
}

func TestCutResetsBothSidesAndRefuses(t *testing.T) {
	addr, accepted := server(t)
	p := New(t, addr)
	client, server := pair(t, p, accepted)
	p.Cut()
	ends(t, client, syscall.ECONNRESET)
	ends(t, server, syscall.ECONNRESET)
	refused(t, p)
	p.Heal()
	pair(t, p, accepted)
	stats := p.Stats()
	assert.EqualValues(t, 3, stats.Accepted)
	assert.EqualValues(t, 1, stats.Refused)
	assert.Equal(t, 1, stats.Open)
}

func TestServerDown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener.Close()
	p := New(t, listener.Addr().String())
	refused(t, p)
}

func TestHangHoldsBackUntilHeal(t *testing.T) {
	addr, accepted := server(t)
	p := New(t, addr)
	client, server := pair(t, p, accepted)
	p.Hang(Both)
	send(t, client, "request")
	send(t, server, "reply")
	silent(t, client)
	silent(t, server)
	p.Heal()
	receives(t, server, "request")
	receives(t, client, "reply")
}

func TestHangOneWay(t *testing.T) {
	for _, test := range []struct {
		name string
		way  Direction
	}{{"to server", ToServer}, {"to client", ToClient}} {
		t.Run(test.name, func(t *testing.T) {
			addr, accepted := server(t)
			p := New(t, addr)
			client, server := pair(t, p, accepted)
			held, free := client, server
			if test.way == ToClient {
				held, free = server, client
			}
			p.Hang(test.way)
			send(t, held, "held")
			send(t, free, "free")
			receives(t, held, "free")
			silent(t, free)
			p.Heal()
			receives(t, free, "held")
		})
	}
}

func TestHangHoldsBackTheEndOfAConnection(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*net.TCPConn)
		how  error
	}{
		{"closed", func(conn *net.TCPConn) { conn.Close() }, io.EOF},
		{"reset", func(conn *net.TCPConn) { reset(conn) }, syscall.ECONNRESET},
	} {
		t.Run(test.name, func(t *testing.T) {
			addr, accepted := server(t)
			p := New(t, addr)
			client, server := pair(t, p, accepted)
			p.Hang(ToServer)
			test.end(client)
			send(t, server, "to nobody")
			silent(t, server)
			p.Heal()
			ends(t, server, test.how)
		})
	}
}

func TestCutEndsWhatHangs(t *testing.T) {
	addr, accepted := server(t)
	p := New(t, addr)
	client, server := pair(t, p, accepted)
	p.Hang(Both)
	send(t, client, "request")
	p.Cut()
	ends(t, client, syscall.ECONNRESET)
	ends(t, server, syscall.ECONNRESET)
}

func TestSeverIsNoticedOnOneSide(t *testing.T) {
	for _, test := range []struct {
		name string
		side Direction
	}{{"server", ToServer}, {"client", ToClient}} {
		t.Run(test.name, func(t *testing.T) {
			addr, accepted := server(t)
			p := New(t, addr)
			client, server := pair(t, p, accepted)
			told, untold := server, client
			if test.side == ToClient {
				told, untold = client, server
			}
			p.Sever(test.side)
			ends(t, told, syscall.ECONNRESET)
			send(t, untold, "to nobody")
			silent(t, untold)
			if test.side == ToClient {
				refused(t, p)
			} else {
				silent(t, dial(t, p))
				assert.Empty(t, accepted)
			}
			p.Heal()
			ends(t, untold, syscall.ECONNRESET)
			if test.side == ToServer {
				next(t, accepted) // the connection made in between
			}
			pair(t, p, accepted)
		})
	}
}

func TestServerThatComesLate(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	listener.Close()
	p, err := Listen(Settings{Addr: "127.0.0.1:0", Target: addr, Redial: soon})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	client := dial(t, p)
	send(t, client, greeted)
	silent(t, client)
	listener, err = net.Listen("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	server, err := listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	receives(t, server.(*net.TCPConn), greeted)
}

func TestTapMayChangeBytes(t *testing.T) {
	addr, accepted := server(t)
	p := NewTapped(t, addr, func(int) (toServer, toClient func([]byte)) {
		return func(chunk []byte) { chunk[0] = 'j' }, nil
	})
	client := dial(t, p)
	server := next(t, accepted)
	send(t, client, greeted)
	receives(t, server, "jello")
}

func TestConnectionMadeDuringHang(t *testing.T) {
	addr, accepted := server(t)
	p := New(t, addr)
	p.Hang(Both)
	patient, impatient := dial(t, p), dial(t, p)
	send(t, patient, "patient")
	send(t, impatient, "impatient")
	silent(t, patient)
	impatient.Close()
	assert.Empty(t, accepted)
	require.Eventually(t, func() bool { return p.Stats().Open == 1 }, soon, time.Millisecond)
	p.Heal()
	receives(t, next(t, accepted), "patient")
	p.Close()
	assert.Empty(t, accepted, "the impatient one has never been there")
}

// TestStreamSurvivesHangs hangs a stream whose reader is slow, so that writes are interrupted in the middle of a chunk.
func TestStreamSurvivesHangs(t *testing.T) {
	addr, accepted := server(t)
	p := New(t, addr)
	client, server := pair(t, p, accepted)
	sent := make([]byte, 32<<20)
	rand.NewChaCha8([32]byte{1}).Read(sent)
	var sender sync.WaitGroup
	sender.Go(func() {
		client.Write(sent)
		client.CloseWrite()
	})
	got := make([]byte, len(sent))
	for part := 0; part < len(got); part += 1 << 20 {
		p.Hang(ToServer) // there is no reader now: buffers are full
		p.Heal()
		_, err := io.ReadFull(server, got[part:part+1<<20])
		require.NoError(t, err)
	}
	ends(t, server, io.EOF)
	sender.Wait()
	assert.True(t, bytes.Equal(sent, got))
}

func TestNoByteOfTheWayAfterHang(t *testing.T) {
	addr, accepted := server(t)
	p := New(t, addr)
	client, server := pair(t, p, accepted)
	var sender sync.WaitGroup
	sender.Go(func() {
		for i := 0; ; i++ {
			if _, err := io.WriteString(client, strconv.Itoa(i)+" "); err != nil {
				return
			}
		}
	})
	var drain sync.WaitGroup
	drain.Go(func() { io.Copy(io.Discard, server) })
	for range 50 {
		p.Hang(ToServer)
		before := p.Stats().ToServer
		for range 100 {
			require.Equal(t, before, p.Stats().ToServer)
		}
		p.Heal()
	}
	p.Cut()
	sender.Wait()
	drain.Wait()
}
