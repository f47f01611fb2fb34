package jute

import (
	"bufio"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// empty is the body of operations that have no fields.
type empty struct{}

func (empty) Fields(*Coder) {}

func fresh[T any, P interface {
	*T
	Record
}]() Record {
	return P(new(T))
}

// shape names the records of one operation.
type shape struct{ request, reply func() Record }

func none() Record { return &empty{} }

// answersToMany is the reply to a multi of many operations.
func answersToMany() Record { return &MultiResponse{Asked: 1000} }

// shapes holds the records of all operations.
var shapes = map[int32]shape{
	OpCreate:               {fresh[CreateRequest], fresh[PathResponse]},
	OpCreate2:              {fresh[CreateRequest], fresh[Create2Response]},
	OpCreateContainer:      {fresh[CreateRequest], fresh[Create2Response]},
	OpCreateTTL:            {fresh[CreateTTLRequest], fresh[Create2Response]},
	OpDelete:               {fresh[PathVersionRequest], none},
	OpExists:               {fresh[PathWatchRequest], fresh[StatResponse]},
	OpGetData:              {fresh[PathWatchRequest], fresh[GetDataResponse]},
	OpSetData:              {fresh[SetDataRequest], fresh[StatResponse]},
	OpGetACL:               {fresh[PathRequest], fresh[GetACLResponse]},
	OpSetACL:               {fresh[SetACLRequest], fresh[StatResponse]},
	OpGetChildren:          {fresh[PathWatchRequest], fresh[ChildrenResponse]},
	OpGetChildren2:         {fresh[PathWatchRequest], fresh[Children2Response]},
	OpSync:                 {fresh[PathRequest], fresh[PathResponse]},
	OpPing:                 {none, none},
	OpCheck:                {fresh[PathVersionRequest], none},
	OpMulti:                {fresh[MultiRequest], answersToMany},
	OpMultiRead:            {fresh[MultiRequest], answersToMany},
	OpReconfig:             {fresh[ReconfigRequest], fresh[GetDataResponse]},
	OpCheckWatches:         {fresh[PathIntRequest], none},
	OpRemoveWatches:        {fresh[PathIntRequest], none},
	OpAddWatch:             {fresh[PathIntRequest], fresh[IntResponse]},
	OpAuth:                 {fresh[AuthPacket], none},
	OpSetWatches:           {fresh[SetWatches], none},
	OpSetWatches2:          {fresh[SetWatches2], none},
	OpGetEphemerals:        {fresh[PathRequest], fresh[ChildrenResponse]},
	OpGetAllChildrenNumber: {fresh[PathRequest], fresh[IntResponse]},
	OpWhoAmI:               {none, fresh[WhoAmIResponse]},
	OpCloseSession:         {none, none},
}

// golden is a recorded frame with its records.
type golden struct {
	where   string
	frame   []byte
	records []Record // in order
}

// readGolden reads every recorded frame.
func readGolden(t testing.TB) (all []golden) {
	files, err := filepath.Glob("testdata/*.hex")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		all = append(all, readFile(t, file)...)
	}
	return all
}

func readFile(t testing.TB, file string) (all []golden) {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	connecting := strings.HasPrefix(filepath.Base(file), "connect")
	ops := map[int32]int32{} // by xid; a file's second connection begins its own count, after its own requests
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		way, text, isFrame := strings.Cut(lines.Text(), " ")
		if !isFrame || way != ">" && way != "<" {
			continue
		}
		frame, err := hex.DecodeString(text)
		require.NoError(t, err)
		g := golden{where: file + ": " + text, frame: frame}
		switch {
		case connecting && way == ">":
			g.records = []Record{&ConnectRequest{}}
		case connecting:
			g.records = []Record{&ConnectResponse{}}
		case way == ">":
			var h RequestHeader
			require.NoError(t, Unmarshal(frame, &h), g.where)
			ops[h.Xid] = h.Op
			if s, known := shapes[h.Op]; known {
				g.records = []Record{&RequestHeader{}, s.request()}
			} else {
				require.Equal(t, int32(999), h.Op, "an operation without a record: %s", g.where)
				continue
			}
		default:
			var h ReplyHeader
			require.NoError(t, Unmarshal(frame, &h), g.where)
			g.records = []Record{&ReplyHeader{}}
			if h.Xid == XidNotification {
				g.records = append(g.records, &WatcherEvent{})
			} else if h.Err == CodeOK {
				op, asked := ops[h.Xid]
				require.True(t, asked, "a reply to nothing: %s", g.where)
				g.records = append(g.records, shapes[op].reply())
			}
		}
		all = append(all, g)
	}
	require.NoError(t, lines.Err())
	return all
}

func TestRecordedFramesDecodeAndEncodeToTheSameBytes(t *testing.T) {
	seen := map[int32]bool{}
	for _, g := range readGolden(t) {
		d := NewDecoder(g.frame)
		var e Coder
		for _, r := range g.records {
			r.Fields(d)
			require.NoError(t, d.Err(), g.where)
			r.Fields(&e)
			if h, is := r.(*RequestHeader); is {
				seen[h.Op] = true
			}
		}
		assert.Empty(t, d.Rest(), "bytes left over: %s", g.where)
		assert.Equal(t, hex.EncodeToString(g.frame), hex.EncodeToString(e.Rest()), g.where)
	}
	for op := range shapes {
		if op != OpCheck { // only inside a multi
			assert.True(t, seen[op], "no recorded frame of operation %d", op)
		}
	}
}

func TestConnectResponsesSayTheirReadOnlyByte(t *testing.T) {
	for file, has := range map[string]bool{"connect": true, "connect_short": false} {
		for _, g := range readFile(t, "testdata/"+file+".hex") {
			require.NoError(t, Unmarshal(g.frame, g.records[0]))
			switch r := g.records[0].(type) {
			case *ConnectRequest:
				assert.Equal(t, has, r.HasReadOnly)
			case *ConnectResponse:
				assert.Equal(t, has, r.HasReadOnly)
				assert.NotZero(t, r.SessionID)
				assert.EqualValues(t, 4000, r.Timeout)
			}
		}
	}
}

// A failed multi has the error code in its results only: the reply's header alone reads as a success.
func TestAFailedMultiSaysSoInItsResultsAlone(t *testing.T) {
	found := false
	for _, g := range readFile(t, "testdata/multi_failed.hex") {
		if len(g.records) < 2 {
			continue
		}
		m, is := g.records[1].(*MultiResponse)
		if !is {
			continue
		}
		d := NewDecoder(g.frame)
		g.records[0].Fields(d)
		m.Fields(d)
		require.NoError(t, d.Err())
		assert.Equal(t, CodeOK, g.records[0].(*ReplyHeader).Err)
		if len(m.Results) == 5 {
			found = true
			var codes []int32
			for _, r := range m.Results {
				assert.Equal(t, OpError, r.Op)
				codes = append(codes, r.Err)
			}
			assert.Equal(t, []int32{0, 0, CodeBadVersion, CodeRuntimeInconsistency, CodeRuntimeInconsistency}, codes)
		}
	}
	assert.True(t, found)
}
