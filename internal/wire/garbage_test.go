package wire

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// Bytes that a broken or hostile server can send. None of them may cause a panic, an endless wait or a leaked goroutine; a
// bubble ends only without goroutines.

// suffer lets a session connect to a server that sends b, in the handshake or after it, while all kinds of requests are in
// flight that a reply could belong to.
func suffer(t *testing.T, handshake bool, b []byte) {
	onScript(t, func(n int, p *peer) {
		if n > 1 {
			p.swallow()
		}
		if handshake {
			p.hello()
		} else {
			p.welcome(10 * time.Second)
			for range 4 {
				p.next()
			}
		}
		go p.swallow()
		p.raw(b)
	}, func(t *testing.T, f *fake) {
		c := open(t, f.Dial, func(cfg *Config) { cfg.ReadOnly = len(b)%2 == 0 })
		var replies []chan Reply
		for _, kind := range []WatchKind{Data, Child, Persistent, Recursive} {
			x, r := arming(listen(kind, "/a"))
			c.Submit(x)
			replies = append(replies, r)
		}
		time.Sleep(15 * time.Second)
		c.Abort(ErrClosed)
		c.Wait()
		for _, r := range replies {
			require.Len(t, r, 1, "every call ends once")
		}
	})
}

// say returns a frame of a reply header and a body.
func say(xid int32, zxid int64, code int32, body ...byte) []byte {
	return jute.Frame(&jute.ReplyHeader{Xid: xid, Zxid: zxid, Err: code}, rawRecord(body))
}

func garbage() (all [][]byte) {
	event := jute.Marshal(&jute.WatcherEvent{Type: jute.EventNodeDeleted, State: jute.StateSyncConnected,
		Path: "/a"})
	for _, xid := range []int32{jute.XidNotification, jute.XidPing, jute.XidAuth, jute.XidSetWatches, 0, 1,
		-1000, -1001, -1004, -1005, -1 << 31} {
		for _, code := range []int32{0, jute.CodeNoNode, jute.CodeUnimplemented, jute.CodeSessionExpired, 1 << 30} {
			all = append(all, say(xid, -1, code), say(xid, 1<<62, code, event...),
				say(xid, 0, code, 255, 255, 255, 255, 255, 255))
		}
	}
	return append(all, nil, []byte{0}, []byte{0, 0, 0, 0}, []byte{255, 255, 255, 255},
		[]byte{0x7f, 255, 255, 255, 0}, []byte{0, 0, 0, 15},
		append([]byte{0, 0, 0, 15}, make([]byte, 15)...), []byte("HTTP/1.1 200 OK\r\n\r\n"),
		jute.Frame(&jute.ConnectResponse{Timeout: 1 << 30, SessionID: -1, Password: make([]byte, 4000)}),
		jute.Frame(&jute.ConnectResponse{Timeout: -5, SessionID: 3}),
		jute.Frame(&jute.ConnectResponse{Timeout: 10, SessionID: 3}))
}

func TestGarbageFromTheServer(t *testing.T) {
	for _, b := range garbage() {
		suffer(t, false, b)
	}
	for _, b := range garbage()[120:] {
		suffer(t, true, b)
	}
}

func TestRandomGarbageFromTheServer(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		b := make([]byte, random.IntN(200))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		if len(b) > 20 && random.IntN(4) > 0 { // a frame that looks valid
			binary.BigEndian.PutUint32(b, uint32(len(b)-4))
			copy(b[4:], []byte{255, 255})
			binary.BigEndian.PutUint32(b[16:], 0)
		}
		suffer(t, random.IntN(3) == 0, b)
	}
}

func FuzzServer(f *testing.F) {
	for _, b := range garbage() {
		f.Add(false, b)
	}
	f.Add(true, jute.Frame(&jute.ConnectResponse{Timeout: 10_000, SessionID: 3, Password: make([]byte, 16)}))
	f.Fuzz(suffer)
}

// A frame's length is only an announcement; memory is allocated for the bytes that arrive.
func TestAClaimedLengthTakesNoMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	// 31 MiB
	suffer(t, false, append([]byte{0x01, 0xf0, 0, 0}, jute.Marshal(&jute.ReplyHeader{Xid: firstXid - 1})...))
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
}

// The library would copy the server's password into a buffer of its own; it does not need the password.
func TestALongPasswordIsKeptFromTheLibrary(t *testing.T) {
	bubble(t, func(t *testing.T) {
		again := make(chan []byte, 10)
		f := scripted(t, func(n int, p *peer) {
			again <- p.hello().Password
			p.send(&jute.ConnectResponse{Timeout: 10_000, SessionID: fakeSession, Password: make([]byte, 4000)})
			if n < 3 {
				p.next()
				return
			}
			p.obey()
		})
		c := connected(t, f.Dial)
		for range 2 {
			c.do(jute.OpSync)
			c.await(Connected)
		}
		assert.Len(t, <-again, 16)
		_, own := c.Identity()
		for range 2 {
			assert.Equal(t, own, <-again)
		}
		assert.Len(t, own, 4000)
		start := time.Now()
		require.NoError(t, c.Conn().Delete("/a", -1))
		assert.Zero(t, time.Since(start))
	})
}

// The reading of a frame allocates no more than a few times its size in all.
func TestReadingAFrameTakesMemoryInProportion(t *testing.T) {
	const size = 16 << 20
	all := make([]byte, size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := readBody(bytes.NewReader(all), size)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Len(t, b, size)
	factor := float64(after.TotalAlloc-before.TotalAlloc) / size
	t.Logf("%.2f", factor)
	assert.Less(t, factor, 2.2)
}
