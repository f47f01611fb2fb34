package differential

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// names makes a server's zxids, times and session ids comparable.
type names struct {
	base     int64
	sessions map[int64]int
	times    map[int64]int64 // by zxid
}

// zxid counts from the history's beginning.
func (n *names) zxid(z int64) string {
	switch {
	case z <= 0:
		return fmt.Sprint(z)
	case z < n.base:
		return "before"
	}
	return fmt.Sprintf("z%d", z-n.base)
}

// time returns the name of its zxid: all writes of a transaction have one time, and a later one has no earlier time.
func (n *names) time(zxid, ms int64) string {
	if known, found := n.times[zxid]; found && known != ms {
		return fmt.Sprintf("%+d ms", ms-known)
	}
	for z, known := range n.times {
		if z < zxid && known > ms || z > zxid && known < ms {
			return fmt.Sprintf("out of order with %s", n.zxid(z))
		}
	}
	n.times[zxid] = ms
	return "ok"
}

func (n *names) session(id int64) string {
	if number, found := n.sessions[id]; found {
		return fmt.Sprintf("session %d", number)
	}
	return fmt.Sprintf("%#x", uint64(id))
}

func (n *names) stat(s jute.Stat) string {
	owner := "0"
	if s.EphemeralOwner != 0 {
		owner = n.session(s.EphemeralOwner)
	}
	text := fmt.Sprintf("{c=%s m=%s p=%s v=%d cv=%d av=%d owner=%s len=%d kids=%d", n.zxid(s.Czxid),
		n.zxid(s.Mzxid), n.zxid(s.Pzxid),
		s.Version, s.Cversion, s.Aversion, owner, s.DataLength, s.NumChildren)
	if c, m := n.time(s.Czxid, s.Ctime), n.time(s.Mzxid, s.Mtime); c != "ok" || m != "ok" {
		text += " ctime " + c + " mtime " + m
	}
	return text + "}"
}

func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and ACLs only
	}
	return string(b)
}

func data(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

// reply is the text of a reply without its header. It omits nothing: bytes that are not understood are shown.
func (n *names) reply(op int32, body []byte) string {
	d := jute.NewDecoder(body)
	text := n.record(op, d)
	if d.Err() != nil {
		return fmt.Sprintf("cannot be read: %v: %x", d.Err(), body)
	}
	if len(d.Rest()) > 0 {
		text += fmt.Sprintf(" and %x", d.Rest())
	}
	return text
}

func (n *names) record(op int32, d *jute.Coder) string {
	if len(d.Rest()) == 0 {
		return ""
	}
	switch op {
	case jute.OpCreate, jute.OpSync:
		var r jute.PathResponse
		r.Fields(d)
		return r.Path
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		var r jute.Create2Response
		r.Fields(d)
		return r.Path + " " + n.stat(r.Stat)
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		var r jute.StatResponse
		r.Fields(d)
		return n.stat(r.Stat)
	case jute.OpGetData:
		var r jute.GetDataResponse
		r.Fields(d)
		return data(r.Data) + " " + n.stat(r.Stat)
	case jute.OpGetACL:
		var r jute.GetACLResponse
		r.Fields(d)
		return quoted(r.ACL) + " " + n.stat(r.Stat)
	case jute.OpGetChildren, jute.OpGetEphemerals:
		var r jute.ChildrenResponse
		r.Fields(d)
		return quoted(r.Children)
	case jute.OpGetChildren2:
		var r jute.Children2Response
		r.Fields(d)
		return quoted(r.Children) + " " + n.stat(r.Stat)
	case jute.OpGetAllChildrenNumber, jute.OpAddWatch:
		var r jute.IntResponse
		r.Fields(d)
		return fmt.Sprint(r.Value)
	case jute.OpWhoAmI:
		var r jute.WhoAmIResponse
		r.Fields(d)
		return quoted(r.Info)
	case jute.OpMulti, jute.OpMultiRead:
		r := jute.MultiResponse{Asked: math.MaxInt32}
		r.Fields(d)
		var parts []string
		for _, part := range r.Results {
			parts = append(parts, n.part(part))
		}
		return strings.Join(parts, "; ")
	}
	return ""
}

func (n *names) part(r jute.MultiResult) string {
	text := fmt.Sprintf("type %d error %d", r.Op, r.Err)
	switch r.Op {
	case jute.OpError, jute.OpDelete, jute.OpCheck:
		return text
	case jute.OpGetChildren:
		return text + " " + quoted(r.Children)
	case jute.OpGetData:
		return text + " " + data(r.Data) + " " + n.stat(r.Stat)
	case jute.OpCreate:
		return text + " " + r.Path
	}
	return text + " " + r.Path + " " + n.stat(r.Stat)
}

func (n *names) event(zxid int64, body []byte) string {
	var e jute.WatcherEvent
	if err := jute.Unmarshal(body, &e); err != nil {
		return fmt.Sprintf("event that cannot be read: %x", body)
	}
	return fmt.Sprintf("event %d state %d %s zxid %s", e.Type, e.State, e.Path, n.zxid(zxid))
}
