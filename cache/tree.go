package cache

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/go-curator/curator/framework"
)

// node is a node of the copy. Nodes that are known but have not been read yet are in the tree, too, but not
// live: readers do not see them.
//
// There may be hundreds of thousands of nodes, so their size matters: 64 bytes, and one string. Most nodes
// are leaves that never changed after their creation; edit and family contain what only other nodes need.
type node struct {
	text         string // name and data in one: see pack. Never changed, only replaced
	up           *node
	czxid, ctime int64
	edit         *edit     // nil if the node is as it was created
	family       *family   // nil if it never had children and belongs to no session
	length       int32     // Stat.DataLength
	state        nodeState // of the engine's goroutine only
	live         bool
}

type edit struct {
	mzxid, mtime      int64
	version, aversion int32
}

// family has the children, and the Stat's fields about children and owner.
type family struct {
	kids               []*node // sorted by name
	pzxid, owner       int64
	cversion, children int32
}

// longName marks a name that is too long for a length in one byte; four bytes with its length follow.
const longName = 255

func pack(name string, data []byte) string {
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

func (n *node) split() (name, data string) {
	if n.text == "" { // the root, before its first read
		return "", ""
	}
	size, rest := int(n.text[0]), n.text[1:]
	if size == longName {
		size, rest = int(rest[0])<<24|int(rest[1])<<16|int(rest[2])<<8|int(rest[3]), rest[4:]
	}
	return rest[:size], rest[size:]
}

func (n *node) name() string {
	name, _ := n.split()
	return name
}

func (n *node) data() []byte {
	_, data := n.split()
	if data == "" {
		return nil
	}
	return unsafe.Slice(unsafe.StringData(data), len(data))
}

func (n *node) stat() framework.Stat {
	s := framework.Stat{
		Czxid: n.czxid, Mzxid: n.czxid, Pzxid: n.czxid, Ctime: n.ctime, Mtime: n.ctime, DataLength: n.length,
	}
	if e := n.edit; e != nil {
		s.Mzxid, s.Mtime, s.Version, s.Aversion = e.mzxid, e.mtime, e.version, e.aversion
	}
	if f := n.family; f != nil {
		s.Pzxid, s.EphemeralOwner, s.Cversion, s.NumChildren = f.pzxid, f.owner, f.cversion, f.children
	}
	return s
}

func (n *node) setStat(s framework.Stat) {
	n.czxid, n.ctime, n.length = s.Czxid, s.Ctime, s.DataLength
	switch e := (edit{s.Mzxid, s.Mtime, s.Version, s.Aversion}); {
	case e == edit{mzxid: s.Czxid, mtime: s.Ctime}:
		n.edit = nil
	case n.edit == nil:
		n.edit = &e
	default:
		*n.edit = e
	}
	n.setFamily(n.offspring(), s)
}

// setFamily stores the children, and the Stat's fields about them. The czxid is set already.
func (n *node) setFamily(kids []*node, s framework.Stat) {
	switch {
	case len(kids) == 0 && s.Pzxid == n.czxid && s.EphemeralOwner == 0 && s.Cversion == 0 &&
		s.NumChildren == 0:
		n.family = nil
		return
	case n.family == nil:
		n.family = &family{}
	}
	*n.family = family{kids, s.Pzxid, s.EphemeralOwner, s.Cversion, s.NumChildren}
}

// offspring returns the children, live or not, in order.
func (n *node) offspring() []*node {
	if n.family == nil {
		return nil
	}
	return n.family.kids
}

func (n *node) setKids(kids []*node) {
	if len(kids) == 0 {
		kids = nil
	}
	n.setFamily(kids, n.stat())
}

func (n *node) kid(name string) (i int, found bool) {
	return slices.BinarySearchFunc(n.offspring(), name,
		func(k *node, name string) int { return strings.Compare(k.name(), name) })
}

func (n *node) depth() (d int) {
	for ; n.up != nil; n = n.up {
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
