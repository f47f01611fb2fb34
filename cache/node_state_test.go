package cache

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// For any events in any order: a reply that an event may have overtaken is not current, and does not prove which node has the
// name; each wanted read is sent once; and the load counts each node once, and ends.
func FuzzNodeState(f *testing.F) {
	for seed := range uint64(256) {
		r := rand.New(rand.NewPCG(seed, 38))
		events := make([]byte, 100)
		for i := range events {
			events[i] = byte(r.Uint32())
		}
		f.Add(events)
	}
	f.Fuzz(func(t *testing.T, events []byte) {
		m := nodeModel{t: t}
		for _, b := range events {
			if ev := nodeInput(b) % (nodeRemoved + 1); ev != nodeRemoved || b > 250 {
				m.happens(ev)
			}
		}
		m.comesToRest()
	})
}

// nodeModel is a node with the engine's queue and the requests in flight, and the times of its events.
type nodeModel struct {
	t     *testing.T
	state nodeState
	now   int

	data, list fetched
	doubted    int // when another node may have got the name
	proved     int // when the read was sent that has proved which node has the name
	awaited    int
}

// fetched is the model's state of one part of the node.
type fetched struct {
	queued, inFlight bool
	sent, changed    int // times
}

func (m *nodeModel) happens(ev nodeInput) (effects nodeEffects) {
	m.now++
	switch ev {
	case dataSent:
		if !m.data.queued {
			return 0
		}
	case listSent:
		if !m.list.queued {
			return 0
		}
	case dataReplied, dataFailed, compareFailed, dataWatchSet:
		if !m.data.inFlight || ev == dataWatchSet && m.state.hasAny(dataWatch) { // a read does not set a watch again
			return 0
		}
	case listReplied, listFailed, listWatchSet:
		if !m.list.inFlight || ev == listWatchSet && m.state.hasAny(listWatch) {
			return 0
		}
	}
	before := m.state
	m.state, effects = before.next(ev)
	if before.hasAny(leftTree) {
		require.Equal(m.t, before, m.state, "event %d after the removal", ev)
		require.Zero(m.t, effects)
		return 0
	}
	m.count(effects)
	m.data.moves(m.t, effects&queueData != 0, ev == dataSent, effects)
	m.list.moves(m.t, effects&queueList != 0, ev == listSent, effects)
	m.remember(ev, effects)
	m.holds()
	switch { // as the engine does
	case effects&replyOutdated == 0:
	case ev == dataReplied:
		m.happens(dataWanted)
	default:
		m.happens(listWanted)
	}
	return effects
}

// count records for how many nodes the load waits.
func (m *nodeModel) count(effects nodeEffects) {
	if effects&awaitMore != 0 {
		m.awaited++
	}
	if effects&awaitLess != 0 {
		m.awaited--
	}
	want := 0
	if m.state.hasAny(awaitedForSync) {
		want = 1
	}
	require.Equal(m.t, want, m.awaited, "the load waits for it")
}

// moves puts a read into the queue, and takes it from there.
func (f *fetched) moves(t *testing.T, queue, send bool, effects nodeEffects) {
	if send {
		require.NotZero(t, effects&nowSent, "what is in the queue is wanted")
		f.queued, f.inFlight = false, true
	}
	if queue {
		require.False(t, f.queued, "queued twice")
		f.queued, f.inFlight = true, false
	}
}

func (m *nodeModel) remember(ev nodeInput, effects nodeEffects) {
	d, l := &m.data, &m.list
	switch ev {
	case dataSent:
		d.sent = m.now
	case listSent:
		l.sent = m.now
	case dataWanted, compareWanted:
		d.changed = m.now
	case maybeReplaced:
		d.changed, m.doubted = m.now, m.now
	case identityUnproven:
		m.doubted = m.now
	case listWanted, listChanged:
		l.changed = m.now
	case gapFound:
		d.changed, l.changed, m.doubted = m.now, m.now, m.now
	case dataReplied:
		d.inFlight, m.proved = false, d.sent
		require.Equal(m.t, d.changed > d.sent, effects&replyOutdated != 0, "the reply is older than an event")
	case listReplied:
		l.inFlight = false
		require.Equal(m.t, l.changed > l.sent, effects&replyOutdated != 0, "the list is older than an event")
	case dataWatchSet:
		require.Equal(m.t, d.changed < d.sent, m.state.hasAny(dataWatch), "the watch is set")
	case listWatchSet:
		require.Equal(m.t, l.changed < l.sent, m.state.hasAny(listWatch), "the watch is set")
	case bothWatchesFired:
		l.changed = m.now
		require.False(m.t, m.state.hasAny(dataWatch|listWatch))
	case dataWatchFired:
		require.False(m.t, m.state.hasAny(dataWatch))
	case listWatchFired:
		require.False(m.t, m.state.hasAny(listWatch))
	case childrenListed:
		require.True(m.t, m.state.hasAny(childrenKnown))
	case strategyStarted:
		*d, *l, m.doubted = fetched{}, fetched{}, 0
	case nodeRemoved:
		*d, *l = fetched{}, fetched{}
	}
}

// holds asserts the properties of every state.
func (m *nodeModel) holds() {
	s, t := m.state, m.t
	require.Equal(t, m.data.queued, s.data.isQueued(), "a read in the queue")
	require.Equal(t, m.list.queued, s.list.isQueued(), "a list in the queue")
	require.Equal(t, m.data.inFlight, s.data.isSent(), "a read in flight")
	require.Equal(t, m.list.inFlight, s.list.isSent(), "a list in flight")
	if s.hasAny(leftTree) {
		require.Equal(t, nodeState{facts: leftTree}, s)
		return
	}
	require.Equal(t, m.doubted > m.proved, s.hasAny(identityUncertain|identityProving), "another node may have the name")
	require.False(t, s.hasAny(identityUncertain) && s.hasAny(identityProving))
	if s.hasAny(identityProving) {
		require.True(t, s.data.isSent(), "a read that will prove it")
		require.Greater(t, m.data.sent, m.doubted)
	}
}

// comesToRest asserts that two reads of each part complete the node if there are no more events.
func (m *nodeModel) comesToRest() {
	for range 2 {
		for _, ev := range []nodeInput{dataSent, dataReplied, listSent, listReplied, readHandled} {
			m.happens(ev)
		}
	}
	assert.Zero(m.t, m.state.data)
	assert.Zero(m.t, m.state.list)
	assert.Zero(m.t, m.awaited)
}
