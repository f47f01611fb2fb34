package zktest

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// bytesOf is an encoded record, made by hand so that it can be invalid.
type bytesOf []byte

func (b bytesOf) Fields(c *jute.Coder) { c.Raw(b) }

func (b bytesOf) int(v int32) bytesOf   { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func (b bytesOf) long(v int64) bytesOf  { return binary.BigEndian.AppendUint64(b, uint64(v)) }
func (b bytesOf) str(v string) bytesOf  { return append(b.int(int32(len(v))), v...) }
func (b bytesOf) null() bytesOf         { return b.int(-1) }
func (b bytesOf) byte(v byte) bytesOf   { return append(b, v) }
func (b bytesOf) part(op int32) bytesOf { return b.int(op).byte(0).int(-1) }
func (b bytesOf) end() bytesOf          { return b.int(-1).byte(1).int(-1) }
func (b bytesOf) open() bytesOf         { return b.int(1).int(31).str("world").str("anyone") }

// Some replies of Debian's 3.8.0; integration/differential compares all.
func TestWhatNoClientShouldSend(t *testing.T) {
	var none bytesOf
	empty := string(none.end())
	nullACL := func(b bytesOf) bytesOf { return b.int(1).int(31).str("world").null() }
	noExist := none.long(0).int(0).null().int(0)
	watchNull := none.long(0).int(1).null().int(0).int(0)
	noPersistent := none.long(0).int(0).int(0).int(0).int(0).null()
	createWithNullACL := nullACL(none.part(jute.OpCreate).str("/a").null()).int(0).end()
	checkNull := none.part(jute.OpCheck).null().int(-1).end()
	readRoot := none.part(jute.OpGetData).str("/").byte(0).end()
	readNull := none.part(jute.OpGetData).null().byte(0).end()
	for _, request := range []struct {
		name string
		op   int32
		body bytesOf
		code Error
		rest string
	}{
		{"exists of null", jute.OpExists, none.null().byte(0), ErrMarshalling, ""},
		{"getData of null", jute.OpGetData, none.null().byte(1), ErrMarshalling, ""},
		{"getACL of null", jute.OpGetACL, none.null(), ErrMarshalling, ""},
		{"getChildren of null", jute.OpGetChildren, none.null().byte(0), ErrMarshalling, ""},
		{"getChildren2 of null", jute.OpGetChildren2, none.null().byte(0), ErrMarshalling, ""},
		{"getAllChildrenNumber of null", jute.OpGetAllChildrenNumber, none.null(), ErrMarshalling, ""},
		{"checkWatches of null", jute.OpCheckWatches, none.null().int(3), ErrMarshalling, ""},
		{"removeWatches of null", jute.OpRemoveWatches, none.null().int(3), ErrNoWatcher, ""},
		{"create of null", jute.OpCreate, none.null().null().open().int(0), ErrMarshalling, ""},
		{"delete of null", jute.OpDelete, none.null().int(-1), ErrMarshalling, ""},
		{"setData of null", jute.OpSetData, none.null().null().int(-1), ErrBadArguments, ""},
		{"setACL of null", jute.OpSetACL, none.null().open().int(-1), ErrBadArguments, ""},
		{"sync of null", jute.OpSync, none.null(), ok, string(none.null())},
		{"getEphemerals below null", jute.OpGetEphemerals, none.null(), ok, string(none.int(0))},
		{"an acl of null", jute.OpCreate, nullACL(none.str("/a").null()).int(0), ErrMarshalling, ""},
		{"-2 acls", jute.OpCreate, none.str("/a").null().int(-2).int(0), ErrInvalidACL, ""},
		{"setWatches without a list", jute.OpSetWatches, noExist, ErrMarshalling, ""},
		{"setWatches of null", jute.OpSetWatches, watchNull, ErrMarshalling, ""},
		{"setWatches of -2", jute.OpSetWatches, none.long(0).int(-2).int(0).int(0), ok, ""},
		{"setWatches2 without a list", jute.OpSetWatches2, noPersistent, ErrMarshalling, ""},
		{"a multi with null", jute.OpMulti, checkNull, ErrMarshalling, empty},
		{"a multi of reads", jute.OpMulti, readRoot, ErrMarshalling, ""},
		{"a multi with an acl of null", jute.OpMulti, createWithNullACL, ErrMarshalling, ""},
		{"a multiRead of null", jute.OpMultiRead, readNull, ErrMarshalling, empty},
		{"createSession without a timeout", jute.OpCreateSession, none, ErrMarshalling, ""},
	} {
		t.Run(request.name, func(t *testing.T) {
			s := RunT(t, Config{Profile: V380Debian})
			c := newRaw(t, s, 10*time.Second)
			r := c.call(request.op, request.body)
			assert.Equal(t, request.code, Error(r.Err))
			assert.Equal(t, request.rest, string(r.body))
			assert.Equal(t, ok, c.code(jute.OpPing), "the connection stays")
			assert.NotContains(t, s.Tree(), "/a")
		})
	}
}

func TestNullCredentialsProveNothing(t *testing.T) {
	c := newRaw(t, RunT(t), 10*time.Second)
	xid := c.send(jute.OpAuth, bytesOf(nil).int(0).str("digest").null())
	r, err := c.recv()
	require.NoError(t, err)
	assert.Equal(t, xid, r.Xid)
	assert.Equal(t, ErrAuthFailed, Error(r.Err))
	c.closed()
}

// A request to create a session, on the connection of a session, is confirmed once more.
func TestCreateSessionInASession(t *testing.T) {
	for _, members := range []int{1, 3} {
		e := RunEnsembleT(t, members)
		c := newRaw(t, e.Member(0), 10*time.Second)
		c.send(jute.OpCreateSession, bytesOf(nil).int(5000))
		frame, err := c.frame()
		require.NoError(t, err)
		var hello jute.ConnectResponse
		require.NoError(t, jute.Unmarshal(frame, &hello))
		assert.Equal(t, c.hello, hello)
		assert.Equal(t, ok, c.code(jute.OpPing))
	}
}
