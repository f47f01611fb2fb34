package cache

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/framework"
)

func TestNamesAndDataInOne(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 254, 255, 256, 70_000} {
		name := strings.Repeat("n", size)
		for _, data := range []string{"", "d", strings.Repeat("data", 1000)} {
			n := &node{text: pack(name, []byte(data))}
			assert.Equal(t, name, n.name())
			assert.Equal(t, data, string(n.data()))
		}
	}
	n := &node{}
	assert.Empty(t, n.name())
	assert.Nil(t, n.data())
}

// What most nodes do not have takes no room, and comes and goes.
func TestStatsAreKeptWhole(t *testing.T) {
	created := framework.Stat{Czxid: 5, Mzxid: 5, Pzxid: 5, Ctime: 7, Mtime: 7, DataLength: 3}
	with := func(change func(*framework.Stat)) framework.Stat {
		s := created
		change(&s)
		return s
	}
	n := &node{}
	for _, s := range []framework.Stat{
		created,
		with(func(s *framework.Stat) { s.Mzxid, s.Mtime, s.Version = 8, 9, 1 }),
		with(func(s *framework.Stat) { s.Mtime = 9 }),
		with(func(s *framework.Stat) { s.Version = 1 }),
		with(func(s *framework.Stat) { s.Aversion = 1 }),
		with(func(s *framework.Stat) { s.Pzxid, s.Cversion = 8, 2 }),
		with(func(s *framework.Stat) { s.Pzxid, s.Cversion, s.NumChildren = 8, 1, 1 }),
		with(func(s *framework.Stat) { s.EphemeralOwner = 77 }),
		with(func(s *framework.Stat) { s.Mzxid = 4 }), // of a server that was restored
		{},
		created,
	} {
		n.setStat(s)
		assert.Equal(t, s, n.stat())
	}
	assert.Nil(t, n.edit)
	assert.Nil(t, n.family)

	kid := &node{up: n, text: pack("kid", nil)}
	n.setKids([]*node{kid})
	assert.Equal(t, created, n.stat(), "children that have been heard of do not change it")
	n.setStat(with(func(s *framework.Stat) { s.Version = 1 }))
	assert.Equal(t, []*node{kid}, n.offspring())
	n.setKids(nil)
	assert.Nil(t, n.family)
	assert.LessOrEqual(t, unsafe.Sizeof(node{}), uintptr(64), "there may be hundreds of thousands")
}
