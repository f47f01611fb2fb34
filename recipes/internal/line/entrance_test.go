package line

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One list is under way at a time; those that come meanwhile share the next one, which is asked for after the
// creates of all of them were queued.
func TestNewcomersShareAList(t *testing.T) {
	e := entrances.Enter(comers{session: 1})
	defer e.Leave()
	var asked []*listing
	done := func(list *Shared[listing]) {
		if next := e.Done(list); next != nil {
			asked = append(asked, &next.Question)
			next.WasAsked()
		}
	}
	var own [5]Shared[listing]
	lists := make([]*Shared[listing], 5)
	for i := range 4 {
		lists[i] = e.Join(&own[i], 1)
	}
	assert.Same(t, &own[0], lists[0], "the first has its own")
	for _, l := range lists[1:4] {
		assert.Same(t, lists[1], l)
	}
	assert.NotSame(t, lists[0], lists[1])
	assert.Empty(t, asked, "the first list was asked for before the other creates")

	done(lists[1])
	assert.Empty(t, asked, "one has left, two still need it")
	done(lists[0])
	require.Len(t, asked, 1)
	require.Same(t, &lists[1].Question, asked[0])
	<-lists[1].asked
	lists[4] = e.Join(&own[4], 1)
	assert.NotSame(t, lists[1], lists[4], "it is too early for that one")
	done(lists[4])
	done(lists[2])
	assert.Len(t, asked, 1, "nobody is left that needs the next one")
	done(lists[3])
	assert.Len(t, asked, 1)
	last := e.Join(&own[0], 1)
	assert.Same(t, &own[0], last, "nothing is under way any more")
	done(last)
}

// A few ask for themselves at the same time. The first of them that is answered asks for those that share.
func TestAFewAskForThemselves(t *testing.T) {
	e := entrances.Enter(comers{session: 2})
	defer e.Leave()
	var own [5]Shared[listing]
	for i := range MostAtOnce {
		require.Same(t, &own[i], e.Join(&own[i], MostAtOnce))
	}
	shared := e.Join(&own[4], MostAtOnce)
	require.NotSame(t, &own[4], shared)
	require.Same(t, shared, e.Done(&own[2]))
	shared.WasAsked()
	assert.Nil(t, e.Done(&own[0]), "nobody else shares")
	assert.Same(t, &own[2], e.Join(&own[2], MostAtOnce), "there is room for one")
	assert.Nil(t, e.Done(shared))
	for _, i := range []int{1, 2, 3} {
		assert.Nil(t, e.Done(&own[i]))
	}
	assert.Zero(t, e.underWay)
}

func TestEntrancesAreForgotten(t *testing.T) {
	for i := range 3 {
		e := entrances.Enter(comers{session: int64(i)})
		require.Same(t, e, entrances.Enter(comers{session: int64(i)}))
		e.Leave()
		e.Leave()
	}
	entrances.mu.Lock()
	defer entrances.mu.Unlock()
	assert.Empty(t, entrances.all, fmt.Sprint(entrances.all))
}
