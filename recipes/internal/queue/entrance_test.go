package queue

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One list is under way at a time; those that come meanwhile share the next one, which is asked for after the
// creates of all of them were queued.
func TestNewcomersShareAList(t *testing.T) {
	e := enterBy(peersKey{session: 1})
	defer e.leave()
	var asked []*sharedList
	ask := func(l *sharedList) { asked = append(asked, l) }
	var own [5]sharedList
	lists := make([]*sharedList, 5)
	for i := range 4 {
		lists[i] = e.list(&own[i])
	}
	assert.Same(t, &own[0], lists[0], "the first has its own")
	for _, l := range lists[1:4] {
		assert.Same(t, lists[1], l)
	}
	assert.NotSame(t, lists[0], lists[1])
	assert.Empty(t, asked, "the first list was asked for before the other creates")

	e.done(lists[1], ask)
	assert.Empty(t, asked, "one has left, two still need it")
	e.done(lists[0], ask)
	require.Equal(t, []*sharedList{lists[1]}, asked)
	<-lists[1].asked
	lists[4] = e.list(&own[4])
	assert.NotSame(t, lists[1], lists[4], "it is too early for that one")
	e.done(lists[4], ask)
	e.done(lists[2], ask)
	assert.Len(t, asked, 1, "nobody is left that needs the next one")
	e.done(lists[3], ask)
	assert.Len(t, asked, 1)
	last := e.list(&own[0])
	assert.Same(t, &own[0], last, "nothing is under way any more")
	e.done(last, ask)
}

func TestEntrancesAreForgotten(t *testing.T) {
	for i := range 3 {
		e := enterBy(peersKey{session: int64(i)})
		require.Same(t, e, enterBy(peersKey{session: int64(i)}))
		e.leave()
		e.leave()
	}
	entrances.mu.Lock()
	defer entrances.mu.Unlock()
	assert.Empty(t, entrances.all, fmt.Sprint(entrances.all))
}
