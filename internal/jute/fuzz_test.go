package jute

import (
	"bytes"
	"testing"
)

// decodables returns all records that a peer can send.
func decodables() []Record {
	all := []Record{&RequestHeader{}, &ReplyHeader{}, &ConnectRequest{}, &ConnectResponse{}, &WatcherEvent{},
		&MultiHeader{}}
	for _, s := range shapes {
		all = append(all, s.request(), s.reply())
	}
	return all
}

// FuzzDecode: no bytes make a decoder panic, and a decoded record stays the same when it is encoded and decoded again.
func FuzzDecode(f *testing.F) {
	for _, g := range readGolden(f) {
		f.Add(g.frame)
		f.Add(g.frame[min(8, len(g.frame)):])
		f.Add(g.frame[min(16, len(g.frame)):])
	}
	for _, s := range samples {
		f.Add(Marshal(s.value))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		keep := bytes.Clone(b)
		for _, r := range decodables() {
			if Unmarshal(b, r) != nil {
				continue
			}
			once := Marshal(r)
			if err := Unmarshal(once, r); err != nil {
				t.Fatalf("%T: what was encoded does not decode: %v", r, err)
			}
			if twice := Marshal(r); !bytes.Equal(once, twice) {
				t.Fatalf("%T: %x became %x", r, once, twice)
			}
		}
		if !bytes.Equal(keep, b) {
			t.Fatal("decoding changed the frame")
		}
	})
}
