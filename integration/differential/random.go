package differential

import (
	"cmp"
	"math/rand/v2"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// generator makes histories. Its world is small, so that operations meet at the same nodes: most of them use
// the paths of pool, which the history creates first.
type generator struct {
	*rand.Rand
	pool   []string
	quotas bool // the history has some
}

func newGenerator(seed, kind uint64) generator {
	g := generator{Rand: rand.New(rand.NewPCG(seed, kind))}
	g.quotas = g.chance(6)
	for _, path := range []string{"/h/a", "/h/b", "/h/a/b", "/h/a/c", "/h/b/a", "/h/a/b/c"} { // parents first
		if !g.chance(4) {
			g.pool = append(g.pool, path)
		}
	}
	return g
}

// beginning makes most of the pool, and sometimes a quota.
func (g generator) beginning() (ops []Op) {
	for _, path := range g.pool {
		op := Op{Kind: pick(g, "create", "create2"), Path: path, Data: g.data()}
		if g.chance(5) {
			g.create(&op, op.Kind)
		}
		ops = append(ops, op)
	}
	if g.quotas {
		dir := quotaHome + "/" + pick(g, "a", "b")
		for _, path := range []string{quotaHome, dir} {
			ops = append(ops, Op{Kind: "create", Path: path})
		}
		ops = append(ops, Op{Kind: "create", Path: dir + "/zookeeper_limits", Data: g.limits()},
			Op{Kind: "create", Path: dir + "/zookeeper_stats", Data: text("count=0,bytes=0")})
	}
	return ops
}

func (g generator) limits() *string {
	return text(pick(g, "count=3,bytes=40", "count=2,bytes=-1",
		"count=-1,bytes=-1=;byteHardLimit=30;countHardLimit=4", "count=3,bytes=9=;countHardLimit=3"))
}

// Random is the history of a seed, with between 25 and 60 operations after the making of a few nodes.
func Random(seed uint64) []Op {
	g := newGenerator(seed, 0x5eed)
	return g.history(25+g.IntN(36), g.operation)
}

// RandomExpiry is a history of 15 to 30 such operations with sessions that expire.
func RandomExpiry(seed uint64) []Op {
	g := newGenerator(seed, 0xdead)
	left := 2 // expiries at most: each waits for a session timeout
	return g.history(15+g.IntN(16), func() Op {
		if left > 0 && g.chance(6) {
			left--
			return Op{Kind: pick(g, expire, vanish)}
		}
		if g.chance(4) {
			return Op{Kind: "create", Path: g.path(), Num: jute.ModeEphemeral, Data: g.data()}
		}
		return g.operation()
	})
}

func (g generator) history(length int, operation func() Op) []Op {
	sessions := 1 + g.IntN(4)
	ops := g.beginning()
	for range length {
		ops = append(ops, operation())
	}
	session := 0
	for i := range ops {
		if g.IntN(2) == 0 { // only runs of one session can be pipelined
			session = g.IntN(sessions)
		}
		// No pipelining with quotas: the real server's check does not count the writes in flight.
		ops[i].Session, ops[i].More = session, g.IntN(2) == 0 && !g.quotas
	}
	return ops
}

func pick[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

// chance is true once in n times.
func (g generator) chance(n int) bool { return g.IntN(n) == 0 }

// mix has each kind of operation as often as its weight.
var mix = func() []string {
	weights := map[string]int{"create": 10, "create2": 8, "createContainer": 3, "createTTL": 3, "delete": 8,
		"exists": 7, "getData": 8,
		"setData": 8, "getACL": 4, "setACL": 6, "getChildren": 5, "getChildren2": 5, "sync": 2, "ping": 1,
		"multi": 10, "multiRead": 4, "addWatch": 7,
		"checkWatches": 3, "removeWatches": 4, "setWatches": 2, "setWatches2": 3, "whoAmI": 2, "getEphemerals": 2,
		"getAllChildrenNumber": 2,
		"auth":                 4, "closeSession": 1, "reconfig": 1, "deleteContainer": 1, "unknown": 1, cut: 2, attach: 5, restart: 3,
		"quota": 3}
	var names []string
	for _, name := range []string{"create", "create2", "createContainer", "createTTL", "delete", "exists",
		"getData", "setData", "getACL", "setACL",
		"getChildren", "getChildren2", "sync", "ping", "multi", "multiRead", "addWatch", "checkWatches",
		"removeWatches", "setWatches", "setWatches2",
		"whoAmI", "getEphemerals", "getAllChildrenNumber", "auth", "closeSession", "reconfig", "deleteContainer", "unknown", cut,
		attach, restart, "quota"} {
		for range weights[name] {
			names = append(names, name)
		}
	}
	return names
}()

func (g generator) operation() Op {
	kind := pick(g, mix...)
	if kind == "quota" {
		if g.quotas {
			return g.quota()
		}
		kind = "setData"
	}
	op := Op{Kind: kind, Path: g.path()}
	switch kind {
	case "create", "create2", "createContainer", "createTTL":
		g.create(&op, kind)
	case "delete":
		op.Num = g.version()
	case "exists", "getData", "getChildren", "getChildren2":
		op.Watch = g.chance(2)
	case "setData":
		op.Num, op.Data = g.version(), g.data()
	case "setACL":
		op.Num = g.version()
		g.acl(&op)
	case "addWatch":
		op.Num = pick[int32](g, 0, 0, 0, 1, 1, 1, 1, 2)
	case "checkWatches", "removeWatches":
		op.Num = pick[int32](g, 1, 2, 3, 3, 3, 4, 0)
	case "multi":
		op.Path, op.Multi = "", g.multi("create", "create", "create2", "createContainer", "createTTL", "delete",
			"delete", "setData", "setData", "check")
	case "multiRead":
		op.Path, op.Multi = "", g.multi("getData", "getChildren")
	case "setWatches", "setWatches2":
		op.Path, op.Zxid = "", int64(g.IntN(40))
		op.Paths = map[string][]string{}
		for _, list := range []string{"data", "exist", "child", "persistent", "recursive"} {
			for range g.IntN(3) {
				op.Paths[list] = append(op.Paths[list], g.path())
			}
		}
		if kind == "setWatches" {
			delete(op.Paths, "persistent")
			delete(op.Paths, "recursive")
		}
	case "auth":
		op.Path, op.Auth = "", pick(g, [2]string{"digest", "u:p"}, [2]string{"digest", "u:p"},
			[2]string{"digest", "v:q"}, [2]string{"digest", "v:q"},
			[2]string{"digest", superUser}, [2]string{"ip", ""}, [2]string{"digest", "nopassword"},
			[2]string{"nosuch", "x"})
	case "getEphemerals":
		op.Path = pick(g, "", "/", "/h", "/h/a", op.Path)
	case "unknown":
		op.Path, op.Num = "", pick[int32](g, 77, 10, 50)
	case attach:
		op.Path, op.Num = "", pick[int32](g, 0, 0, 0, 0, 0, 0, 1, 2)
	case "whoAmI", "ping", "closeSession", cut, restart:
		op.Path = ""
	}
	return op
}

func (g generator) create(op *Op, kind string) {
	op.Data = g.data()
	if g.chance(5) {
		g.acl(op)
	}
	if len(g.pool) > 0 && g.chance(2) {
		op.Path = pick(g, g.pool...) + "/" + pick(g, nodeNames...)
	}
	op.Num = pick[int32](g, 0, 0, 0, 1, 1, 2, 3, 3, 4, 0)
	switch kind {
	case "createContainer":
		op.Num = pick[int32](g, 4, 4, 4, 0)
	case "createTTL":
		op.Num, op.TTL = pick[int32](g, 5, 5, 6), pick[int64](g, 1, 1e9, 0, -1, 0x00ffffffffff, 0x010000000000)
	default:
		if g.chance(12) {
			op.Num = pick[int32](g, 5, 6, 7, -1)
		}
	}
	if op.Num == jute.ModePersistentSequential || op.Num == jute.ModeEphemeralSequential ||
		op.Num == jute.ModePersistentSequentialTTL {
		if op.Path = cmp.Or(op.Path, home); strings.HasPrefix(op.Path, home+"/") {
			op.Path += pick(g, "", "-")
		}
		if op.Path += pick(g, "", "/", "/s-"); !strings.HasPrefix(op.Path, home+"/") {
			op.Path = home + "/s-" // nodes elsewhere would not be swept
		}
	}
}

var nodeNames = []string{"a", "b", "c"}

// path is mostly below home, three levels deep at most; sometimes it is invalid or empty.
func (g generator) path() string {
	switch {
	case g.chance(40):
		return pick(g, "", "h", "/h/", "/h//a", "/h/./a", "/h/../a", "/h/a/..", "/no/where", "/h/\x01",
			"/h/\u00e4\u6f22", "/h/a\x00", "/h/zookeeper",
			"/h/\ufff0", "/h/\ue000", "/h/a/.", "/h/...")
	case g.chance(12):
		return home
	case g.chance(12):
		return home + "/" + pick(g, nodeNames...) + "/s-000000000" + pick(g, "0", "1", "2")
	case g.chance(20):
		return home + "/" + pick(g, "Aa", "BB", "lock-1", "some-longer-name-0000000007", "x.y", "x y")
	}
	if len(g.pool) > 0 && !g.chance(4) {
		return pick(g, g.pool...)
	}
	p := home + "/" + pick(g, nodeNames...)
	for range g.IntN(3) {
		p += "/" + pick(g, nodeNames...)
	}
	return p
}

func (g generator) data() *string {
	if g.chance(8) {
		return nil
	}
	return text(pick(g, "", "x", "hello", "a longer text, that counts", "\x00\x01\x7f"))
}

func (g generator) version() int32 { return pick[int32](g, -1, -1, -1, -1, -1, 0, 0, 1, 2, -2) }

func (g generator) acl(op *Op) {
	world := jute.ACL{Perms: pick[int32](g, 31, 1, 0, 2, 4, 8, 16, 15, 30), Scheme: "world", ID: "anyone"}
	user := jute.ACL{Perms: pick[int32](g, 31, 31, 1, 17), Scheme: "digest", ID: digest(pick(g, "u:p", "v:q"))}
	switch g.IntN(9) {
	case 0, 1:
		op.ACL = []jute.ACL{world}
	case 2:
		op.ACL = []jute.ACL{user}
	case 3:
		op.ACL = []jute.ACL{user, world}
	case 4:
		op.ACL = []jute.ACL{{Perms: 31, Scheme: "auth"}, {Perms: 1, Scheme: "world", ID: "anyone"}}
	case 5:
		op.ACL = []jute.ACL{{Perms: pick[int32](g, 31, 3), Scheme: "ip",
			ID: pick(g, "127.0.0.1", "127.0.0.0/8", "10.0.0.0/8", "127.0.0.1/33", "nonsense")}}
	case 6:
		op.ACL = []jute.ACL{pick(g, jute.ACL{Perms: 31, Scheme: "nosuch", ID: "x"},
			jute.ACL{Perms: 31, Scheme: "world", ID: "nobody"},
			jute.ACL{Perms: 31, Scheme: "digest", ID: "nocolon"}, jute.ACL{Perms: 31, Scheme: "super", ID: ""},
			jute.ACL{Perms: 99, Scheme: "world", ID: "anyone"})}
	case 7:
		op.NoACL = true
	case 8:
		op.ACL = []jute.ACL{world, user, world}
	}
}

func (g generator) multi(kinds ...string) []Op {
	var ops []Op
	for range g.IntN(5) {
		op := Op{Kinds: pick(g, kinds...), Path: g.path()}
		switch op.Kinds {
		case "create", "create2", "createContainer", "createTTL":
			g.create(&op, op.Kinds)
		case "delete", "check":
			op.Num = g.version()
		case "setData":
			op.Num, op.Data = g.version(), g.data()
		}
		ops = append(ops, op)
	}
	return ops
}

// quota creates or deletes one of the nodes that make a quota, or reads its usage.
func (g generator) quota() Op {
	dir := quotaHome + "/" + pick(g, nodeNames...)
	switch g.IntN(6) {
	case 0:
		return Op{Kind: "create", Path: quotaHome}
	case 1:
		return Op{Kind: "create", Path: dir}
	case 2:
		return Op{Kind: "create", Path: dir + "/zookeeper_limits", Data: g.limits()}
	case 3:
		return Op{Kind: "create", Path: dir + "/zookeeper_stats", Data: text("count=0,bytes=0")}
	case 4:
		return Op{Kind: "delete", Path: dir + pick(g, "/zookeeper_limits", "/zookeeper_stats", ""), Num: -1}
	}
	return Op{Kind: "getData", Path: dir + "/zookeeper_stats"}
}
