package zktest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// notReplayable are recordings of several sessions, of which the file has only one, or (get_ephemerals) with a list in
// the order of a short-lived Java set.
var notReplayable = []string{
	"auth.hex", "close_session_watched.hex", "event_alone.hex", "get_ephemerals.hex",
	"set_watches.hex", "set_watches2.hex",
}

var recordedTime = regexp.MustCompile(`0000018bcf[0-9a-f]{6}`)

// Requests recorded from Debian's 3.8.0 are sent again, and every byte of the replies is the same except for times.
func TestGoldenReplies(t *testing.T) {
	files, err := filepath.Glob("../internal/jute/testdata/*.hex")
	require.NoError(t, err)
	require.Greater(t, len(files), 20)
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "connect") || slices.Contains(notReplayable, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replay(t, file) })
		})
	}
}

func replay(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	now := hex.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixMilli())))
	s := RunT(t, Config{ExtendedTypes: true, Profile: V380Debian})
	c := newRaw(t, s, 10*time.Second)
	s.alignWith(text)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	replies := 0
	for lines.Scan() {
		kind, data, _ := strings.Cut(lines.Text(), " ")
		switch {
		case kind == ">":
			frame, err := hex.DecodeString(data)
			require.NoError(t, err)
			c.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
		case kind == "<":
			replies++
			frame, err := c.frame()
			require.NoError(t, err)
			want := recordedTime.ReplaceAllString(data, now)
			session := binary.BigEndian.AppendUint64(nil, uint64(c.hello.SessionID))
			want = strings.ReplaceAll(want, recordedSession, hex.EncodeToString(session))
			assert.Equal(t, want, hex.EncodeToString(frame), "reply %d", replies)
		case data == "the server closes the connection":
			c.closed()
		case strings.HasPrefix(data, "a new connection of the same session"):
			c = c.again(s)
		}
	}
	require.NotZero(t, replies)
}

const recordedSession = "0100000000010000"

// alignWith sets the zxid so that the first reply has the recorded zxid, and the root's cversion, which earlier
// recordings had advanced.
func (s *Server) alignWith(text []byte) {
	find := func(mark string) []byte {
		line := regexp.MustCompile(`(?m)^` + mark + ` ([0-9a-f]+)$`).FindSubmatch(text)
		b, _ := hex.DecodeString(string(line[1]))
		return b
	}
	op := int32(binary.BigEndian.Uint32(find(">")[4:]))
	zxid := int64(binary.BigEndian.Uint64(find("<")[4:]))
	if zxid <= 0 {
		return
	}
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete,
		jute.OpSetData, jute.OpSetACL, jute.OpMulti, jute.OpReconfig, jute.OpCloseSession:
		zxid-- // the write takes the recorded zxid
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid = zxid
	s.tree.lookup(rootPath).cversion = 3
}
