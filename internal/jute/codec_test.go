package jute

import (
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	acls = []ACL{{Perms: PermAll, Scheme: "world", ID: "anyone"},
		{Perms: PermRead, Scheme: "digest", ID: "user:hash="}}
	stat = Stat{Czxid: 1, Mzxid: math.MaxInt64, Ctime: 1e12, Mtime: 2e12, Version: 3, Cversion: -4,
		Aversion:       math.MinInt32,
		EphemeralOwner: math.MinInt64, DataLength: 5, NumChildren: 6, Pzxid: 7}
)

// samples are values of every record, with the extremes of each field.
var samples = []struct {
	value Record
	empty func() Record
}{
	{&RequestHeader{-1001, OpCreate2}, fresh[RequestHeader]},
	{&ReplyHeader{math.MinInt32, math.MaxInt64, CodeThrottledOp}, fresh[ReplyHeader]},
	{&ConnectRequest{0, 77, 4000, -5, make([]byte, 16), true, true}, fresh[ConnectRequest]},
	{&ConnectRequest{Password: []byte{}}, fresh[ConnectRequest]},
	{&ConnectResponse{0, 4000, 1 << 62, []byte("0123456789abcdef"), true, false}, fresh[ConnectResponse]},
	{&ConnectResponse{}, fresh[ConnectResponse]},
	{&stat, fresh[Stat]},
	{&CreateRequest{"/a", []byte("x"), acls, ModeEphemeralSequential}, fresh[CreateRequest]},
	{&CreateRequest{Path: "/no data", Data: nil}, fresh[CreateRequest]},
	{&CreateRequest{Path: "/empty data", Data: []byte{}}, fresh[CreateRequest]},
	{&CreateTTLRequest{CreateRequest{"/t", nil, acls, ModePersistentTTL}, math.MaxInt64},
		fresh[CreateTTLRequest]},
	{&PathResponse{"/ä/𝄞/\x00"}, fresh[PathResponse]},
	{&Create2Response{"/b", stat}, fresh[Create2Response]},
	{&PathVersionRequest{"/c", -1}, fresh[PathVersionRequest]},
	{&PathWatchRequest{"/d", true}, fresh[PathWatchRequest]},
	{&PathRequest{""}, fresh[PathRequest]},
	{&StatResponse{stat}, fresh[StatResponse]},
	{&GetDataResponse{[]byte{0, 255}, stat}, fresh[GetDataResponse]},
	{&SetDataRequest{"/e", nil, math.MaxInt32}, fresh[SetDataRequest]},
	{&ChildrenResponse{[]string{"", "a", strings.Repeat("n", 70_000)}}, fresh[ChildrenResponse]},
	{&ChildrenResponse{}, fresh[ChildrenResponse]},
	{&Children2Response{[]string{"x"}, stat}, fresh[Children2Response]},
	{&GetACLResponse{acls, stat}, fresh[GetACLResponse]},
	{&SetACLRequest{"/f", acls, 9}, fresh[SetACLRequest]},
	{&AuthPacket{0, "digest", []byte("u:p")}, fresh[AuthPacket]},
	{&WatcherEvent{EventNodeDeleted, StateSyncConnected, "/g"}, fresh[WatcherEvent]},
	{&SetWatches{8, []string{"/1"}, nil, []string{"/2", "/3"}}, fresh[SetWatches]},
	{&SetWatches2{SetWatches{8, nil, []string{"/1"}, nil}, []string{"/p"}, []string{"/r"}}, fresh[SetWatches2]},
	{&PathIntRequest{"/h", WatchPersistentRecursive}, fresh[PathIntRequest]},
	{&IntResponse{-1}, fresh[IntResponse]},
	{&ReconfigRequest{"a", "", "c", -1}, fresh[ReconfigRequest]},
	{&WhoAmIResponse{[]ClientInfo{{"ip", "::1"}, {"digest", "u"}}}, fresh[WhoAmIResponse]},
	{&MultiHeader{OpCheck, false, -1}, fresh[MultiHeader]},
	{&MultiRequest{[]MultiOp{
		{OpCheck, &PathVersionRequest{"/a", -1}}, {OpCreate2, &CreateRequest{"/a/b", nil, acls, 0}},
		{OpDelete, &PathVersionRequest{"/c", 4}},
		{OpSetData, &SetDataRequest{"/d", []byte("v"), 2}},
		{OpCreateTTL, &CreateTTLRequest{CreateRequest{"/t", nil, nil, 5}, 60}},
		{OpGetData, &PathWatchRequest{"/e", false}}, {OpGetChildren, &PathWatchRequest{"/f", false}},
		{OpCreateContainer, &CreateRequest{Path: "/g"}},
	}}, fresh[MultiRequest]},
	{&MultiRequest{}, fresh[MultiRequest]},
	{&MultiResponse{Asked: 8, Results: []MultiResult{
		{Op: OpCreate, Path: "/a"}, {Op: OpCreate2, Path: "/b", Stat: stat}, {Op: OpSetData, Stat: stat},
		{Op: OpDelete}, {Op: OpCheck},
		{Op: OpGetData, Data: []byte("d"), Stat: stat}, {Op: OpGetChildren, Children: []string{"x", "y"}},
		{Op: OpError, Err: CodeNoNode},
	}}, func() Record { return &MultiResponse{Asked: 8} }},
}

// read returns a primitive value as d reads it.
func read[T any](d *Coder, field func(*Coder, *T)) (v T) {
	field(d, &v)
	return v
}

func acl(d *Coder, v *[]ACL) { codeVector(d, v, 12, (*ACL).Fields) }

func TestDecodingUndoesEncoding(t *testing.T) {
	for _, s := range samples {
		b := Marshal(s.value)
		got := s.empty()
		require.NoError(t, Unmarshal(b, got), "%T", s.value)
		assert.Equal(t, s.value, got, "%T", s.value)
		assert.Equal(t, b, Marshal(s.value), "writing changes nothing: %T", s.value)
	}
}

// A record that is cut anywhere is refused, except for the records that may end early.
func TestEveryCutIsNoticed(t *testing.T) {
	for _, s := range samples {
		b := Marshal(s.value)
		optional := 0 // the read-only byte of old clients and servers
		switch r := s.value.(type) {
		case *ConnectRequest:
			if r.HasReadOnly {
				optional = 1
			}
		case *ConnectResponse:
			if r.HasReadOnly {
				optional = 1
			}
		}
		for n := range b[:max(0, min(len(b)-optional, 2000))] {
			err := Unmarshal(b[:n], s.empty())
			assert.Error(t, err, "%T cut to %d of %d bytes", s.value, n, len(b))
		}
	}
}

func TestBytesBehindARecordAreIgnored(t *testing.T) {
	for _, s := range samples {
		switch s.value.(type) {
		case *ConnectRequest, *ConnectResponse:
			continue // they have an optional end
		}
		got := s.empty()
		require.NoError(t, Unmarshal(append(Marshal(s.value), 1, 2, 3), got))
		assert.Equal(t, s.value, got, "%T", s.value)
	}
}

func TestNullIsToldFromEmptyInBuffersAlone(t *testing.T) {
	null := []byte{0xff, 0xff, 0xff, 0xff}
	assert.Nil(t, read(NewDecoder(null), (*Coder).Buffer))
	assert.NotNil(t, read(NewDecoder(make([]byte, 4)), (*Coder).Buffer))
	d := NewDecoder(null)
	assert.Equal(t, "", read(d, (*Coder).String))
	assert.NoError(t, d.Err())
	d = NewDecoder(null)
	assert.Empty(t, read(d, (*Coder).Strings))
	assert.NoError(t, d.Err())
}

func TestImpossibleLengthsAreErrors(t *testing.T) {
	minusTwo := []byte{0xff, 0xff, 0xff, 0xfe}
	huge := []byte{0x7f, 0xff, 0xff, 0xff, 'x'}
	for name, read := range map[string]func(*Coder){
		"buffer":  func(d *Coder) { read(d, (*Coder).Buffer) },
		"string":  func(d *Coder) { read(d, (*Coder).String) },
		"strings": func(d *Coder) { read(d, (*Coder).Strings) },
		"acl":     func(d *Coder) { read(d, acl) },
	} {
		d := NewDecoder(minusTwo)
		read(d)
		assert.ErrorIs(t, d.Err(), ErrLength, name)
		d = NewDecoder(huge)
		read(d)
		assert.Error(t, d.Err(), name)
		read(d)
		assert.Empty(t, d.Rest(), "after an error nothing is left: %s", name)
	}
}

func TestADecoderKeepsItsFirstError(t *testing.T) {
	d := NewDecoder([]byte{0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 1})
	read(d, (*Coder).Buffer)
	first := d.Err()
	require.ErrorIs(t, first, ErrLength)
	n, long, yes, data, text, list := int32(1), int64(1), true, []byte{1}, "1", []string{"1"}
	d.Int(&n)
	d.Long(&long)
	d.Bool(&yes)
	d.Buffer(&data)
	d.String(&text)
	d.Strings(&list)
	assert.Zero(t, n)
	assert.Zero(t, long)
	assert.False(t, yes)
	assert.Nil(t, data)
	assert.Empty(t, text)
	assert.Nil(t, list)
	assert.Equal(t, first, d.Err())
}

func TestDecodedBuffersAreCopies(t *testing.T) {
	frame := Marshal(&SetDataRequest{"/a", []byte("old"), 0})
	var r SetDataRequest
	require.NoError(t, Unmarshal(frame, &r))
	clear(frame)
	assert.Equal(t, "old", string(r.Data))
}

// A decoder allocates by a vector's count only if the frame has bytes for so many elements.
func TestCountsDoNotAllocateBeyondTheFrame(t *testing.T) {
	frame := binary.BigEndian.AppendUint32(nil, math.MaxInt32)
	frame = append(frame, make([]byte, 64)...)
	for _, empty := range []func() Record{fresh[ChildrenResponse], fresh[WhoAmIResponse],
		fresh[GetACLResponse]} {
		var before, after runtime.MemStats
		r := empty()
		runtime.ReadMemStats(&before)
		err := Unmarshal(frame, r)
		runtime.ReadMemStats(&after)
		assert.ErrorIs(t, err, ErrLength)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10), "%T", r)
	}
}

func TestFrameIsLengthAndRecords(t *testing.T) {
	f := Frame(&RequestHeader{1, OpPing}, &PathRequest{"/a"})
	require.Equal(t, len(f)-4, int(binary.BigEndian.Uint32(f)))
	assert.Equal(t, Marshal(&RequestHeader{1, OpPing}, &PathRequest{"/a"}), f[4:])
}

// A server must distinguish null from empty, as Java's does.
func TestRequestsAreReadAsJavaReadsThem(t *testing.T) {
	null, none, few := []byte{0xff, 0xff, 0xff, 0xff}, []byte{0, 0, 0, 0}, []byte{0xff, 0xff, 0xff, 0xfe}
	assert.Equal(t, Null, read(NewRequestDecoder(null), (*Coder).String))
	assert.Empty(t, read(NewRequestDecoder(none), (*Coder).String))
	assert.Empty(t, read(NewDecoder(null), (*Coder).String))
	assert.Nil(t, read(NewRequestDecoder(null), (*Coder).Strings))
	for _, count := range [][]byte{none, few} {
		d := NewRequestDecoder(count)
		assert.NotNil(t, read(d, (*Coder).Strings))
		assert.NoError(t, d.Err())
		d = NewRequestDecoder(count)
		assert.Empty(t, read(d, acl))
		assert.NoError(t, d.Err())
	}
	d := NewRequestDecoder(few)
	assert.Empty(t, read(d, (*Coder).String))
	assert.ErrorIs(t, d.Err(), ErrLength, "a string has no such length")
}

func TestACountWithoutRoomForItsElementsIsAnError(t *testing.T) {
	d := NewDecoder([]byte{0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0}) // room for two
	assert.Empty(t, read(d, (*Coder).Strings))
	assert.ErrorIs(t, d.Err(), ErrLength)
}

func TestChecksIsATransactionOfChecks(t *testing.T) {
	var r MultiRequest
	require.NoError(t, Unmarshal(Checks("/a", "/b"), &r))
	assert.Equal(t, []MultiOp{{OpCheck, &PathVersionRequest{"/a", -1}}, {OpCheck, &PathVersionRequest{"/b", -1}}}, r.Ops)
}
