package zktest

import (
	"encoding/binary"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// Whatever a client sends, the server neither crashes nor hangs: it still serves other clients.
func FuzzFrames(f *testing.F) {
	header := func(op int32) []byte { return jute.Marshal(&jute.RequestHeader{Xid: 1, Op: op}) }
	for op := range operations {
		f.Add(header(op), false)
		f.Add(append(header(op), jute.Marshal(at("/a"), mk("/b", 3), &jute.SetWatches2{})...), false)
	}
	multi := jute.Marshal(&jute.MultiRequest{Ops: []jute.MultiOp{
		{Op: jute.OpCreate, Request: mk("/a", jute.ModeContainer)},
		{Op: jute.OpCheck, Request: rm("/a")},
	}})
	f.Add(append(header(jute.OpMulti), multi...), false)
	auth := jute.Marshal(&jute.AuthPacket{Scheme: "digest", Auth: []byte("a:b")})
	f.Add(append(header(jute.OpAuth), auth...), false)
	f.Add([]byte("ruok"), true)
	f.Add(jute.Frame(&jute.ConnectRequest{Timeout: 5, SessionID: -1, Password: []byte("x")}), true)
	// A raw stream: claimed lengths and counts, before and after the handshake.
	hello := jute.Frame(&jute.ConnectRequest{Timeout: 10000, Password: make([]byte, 16), HasReadOnly: true})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0}, true)
	f.Add([]byte{0, 0x0f, 0xff, 0xff, 0}, true)
	longPassword := append(make([]byte, 24), 0x7f, 0xff, 0xff, 0xff) // of 2 GiB
	f.Add(append([]byte{0, 0, 0, 28}, longPassword...), true)
	f.Add(slices.Concat(hello, jute.Frame(&jute.RequestHeader{Xid: 1, Op: jute.OpCreate}, at("/a"))), true)
	manyWatches := jute.Marshal(&jute.ReplyHeader{Zxid: 1, Xid: 0x7fffffff})
	f.Add(slices.Concat(hello, []byte{0, 0, 0, 20}, header(jute.OpSetWatches), manyWatches), true)
	f.Add(slices.Concat(hello, []byte{0, 0x0f, 0xff, 0xff}, header(jute.OpMulti)), true)
	f.Fuzz(func(t *testing.T, data []byte, first bool) {
		synctest.Test(t, func(t *testing.T) {
			s := RunT(t, Config{ExtendedTypes: true, EnforceQuota: true})
			honest := newRaw(t, s, 40*time.Second)
			honest.create("/a", 0)
			if first {
				c := dialRaw(t, s)
				_, _ = c.nc.Write(data)
				_ = c.nc.Close()
			} else {
				c := newRaw(t, s, 40*time.Second)
				_, _ = c.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...))
				_, _ = c.nc.Write(jute.Frame(&jute.RequestHeader{Xid: 2, Op: jute.OpPing}))
				_ = c.nc.SetReadDeadline(time.Now().Add(time.Second))
				_, _ = io.Copy(io.Discard, c.nc)
			}
			require.Equal(t, ok, honest.code(jute.OpPing))
			time.Sleep(2 * time.Minute)
		})
	})
}
