package zktest

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newPipe(&net.TCPAddr{Port: 1}, &net.TCPAddr{Port: 2})
		assert.Equal(t, a.LocalAddr(), b.RemoteAddr())
		buf := make([]byte, 8)

		n, err := a.Write([]byte("hello")) // before any read
		require.NoError(t, err)
		assert.Equal(t, 5, n)
		n, err = b.Read(buf[:3])
		require.NoError(t, err)
		assert.Equal(t, "hel", string(buf[:n]))

		start := time.Now()
		require.NoError(t, a.SetReadDeadline(start.Add(time.Second)))
		_, err = a.Read(buf)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		assert.Equal(t, time.Second, time.Since(start))
		_, err = a.Read(buf)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "until it is moved")
		require.NoError(t, a.SetDeadline(time.Time{}))

		require.NoError(t, a.SetWriteDeadline(time.Now().Add(time.Second)))
		n, err = a.Write(make([]byte, pipeLimit+1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "full")
		assert.Equal(t, pipeLimit-2, n)
		require.NoError(t, a.SetWriteDeadline(time.Time{}))

		require.NoError(t, a.Close())
		_, err = a.Read(buf)
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = a.Write(buf)
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = b.Write(buf)
		require.ErrorIs(t, err, syscall.EPIPE)
		rest, err := io.ReadAll(b)
		require.NoError(t, err)
		assert.Len(t, rest, pipeLimit)
	})
}

func TestPipeManyBytes(t *testing.T) {
	a, b := newPipe(&net.TCPAddr{}, &net.TCPAddr{})
	const total = 3 * pipeLimit
	var wg sync.WaitGroup
	wg.Go(func() {
		chunk := make([]byte, 7777)
		for sent := 0; sent < total; {
			k := min(len(chunk), total-sent)
			for i := range k {
				chunk[i] = byte((sent + i) % 251)
			}
			n, err := a.Write(chunk[:k])
			if err != nil {
				break
			}
			sent += n
		}
		_ = a.Close()
	})
	got, err := io.ReadAll(b)
	wg.Wait()
	require.NoError(t, err)
	require.Len(t, got, total)
	for i, v := range got {
		if v != byte(i%251) {
			t.Fatalf("byte %d is %d", i, v)
		}
	}
}

func TestOverTCP(t *testing.T) {
	s := RunT(t, Config{Listen: "127.0.0.1:0"})
	c, events, err := zk.Connect([]string{s.Addr()}, 10*time.Second, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Create("/a", []byte("x"), 0, open)
	require.NoError(t, err)
	addr := s.Addr()
	require.NoError(t, s.Restart())
	assert.Equal(t, addr, s.Addr())
	for lost := false; ; {
		e := <-events
		if lost && e.State == zk.StateHasSession {
			break
		}
		lost = lost || e.State == zk.StateDisconnected
	}
	data, _, err := c.Get("/a")
	require.NoError(t, err)
	assert.Equal(t, "x", string(data))
	s.Stop()
	_, err = net.Dial("tcp", addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestFourLetterWords(t *testing.T) {
	s := RunT(t, Config{Listen: "127.0.0.1:0"})
	newRaw(t, s, 10*time.Second).create("/a", 0)
	assert.Equal(t, []bool{true}, zk.FLWRuok([]string{s.Addr()}, time.Second))
	for word, want := range map[string]string{
		"isro": "rw",
		"mntr": "zk_znode_count\t6\n",
		"stat": "Clients:\n",
		"cons": ",to=10000,lcxid=0x1,lzxid=0x2,",
		"wchs": "Total watches:0",
		"envi": "zookeeper.version=3.9.5",
		"conf": "tickTime=2000",
		"srvr": "Zxid: 0x2\nMode: standalone\nNode count: 6\n",
	} {
		nc, err := s.Dial(t.Context(), "tcp", s.Addr())
		require.NoError(t, err)
		_, err = nc.Write([]byte(word))
		require.NoError(t, err)
		text, err := io.ReadAll(nc)
		require.NoError(t, err)
		assert.Contains(t, string(text), want)
	}
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	s := RunT(t, Config{Listen: "127.0.0.1:0"})
	c := newRaw(t, s, 10*time.Second)
	mute := dialRaw(t, s)
	hold := s.Inject(Fault{Op: "sync", Action: Hold})
	c.send(9)
	<-hold.Struck()
	s.BlackHole(c.hello.SessionID, Both)
	s.Pause()
	s.Close()
	s.Close()
	c.closed()
	mute.closed()
	_, err := s.Dial(t.Context(), "tcp", s.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// Ten minutes of a hundred sessions, in virtual time.
func TestManySessionsInVirtualTime(t *testing.T) {
	real := time.Now()
	defer func() { t.Logf("took %v", time.Since(real)) }()
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		start := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			c := newRaw(t, s, 10*time.Second)
			wg.Go(func() {
				for time.Since(start) < 10*time.Minute {
					time.Sleep(3 * time.Second)
					c.call(11)
				}
			})
		}
		wg.Wait()
		assert.Len(t, s.Sessions(), 100)
		assert.Equal(t, 20000, s.Counts()["ping"])
	})
}

// A server that other machines can reach logs one warning.
func TestAnAddressThatIsNotTheLoopback(t *testing.T) {
	for addr, warnings := range map[string]int{"127.0.0.1:0": 0, "localhost:0": 0, ":0": 1, "0.0.0.0:0": 1} {
		var said bytes.Buffer
		s := RunT(t, Config{Listen: addr, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		require.NoError(t, s.Restart())
		warning := `level=WARN msg="this test server can be reached from other machines`
		warned := strings.Count(said.String(), warning)
		assert.Equal(t, warnings, warned, "%s: %s", addr, said.String())
		s.Close()
	}
	cfg, err := Config{}.withDefaults()
	require.NoError(t, err)
	assert.Same(t, slog.Default(), cfg.alarm, "also without a logger")
}
