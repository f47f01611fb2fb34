package capture

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// transcript is the text of one recording.
//
// Values that change from run to run are replaced by fixed values of the same width, so that a new recording of an
// unchanged protocol is the same text: session ids and passwords are numbered, and the times of a Stat become a fixed
// time plus the zxid of the same record, in seconds. All other bytes are the server's.
type transcript struct {
	text     strings.Builder
	started  time.Time
	sessions []session
}

const origin = "# recorded from ZooKeeper "

func newTranscript(title, version string) *transcript {
	tr := &transcript{started: time.Now().Add(-time.Minute)}
	tr.remark(title)
	fmt.Fprintf(&tr.text, "%s%s\n", origin, version)
	return tr
}

func (tr *transcript) remark(comment string) {
	if tr != nil {
		fmt.Fprintf(&tr.text, "# %s\n", comment)
	}
}

func (tr *transcript) add(comment string, direction byte, frame []byte) {
	if tr == nil {
		return
	}
	fmt.Fprintf(&tr.text, "\n# %s\n%c %s\n", comment, direction, hex.EncodeToString(tr.fixed(frame)))
}

// knows adds a session whose id and password may occur in the transcript.
func (tr *transcript) knows(s session) {
	if tr == nil || s.id == 0 {
		return
	}
	for _, known := range tr.sessions {
		if known.id == s.id {
			return
		}
	}
	tr.sessions = append(tr.sessions, s)
}

func (tr *transcript) fixed(frame []byte) []byte {
	frame = bytes.Clone(frame)
	for i, s := range tr.sessions {
		id := binary.BigEndian.AppendUint64(nil, uint64(s.id))
		// The first byte is the server's number, and a first byte of 0xff would
		// mean a TTL: it stays.
		fixedID := binary.BigEndian.AppendUint64(nil, uint64(id[0])<<56|0x10000+uint64(i))
		password := make([]byte, len(s.password))
		for j := range password {
			password[j] = byte(16*(i+1) + j)
		}
		frame = bytes.ReplaceAll(frame, id, fixedID)
		frame = bytes.ReplaceAll(frame, s.password, password)
	}
	// A Stat begins czxid, mzxid, ctime, mtime.
	for at := 0; at+32 <= len(frame); at++ {
		if tr.isTime(frame[at+16:]) && tr.isTime(frame[at+24:]) {
			fixTime(frame[at:], frame[at+16:])
			fixTime(frame[at+8:], frame[at+24:])
		}
	}
	return frame
}

func (tr *transcript) isTime(b []byte) bool {
	ms := int64(binary.BigEndian.Uint64(b))
	return ms >= tr.started.UnixMilli() && ms <= time.Now().UnixMilli()+1000
}

func fixTime(zxid, ms []byte) {
	const base = 1_700_000_000_000
	binary.BigEndian.PutUint64(ms, base+1000*binary.BigEndian.Uint64(zxid))
}
