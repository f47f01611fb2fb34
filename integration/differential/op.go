package differential

import (
	"bufio"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// Op is an operation of a history: a request, or something that a session's client does.
type Op struct {
	Session int     `json:"-"`
	Kind    string  `json:"-"` // see kinds and the actions below
	Path    string  `json:"path,omitempty"`
	Data    *string `json:"data,omitempty"` // nil is sent as null
	// Num is a further number of the request: version, create flags, mode of addWatch, type of watcher, opcode of
	// unknown.
	Num   int32      `json:"num,omitempty"`
	TTL   int64      `json:"ttl,omitempty"`
	Watch bool       `json:"watch,omitempty"`
	ACL   []jute.ACL `json:"acl,omitempty"` // of create: none means that all may do everything
	NoACL bool       `json:"noacl,omitempty"`
	Multi []Op       `json:"multi,omitempty"`
	Kinds string     `json:"kind,omitempty"` // of an operation inside a multi
	// Zxid, counted from the history's beginning, and what setWatches arms.
	Zxid  int64               `json:"zxid,omitempty"`
	Paths map[string][]string `json:"paths,omitempty"`
	// Auth is scheme and credentials.
	Auth [2]string `json:"auth,omitzero"`
	// More means that the session's next request does not wait for this one's reply.
	More bool `json:"more,omitempty"`
}

// kinds are the requests and their opcodes.
var kinds = map[string]int32{
	"create": jute.OpCreate, "create2": jute.OpCreate2, "createContainer": jute.OpCreateContainer,
	"createTTL": jute.OpCreateTTL,
	"delete":    jute.OpDelete, "exists": jute.OpExists, "getData": jute.OpGetData, "setData": jute.OpSetData,
	"getACL": jute.OpGetACL,
	"setACL": jute.OpSetACL, "getChildren": jute.OpGetChildren, "getChildren2": jute.OpGetChildren2,
	"sync": jute.OpSync, "ping": jute.OpPing,
	"check": jute.OpCheck, "multi": jute.OpMulti, "multiRead": jute.OpMultiRead, "addWatch": jute.OpAddWatch,
	"checkWatches": jute.OpCheckWatches, "removeWatches": jute.OpRemoveWatches, "setWatches": jute.OpSetWatches,
	"setWatches2": jute.OpSetWatches2, "whoAmI": jute.OpWhoAmI, "getEphemerals": jute.OpGetEphemerals,
	"getAllChildrenNumber": jute.OpGetAllChildrenNumber, "auth": jute.OpAuth,
	"closeSession": jute.OpCloseSession,
	"reconfig":     jute.OpReconfig, "deleteContainer": jute.OpDeleteContainer, "unknown": 0,
}

// Actions of a client other than requests.
const (
	cut = "cut" // closes the connection
	// re-attaches on a new connection; Num 1: with a wrong password; 2: it has seen a later zxid
	attach = "attach"
	// re-attaches with a small timeout and waits, connected and silent, until the server ends the session
	expire  = "expire"
	vanish  = "vanish"  // the same, but without a connection
	reaped  = "reaped"  // waits until the server itself has deleted the node at Path
	restart = "restart" // closes the session, if it still lives, and starts another
)

var actions = []string{cut, attach, expire, vanish, reaped, restart}

// alone reports whether an operation must not be sent together with others: actions outside the request pipeline, or
// that end it, and setACL, since the real server checks a write that comes right after it against the old ACL, or the
// new one if it is slow.
func (o Op) alone() bool {
	return slices.Contains(actions, o.Kind) || o.Kind == "auth" || o.Kind == "closeSession" ||
		o.Kind == "setACL" || o.stumbles()
}

// stumbles reports whether the real server fails in the middle of a multi: at a create with the flags of a TTL node
// but without its opcode. The operations before it are not executed, yet for a moment later writes are checked as if
// they had been.
func (o Op) stumbles() bool {
	return slices.ContainsFunc(o.Multi, func(part Op) bool {
		return part.Kinds != "createTTL" && (part.Num == jute.ModePersistentTTL ||
			part.Num == jute.ModePersistentSequentialTTL)
	})
}

// String is the operation's line in a script.
func (o Op) String() string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(o); err != nil {
		panic(err) // an Op has only fields that JSON can encode
	}
	return fmt.Sprintf("%d %s %s", o.Session, o.Kind, strings.TrimSpace(b.String()))
}

// Script is a history as text.
func Script(ops []Op) string {
	var b strings.Builder
	for _, op := range ops {
		b.WriteString(op.String() + "\n")
	}
	return b.String()
}

// Parse reads a script. Empty lines and lines that begin with # are skipped.
func Parse(script string) ([]Op, error) {
	var ops []Op
	lines := bufio.NewScanner(strings.NewReader(script))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var op Op
		words := strings.SplitN(line, " ", 3)
		if len(words) < 2 {
			return nil, fmt.Errorf("line %d: %q is not: SESSION KIND {…}", n, line)
		}
		if _, err := fmt.Sscan(words[0], &op.Session); err != nil || op.Session < 0 {
			return nil, fmt.Errorf("line %d: %q is no session", n, words[0])
		}
		op.Kind = words[1]
		if _, request := kinds[op.Kind]; !request && !slices.Contains(actions, op.Kind) {
			return nil, fmt.Errorf("line %d: no operation %q", n, op.Kind)
		}
		if len(words) == 3 {
			dec := json.NewDecoder(strings.NewReader(words[2]))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&op); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		ops = append(ops, op)
	}
	return ops, lines.Err()
}

func text(s string) *string { return &s }

func (o Op) bytes() []byte {
	if o.Data == nil {
		return nil
	}
	return []byte(*o.Data)
}

func (o Op) acls() []jute.ACL {
	if len(o.ACL) == 0 && !o.NoACL {
		return []jute.ACL{{Perms: jute.PermAll, Scheme: "world", ID: "anyone"}}
	}
	return o.ACL
}

// request is the record after the request header. zxid turns a zxid of the history into one of the server.
func (o Op) request(op int32, zxid func(int64) int64) jute.Record {
	create := jute.CreateRequest{Path: o.Path, Data: o.bytes(), ACL: o.acls(), Flags: o.Num}
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		return &create
	case jute.OpCreateTTL:
		return &jute.CreateTTLRequest{CreateRequest: create, TTL: o.TTL}
	case jute.OpDelete, jute.OpCheck:
		return &jute.PathVersionRequest{Path: o.Path, Version: o.Num}
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		return &jute.PathWatchRequest{Path: o.Path, Watch: o.Watch}
	case jute.OpSetData:
		return &jute.SetDataRequest{Path: o.Path, Data: o.bytes(), Version: o.Num}
	case jute.OpSetACL:
		return &jute.SetACLRequest{Path: o.Path, ACL: o.acls(), Version: o.Num}
	case jute.OpGetACL, jute.OpSync, jute.OpDeleteContainer, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber:
		return &jute.PathRequest{Path: o.Path}
	case jute.OpAddWatch, jute.OpCheckWatches, jute.OpRemoveWatches:
		return &jute.PathIntRequest{Path: o.Path, Value: o.Num}
	case jute.OpSetWatches:
		return &jute.SetWatches{RelativeZxid: zxid(o.Zxid), Data: o.Paths["data"], Exist: o.Paths["exist"],
			Child: o.Paths["child"]}
	case jute.OpSetWatches2:
		return &jute.SetWatches2{SetWatches: jute.SetWatches{RelativeZxid: zxid(o.Zxid), Data: o.Paths["data"],
			Exist: o.Paths["exist"],
			Child: o.Paths["child"]}, Persistent: o.Paths["persistent"], Recursive: o.Paths["recursive"]}
	case jute.OpAuth:
		return &jute.AuthPacket{Scheme: o.Auth[0], Auth: []byte(o.Auth[1])}
	case jute.OpReconfig:
		return &jute.ReconfigRequest{NewMembers: o.Path, CurConfigID: -1}
	case jute.OpMulti, jute.OpMultiRead:
		m := &jute.MultiRequest{}
		for _, part := range o.Multi {
			code := kinds[part.Kinds]
			m.Ops = append(m.Ops, jute.MultiOp{Op: code, Request: part.request(code, zxid)})
		}
		return m
	}
	return &nothing{}
}

// nothing is the record of a request without one.
type nothing struct{}

func (*nothing) Fields(*jute.Coder) {}
