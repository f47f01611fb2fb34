package differential

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/internal/jute"
)

// wire is an encoded request, made by hand so that it can be wrong.
type wire []byte

func (w wire) int(v int32) wire   { return binary.BigEndian.AppendUint32(w, uint32(v)) }
func (w wire) long(v int64) wire  { return binary.BigEndian.AppendUint64(w, uint64(v)) }
func (w wire) byte(v byte) wire   { return append(w, v) }
func (w wire) str(v string) wire  { return append(w.int(int32(len(v))), v...) }
func (w wire) null() wire         { return w.int(-1) }
func (w wire) open() wire         { return w.int(1).int(31).str("world").str("anyone") }
func (w wire) add(more wire) wire { return slices.Concat(w, more) }

// part begins an operation inside a multi, end ends the multi.
func (w wire) part(op int32) wire { return w.int(op).byte(0).int(-1) }
func (w wire) end() wire          { return w.int(-1).byte(1).int(-1) }

// malformed returns requests that no correct client sends.
func malformed() []struct {
	name string
	op   int32
	body wire
} {
	type request = struct {
		name string
		op   int32
		body wire
	}
	var all []request
	add := func(name string, op int32, body wire) { all = append(all, request{name, op, body}) }

	// A null path, and a path whose length is invalid.
	for name, length := range map[string]int32{"null": -1, "below null": -2, "longer than the frame": 1 << 20} {
		path := wire{}.int(length)
		for op, rest := range map[int32]wire{
			jute.OpCreate: wire{}.null().open().int(0), jute.OpCreate2: wire{}.null().open().int(0),
			jute.OpCreateContainer: wire{}.null().open().int(4),
			jute.OpCreateTTL:       wire{}.null().open().int(5).long(1000), jute.OpDelete: wire{}.int(-1),
			jute.OpExists: wire{}.byte(0), jute.OpGetData: wire{}.byte(0),
			jute.OpSetData: wire{}.null().int(-1), jute.OpGetACL: {}, jute.OpSetACL: wire{}.open().int(-1),
			jute.OpGetChildren: wire{}.byte(0), jute.OpSync: {},
			jute.OpGetChildren2: wire{}.byte(0), jute.OpCheckWatches: wire{}.int(3),
			jute.OpRemoveWatches: wire{}.int(3), jute.OpAddWatch: wire{}.int(1),
			jute.OpGetEphemerals: {}, jute.OpGetAllChildrenNumber: {}, jute.OpDeleteContainer: {},
		} {
			add("path "+name, op, path.add(rest))
		}
	}
	add("watched null", jute.OpExists, wire{}.null().byte(1))
	add("watched null", jute.OpGetData, wire{}.null().byte(1))
	add("watched null", jute.OpGetChildren, wire{}.null().byte(1))
	add("null recursively", jute.OpAddWatch, wire{}.null().int(1))
	add("null of no mode", jute.OpAddWatch, wire{}.null().int(7))
	add("null sequential", jute.OpCreate, wire{}.null().null().open().int(2))
	add("null with a bad mode", jute.OpCreate, wire{}.null().null().open().int(9))
	add("null without an acl", jute.OpCreate, wire{}.null().null().int(0).int(0))
	add("null with a bad acl", jute.OpSetACL, wire{}.null().int(0).int(-1))
	add("null of no type", jute.OpCheckWatches, wire{}.null().int(9))
	add("null of no type", jute.OpRemoveWatches, wire{}.null().int(9))

	// Vectors.
	for _, n := range []int32{-1, -2, -1 << 31, 1 << 30} {
		add(fmt.Sprintf("%d acls", n), jute.OpCreate, wire{}.str("/h/m").null().int(n).int(0))
		add(fmt.Sprintf("%d acls", n), jute.OpSetACL, wire{}.str("/h").int(n).int(-1))
		for place, name := range []string{"data", "exist", "child", "persistent", "recursive"} {
			for op, lists := range map[int32]int{jute.OpSetWatches: 3, jute.OpSetWatches2: 5} {
				body := wire{}.long(0)
				for list := range lists {
					if list == place {
						body = body.int(n)
					} else {
						body = body.int(0)
					}
				}
				add(fmt.Sprintf("%d %s watches", n, name), op, body)
			}
		}
	}
	for place, name := range []string{"data", "exist", "child", "persistent", "recursive"} {
		body := wire{}.long(0)
		for list := range 5 {
			if list == place {
				body = body.int(1).null()
			} else {
				body = body.int(0)
			}
		}
		add("one null of "+name, jute.OpSetWatches2, body)
	}
	add("null scheme", jute.OpCreate, wire{}.str("/h/m").null().int(1).int(31).null().str("anyone").int(0))
	add("null id", jute.OpCreate, wire{}.str("/h/m").null().int(1).int(31).str("world").null().int(0))
	add("null id", jute.OpCreate, wire{}.str("/h/m").null().int(1).int(31).str("digest").null().int(0))
	add("null id", jute.OpCreate, wire{}.str("/h/m").null().int(1).int(31).str("auth").null().int(0))
	for _, scheme := range []string{"ip", "sasl", "x509", "super", "nosuch"} {
		add("null id of "+scheme, jute.OpSetACL, wire{}.str("/h").int(1).int(31).str(scheme).null().int(-1))
	}
	add("null scheme", jute.OpSetACL, wire{}.str("/h").int(1).int(31).null().null().int(-1))
	add("data of length -2", jute.OpSetData, wire{}.str("/h").int(-2).int(-1))
	add("data of length -2", jute.OpCreate, wire{}.str("/h/m").int(-2).open().int(0))

	// Multis.
	create := func(path wire) wire { return wire{}.part(jute.OpCreate).add(path).null().open().int(0) }
	good := create(wire{}.str("/h/m"))
	for name, odd := range map[string]wire{
		"null create": create(wire{}.null()), "null delete": wire{}.part(jute.OpDelete).null().int(-1),
		"null set":              wire{}.part(jute.OpSetData).null().null().int(-1),
		"null check":            wire{}.part(jute.OpCheck).null().int(-1),
		"read of data":          wire{}.part(jute.OpGetData).str("/h").byte(0),
		"read of children":      wire{}.part(jute.OpGetChildren).str("/h").byte(0),
		"null read of data":     wire{}.part(jute.OpGetData).null().byte(0),
		"null read of children": wire{}.part(jute.OpGetChildren).null().byte(0),
		"exists":                wire{}.part(jute.OpExists).str("/h").byte(0),
		"setACL":                wire{}.part(jute.OpSetACL).str("/h").open().int(-1),
		"ping":                  wire{}.part(jute.OpPing),
		"multi":                 wire{}.part(jute.OpMulti).add(wire{}.end()),
		"-2 acls":               wire{}.part(jute.OpCreate).str("/h/n").null().int(-2).int(0),
		"-1 acls":               wire{}.part(jute.OpCreate).str("/h/n").null().null().int(0),
		"null id": wire{}.part(jute.OpCreate).str("/h/n").null().int(1).int(31).str("world").
			null().int(0),
		"null scheme": wire{}.part(jute.OpCreate).str("/h/n").null().int(1).int(31).null().str("anyone").
			int(0),
		"an operation of no type": wire{}.part(99), "an error": wire{}.part(-1).int(0),
	} {
		for op, kind := range map[int32]string{jute.OpMulti: "multi", jute.OpMultiRead: "multiRead"} {
			add(kind+" of "+name, op, odd.add(wire{}.end()))
			add(kind+" of "+name+" after a create", op, good.add(odd).add(wire{}.end()))
			add(kind+" of "+name+" after one that fails", op,
				wire{}.part(jute.OpDelete).str("/h/none").int(-1).add(odd).add(wire{}.end()))
			add(kind+" of "+name+" before a create", op, odd.add(good).add(wire{}.end()))
			add(kind+" of "+name+" after a read", op,
				wire{}.part(jute.OpGetData).str("/h").byte(0).add(odd).add(wire{}.end()))
			add(kind+" of "+name+" without an end", op, slices.Clone(odd))
		}
	}
	for op, kind := range map[int32]string{jute.OpMulti: "multi", jute.OpMultiRead: "multiRead"} {
		add(kind+" of nothing", op, wire{}.end())
		add(kind+" without an end", op, wire{})
	}

	// Opcodes that are not requests of a client.
	for _, op := range []int32{jute.OpCreateSession, jute.OpError, 0, -2, 10, 99, jute.OpDeleteContainer} {
		add("no request", op, wire{})
		add("no request", op, wire{}.int(4000))
	}
	add("bytes after it", jute.OpExists, wire{}.str("/h").byte(0).str("more"))
	add("a body", jute.OpPing, wire{}.str("more"))
	add("null scheme", jute.OpAuth, wire{}.int(0).null().str("u:p"))
	for _, scheme := range []string{"digest", "ip", "sasl", "nosuch"} {
		add("null credentials of "+scheme, jute.OpAuth, wire{}.int(0).str(scheme).null())
	}
	add("no credentials", jute.OpAuth, wire{}.int(0).str("digest"))
	add("nulls", jute.OpReconfig, wire{}.null().null().null().long(-1))
	for op := range requests() {
		add("empty", op, wire{})
	}
	slices.SortStableFunc(all, func(a,
		b request) int {
		return strings.Compare(fmt.Sprint(a.op, a.name), fmt.Sprint(b.op, b.name))
	})
	return all
}

// requests returns the opcodes that a server knows.
func requests() map[int32]bool {
	known := map[int32]bool{jute.OpCreateSession: true, jute.OpDeleteContainer: true}
	for _, op := range kinds {
		if op != 0 {
			known[op] = true
		}
	}
	return known
}

// answers returns the frames of the reply to a request and, unless the connection is to end, up to the reply to a ping
// after it.
func (h *Host) answers(base int64, op int32, body wire) ([]string, error) {
	c := &client{}
	hello, err := c.start(h.system)
	if err != nil {
		return nil, err
	}
	defer c.drop()
	names := names{base: base, sessions: map[int64]int{hello.SessionID: 1}, times: map[int64]int64{}}
	frame := jute.Frame(&jute.RequestHeader{Xid: xidOf(op, 1), Op: op}, raw(body))
	// Unknown opcodes, and closeSession, end the connection, before or after the reply to a ping.
	if requests()[op] && op != jute.OpPing && op != jute.OpCloseSession {
		frame = append(frame, jute.Frame(&jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})...)
	}
	if err := c.write(frame); err != nil {
		return nil, err
	}
	var texts []string
	closing := false
	for {
		frame, err := c.read()
		if err != nil {
			return nil, err
		}
		if frame == nil {
			return append(texts, "closed"), nil
		}
		var answer jute.ConnectResponse
		if err := jute.Unmarshal(frame, &answer); err == nil && answer.SessionID == hello.SessionID {
			texts = append(texts, fmt.Sprintf("a welcome: timeout %d, read-only %v %v", answer.Timeout,
				answer.HasReadOnly, answer.ReadOnly))
			continue
		}
		var header jute.ReplyHeader
		if err := jute.Unmarshal(frame, &header); err != nil {
			return nil, err
		}
		if header.Xid == jute.XidPing && op != jute.OpPing {
			if closing {
				continue
			}
			return texts, nil
		}
		closing = closes(header)
		zxid := "a zxid"
		if header.Zxid <= 0 {
			zxid = fmt.Sprint(header.Zxid)
		}
		body := fmt.Sprintf("%x", frame[16:])
		switch op {
		case jute.OpExists, jute.OpMultiRead: // requests that can succeed
			body = names.reply(op, frame[16:])
		}
		texts = append(texts, fmt.Sprintf("xid %d at %s error %d: %s", header.Xid, zxid, header.Err, body))
		if op == jute.OpPing {
			return texts, nil
		}
	}
}

type raw []byte

func (r raw) Fields(c *jute.Coder) { c.Raw(r) }

// A client with malformed requests gets the same replies from both.
func TestMalformedRequestsGiveTheSame(t *testing.T) {
	pair := startPair(t, never)
	all := malformed()
	for _, r := range all {
		name := fmt.Sprintf("operation %d: %s", r.op, r.name)
		var said [2][]string
		for i, host := range []*Host{pair.Left, pair.Right} {
			created, err := host.do(Op{Kind: "create", Path: home})
			require.NoError(t, err)
			require.Zero(t, created.Err, name)
			said[i], err = host.answers(created.Zxid, r.op, r.body)
			require.NoError(t, err, name)
			require.NoError(t, host.sweep())
		}
		assert.Equal(t, said[0], said[1], name)
	}
	kit.Figure(t, "%d malformed requests give the same on zktest and %s", len(all), pair.Left.system.Name())
	require.NoError(t, pair.Close())
}
