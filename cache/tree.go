package cache

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/go-curator/curator/framework"
)

// treeNode is a node in the cache's tree. Nodes that have not been read yet are in it, too, but not live: readers do not see
// them.
//
// There may be hundreds of thousands of nodes, so their size matters: 64 bytes, and one string. Most nodes
// are leaves that never changed after their creation; modified and family contain what only other nodes need.
type treeNode struct {
	text         string // name and data in one: see packText. Never changed, only replaced
	parent       *treeNode
	czxid, ctime int64
	modified     *modifiedStat // nil if the node is as it was created
	family       *nodeFamily   // nil if it never had children and has no EphemeralOwner
	length       int32         // Stat.DataLength
	state        nodeState     // of the engine's goroutine only
	live         bool          // was read, and exists
}

type modifiedStat struct {
	mzxid, mtime      int64
	version, aversion int32
}

// nodeFamily has the children, and the Stat's fields about children and owner.
type nodeFamily struct {
	children              []*treeNode // sorted by name
	pzxid, owner          int64
	cversion, numChildren int32
}

// longName marks a name that is too long for a length in one byte; four bytes with its length follow.
const longName = 255

func packText(name string, data []byte) string {
	var b strings.Builder
	b.Grow(1 + len(name) + len(data))
	if size := len(name); size < longName {
		b.WriteByte(byte(size))
	} else {
		b.Write([]byte{longName, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)})
	}
	b.WriteString(name)
	b.Write(data)
	return b.String()
}

func (n *treeNode) splitText() (name, data string) {
	if n.text == "" { // the root, before its first read
		return "", ""
	}
	size, rest := int(n.text[0]), n.text[1:]
	if size == longName {
		size, rest = int(rest[0])<<24|int(rest[1])<<16|int(rest[2])<<8|int(rest[3]), rest[4:]
	}
	return rest[:size], rest[size:]
}

func (n *treeNode) name() string {
	name, _ := n.splitText()
	return name
}

func (n *treeNode) data() []byte {
	_, data := n.splitText()
	if data == "" {
		return nil
	}
	return unsafe.Slice(unsafe.StringData(data), len(data))
}

func (n *treeNode) stat() framework.Stat {
	s := framework.Stat{
		Czxid: n.czxid, Mzxid: n.czxid, Pzxid: n.czxid, Ctime: n.ctime, Mtime: n.ctime, DataLength: n.length,
	}
	if e := n.modified; e != nil {
		s.Mzxid, s.Mtime, s.Version, s.Aversion = e.mzxid, e.mtime, e.version, e.aversion
	}
	if f := n.family; f != nil {
		s.Pzxid, s.EphemeralOwner, s.Cversion, s.NumChildren = f.pzxid, f.owner, f.cversion, f.numChildren
	}
	return s
}

func (n *treeNode) setStat(s framework.Stat) {
	n.czxid, n.ctime, n.length = s.Czxid, s.Ctime, s.DataLength
	switch e := (modifiedStat{s.Mzxid, s.Mtime, s.Version, s.Aversion}); {
	case e == modifiedStat{mzxid: s.Czxid, mtime: s.Ctime}:
		n.modified = nil
	case n.modified == nil:
		n.modified = &e
	default:
		*n.modified = e
	}
	n.setFamily(n.children(), s)
}

// setFamily stores the children, and the Stat's fields about them. The czxid is set already.
func (n *treeNode) setFamily(kids []*treeNode, s framework.Stat) {
	switch {
	case len(kids) == 0 && s.Pzxid == n.czxid && s.EphemeralOwner == 0 && s.Cversion == 0 &&
		s.NumChildren == 0:
		n.family = nil
		return
	case n.family == nil:
		n.family = &nodeFamily{}
	}
	*n.family = nodeFamily{kids, s.Pzxid, s.EphemeralOwner, s.Cversion, s.NumChildren}
}

// children returns the children, live or not, in order.
func (n *treeNode) children() []*treeNode {
	if n.family == nil {
		return nil
	}
	return n.family.children
}

func (n *treeNode) setChildren(kids []*treeNode) {
	if len(kids) == 0 {
		kids = nil
	}
	n.setFamily(kids, n.stat())
}

func (n *treeNode) findChild(name string) (i int, found bool) {
	return slices.BinarySearchFunc(n.children(), name,
		func(k *treeNode, name string) int { return strings.Compare(k.name(), name) })
}

func (n *treeNode) depth() (d int) {
	for ; n.parent != nil; n = n.parent {
		d++
	}
	return d
}

func childPath(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}
