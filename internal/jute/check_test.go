package jute

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// decodeFactor is the largest number of bytes that a decoded reply takes for each byte of the frame: a result of a multi,
// with its Stat, takes 144 for nine. All other records take at most four and a half: an empty name takes a string's header,
// sixteen bytes, for the four of its length.
const decodeFactor = 17

// operations returns all operations that have a reply, in order.
func operations() (ops []int32) {
	for op := range shapes {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	return ops
}

// replyTo returns an empty reply to op, for so many operations if it is a multi.
func replyTo(op int32, asked int) Record {
	r := shapes[op].reply()
	if m, is := r.(*MultiResponse); is {
		m.Asked = asked
	}
	return r
}

// asked returns operations that have such results, if r is a multi's reply.
func asked(r any) (ops []int32) {
	if m, is := r.(*MultiResponse); is {
		for _, res := range m.Results {
			ops = append(ops, res.Op)
		}
	}
	return ops
}

// footprint returns the memory that a decoded value takes: the capacity of its slices, and its strings.
func footprint(v reflect.Value) (size int) {
	switch v.Kind() {
	case reflect.Pointer:
		return footprint(v.Elem())
	case reflect.String:
		return v.Len()
	case reflect.Struct:
		for i := range v.NumField() {
			size += footprint(v.Field(i))
		}
	case reflect.Slice:
		size = v.Cap() * int(v.Type().Elem().Size())
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				size += footprint(v.Index(i))
			}
		}
	}
	return size
}

func TestRecordedRepliesPassTheCheck(t *testing.T) {
	n := 0
	for _, g := range readGolden(t) {
		if len(g.records) != 2 {
			continue
		}
		if _, is := g.records[0].(*ReplyHeader); !is {
			continue
		}
		for _, op := range operations() {
			if reflect.TypeOf(shapes[op].reply()) == reflect.TypeOf(g.records[1]) {
				body, r := g.frame[16:], replyTo(op, 1000)
				require.NoError(t, Unmarshal(body, r))
				require.NoError(t, CheckReply(op, asked(r), body), g.where)
				n++
				for cut := range body { // no truncated reply passes
					require.Error(t, CheckReply(op, asked(r), body[:cut]), "%s: %d of %d bytes", g.where, cut, len(body))
				}
			}
		}
	}
	assert.Greater(t, n, 20)
}

// A count passes only if the bytes of the frame can hold so many elements: a decoder would allocate by it.
func TestImpossibleCountsDoNotPassTheCheck(t *testing.T) {
	for op, at := range map[int32]int{
		OpGetChildren: 0, OpGetChildren2: 0, OpGetEphemerals: 0, OpGetACL: 0, OpWhoAmI: 0, OpGetData: 0,
		OpReconfig: 0, OpCreate: 0, OpCreate2: 0, OpCreateContainer: 0,
		OpCreateTTL: 0, OpSync: 0,
	} {
		for _, count := range []uint32{math.MaxInt32, 1 << 31, math.MaxUint32, math.MaxUint32 - 1, 1000} {
			body := make([]byte, 12+statSize)
			binary.BigEndian.PutUint32(body[at:], count)
			if op == OpGetData || op == OpReconfig {
				if count == math.MaxUint32 { // no data
					assert.NoError(t, CheckReply(op, nil, body))
					continue
				}
			}
			assert.Error(t, CheckReply(op, nil, body), "%d: %d", op, count)
		}
	}
	assert.ErrorIs(t, CheckReply(OpGetChildren, nil, []byte{0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0}), ErrLength, "room for two")
	assert.Error(t, CheckReply(999, nil, nil))
	assert.Error(t, CheckReply(OpMulti, []int32{OpDelete}, []byte{0, 0, 0, 1}), "a header that is cut off")
}

func TestAMultisAnswerHasNoMoreResultsThanWereAskedFor(t *testing.T) {
	ok := make([]MultiResult, 3)
	for i := range ok {
		ok[i].Op = OpDelete
	}
	body := Marshal(&MultiResponse{Results: ok})
	for most, fits := range map[int]bool{0: false, 2: false, 3: true, 4: true} {
		r := MultiResponse{Asked: most}
		err := Unmarshal(body, &r)
		if fits {
			assert.NoError(t, err)
			assert.Len(t, r.Results, 3)
			continue
		}
		assert.ErrorIs(t, err, ErrLength)
		assert.Empty(t, r.Results)
	}
}

// The caller of a multi reads the Stat of each write's result, and as many results as it has sent operations: the check
// refuses a reply without them.
func TestAMultisAnswerHasTheResultsThatWereAskedFor(t *testing.T) {
	made, set, gone := MultiResult{Op: OpCreate, Path: "/a"}, MultiResult{Op: OpSetData},
		MultiResult{Op: OpDelete}
	fine, bad := MultiResult{Op: OpError}, MultiResult{Op: OpError, Err: CodeNoNode}
	ops := []int32{OpCreate, OpSetData, OpDelete}
	for name, tt := range map[string]struct {
		results []MultiResult
		ok      bool
	}{
		"all":                  {[]MultiResult{made, set, gone}, true},
		"created with a Stat":  {[]MultiResult{{Op: OpCreate2, Path: "/a"}, set, gone}, true},
		"refused":              {[]MultiResult{fine, bad, bad}, true},
		"none":                 {nil, false},
		"too few":              {[]MultiResult{made, set}, false},
		"too many":             {[]MultiResult{made, set, gone, gone}, false},
		"another's":            {[]MultiResult{made, gone, gone}, false},
		"nobody's":             {[]MultiResult{made, {}, gone}, false},
		"errors that are none": {[]MultiResult{made, fine, fine}, false},
	} {
		err := CheckReply(OpMulti, ops, Marshal(&MultiResponse{Results: tt.results}))
		assert.Equal(t, tt.ok, err == nil, "%s: %v", name, err)
	}
}

// The memory that a decoder allocates in all, garbage included, is a small multiple of the frame's size, whatever the frame
// contains. The second figure is the factor.
func TestDecodingTakesMemoryInProportionToTheFrame(t *testing.T) {
	const size = 1 << 20
	list := func(head []byte, count int, unit []byte) []byte {
		return append(binary.BigEndian.AppendUint32(head, uint32(count)), bytes.Repeat(unit, count)...)
	}
	short := append([]byte{0, 0, 0, 2}, "ab"...)
	result, deletes := Marshal(&MultiHeader{Type: OpDelete}), slices.Repeat([]int32{OpDelete}, size/9)
	for name, tt := range map[string]struct {
		op     int32
		body   []byte
		factor float64
	}{
		"empty names": {OpGetChildren, list(nil, size/4, make([]byte, 4)), 4.1},
		"short names": {OpGetChildren, list(nil, size/6, short), 5.5},
		"ACLs":        {OpGetACL, append(list(nil, size/12, make([]byte, 12)), make([]byte, statSize)...), 3.5},
		"identities":  {OpWhoAmI, list(nil, size/8, make([]byte, 8)), 4.1},
		"data":        {OpGetData, append(list(nil, size, []byte{1}), make([]byte, statSize)...), 1.1},
		"results":     {OpMulti, append(bytes.Repeat(result, size/9), Marshal(&multiEnd)...), 16.5},
		"without end": {OpMulti, bytes.Repeat(result, size/9), 16.5},
		"a false count": {OpGetChildren,
			append(binary.BigEndian.AppendUint32(nil, size/4), bytes.Repeat([]byte{255}, size)...), 4.1},
	} {
		t.Run(name, func(t *testing.T) {
			r := replyTo(tt.op, size)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_ = Unmarshal(tt.body, r)
			runtime.ReadMemStats(&after)
			factor := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(tt.body))
			t.Logf("%.2f", factor)
			assert.Less(t, factor, tt.factor)
			assert.Less(t, testing.AllocsPerRun(1, func() { _ = CheckReply(tt.op, deletes, tt.body) }), 20.0,
				"the check takes none but for its error")
		})
	}
	t.Run("more results than asked for", func(t *testing.T) {
		body := bytes.Repeat(result, size/9)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		assert.Error(t, Unmarshal(body, &MultiResponse{Asked: 1}))
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<10))
	})
}

// FuzzReply: a reply that passes the check of an operation is decoded without an error, and the decoded reply takes no more
// than decodeFactor times the frame's size.
func FuzzReply(f *testing.F) {
	ops := operations()
	for _, g := range readGolden(f) {
		for i := range ops {
			f.Add(byte(i), uint16(5), g.frame[min(16, len(g.frame)):])
		}
	}
	f.Fuzz(func(t *testing.T, which byte, most uint16, body []byte) {
		op := ops[int(which)%len(ops)]
		r := replyTo(op, int(most))
		decoded := Unmarshal(body, r)
		checked := CheckReply(op, asked(r), body)
		if checked == nil && decoded != nil {
			t.Fatalf("%d: passed, and %v", op, decoded)
		}
		if size := footprint(reflect.ValueOf(r)); size > decodeFactor*len(body)+200 {
			t.Fatalf("%d: %d bytes of %d", op, size, len(body))
		}
	})
}

// FuzzConnectResponse: the first frame of a server.
func FuzzConnectResponse(f *testing.F) {
	f.Add(Marshal(&ConnectResponse{Timeout: 4000, SessionID: 1, Password: make([]byte, 16), HasReadOnly: true}))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 255, 255, 255})
	f.Fuzz(func(t *testing.T, body []byte) {
		var r ConnectResponse
		if Unmarshal(body, &r) == nil && len(r.Password) > len(body) {
			t.Fatal("a password out of nothing")
		}
	})
}

// FuzzEvent: a notification's body.
func FuzzEvent(f *testing.F) {
	f.Add(Marshal(&WatcherEvent{EventNodeDeleted, StateSyncConnected, "/a"}))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r WatcherEvent
		if Unmarshal(body, &r) == nil && len(r.Path) > len(body) {
			t.Fatal("a path out of nothing")
		}
	})
}
