package zktest

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// Members lose their links, stop, hang and lose their data while clients work. All the time there is one history, and
// no session ends too early; in the end all members are equal again and every client is served.
func TestEnsembleChaos(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4 // one of each size
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			cfg := Config{
				TickTime:     time.Second,
				Lag:          time.Duration(r.IntN(3)) * 50 * time.Millisecond,
				PeerDelay:    time.Duration(r.IntN(3)) * 7 * time.Millisecond,
				ReadOnlyMode: r.IntN(2) == 0, LocalSessions: true,
			}
			ensembleChaos(t, r, RunEnsembleT(t, []int{1, 3, 3, 5}[seed%4], cfg))
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}

// history checks that members apply one log, each from its beginning or from another member's copy of it.
type history struct {
	t      *testing.T
	log    []*logEntry
	at     []int               // number of entries that each member has applied
	proofs map[int64]time.Time // until when a session cannot be expired, as its client can prove
}

func watchHistory(t *testing.T, e *Ensemble) *history {
	h := &history{t: t, at: make([]int, e.Size()), proofs: map[int64]time.Time{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.applied = func(member int, entry *logEntry) {
		if h.at[member] == len(h.log) {
			h.log = append(h.log, entry)
			if entry.closes != 0 && entry.request == nil {
				alive := time.Now().Before(h.proofs[entry.closes])
				assert.False(t, alive, "session %#x expired too early", entry.closes)
			}
			if n := len(h.log); n > 1 {
				assert.Less(t, h.log[n-2].zxid, entry.zxid)
			}
		}
		if want := h.log[h.at[member]]; want != entry {
			t.Errorf("member %d applies %#x as its entry %d, others have %#x there",
				member, entry.zxid, h.at[member], want.zxid)
		}
		h.at[member]++
	}
	e.copied = func(member, from int) { h.at[member] = h.at[from] }
	return h
}

func ensembleChaos(t *testing.T, r *rand.Rand, e *Ensemble) {
	h := watchHistory(t, e)
	require.NoError(t, e.Member(0).Create("/c", nil))
	end := time.Now().Add(3 * time.Minute)
	var wg sync.WaitGroup
	const workers = 6
	for i := range workers {
		mine := rand.New(rand.NewPCG(r.Uint64(), 3))
		w := &worker{t: t, pick: func() *Server { return e.Member(mine.IntN(e.Size())) }}
		wg.Go(func() {
			for time.Now().Before(end) {
				w.prove(e, h)
				w.work()
				time.Sleep(time.Duration(300+10*i) * time.Millisecond)
			}
			for range 40 { // twenty quiet seconds at the end
				w.ask(jute.OpPing)
				time.Sleep(time.Second / 2)
			}
		})
	}
	for time.Now().Before(end.Add(-time.Minute)) {
		time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
		one, other := r.IntN(e.Size()), r.IntN(e.Size())
		switch r.IntN(12) {
		case 0:
			e.Partition(one)
		case 1:
			e.Partition(one, other)
		case 2:
			e.CutLink(one, other)
		case 3, 4:
			e.HealPeers()
		case 5:
			e.ResetPeers(one)
		case 6:
			e.Member(one).Stop()
		case 7:
			require.NoError(t, e.Member(one).Restart())
		case 8:
			e.Member(one).Pause()
			time.Sleep(time.Duration(r.IntN(9000)) * time.Millisecond)
			e.Member(one).Resume()
		case 9:
			e.SetLag(one, time.Duration(r.IntN(3000))*time.Millisecond)
		case 10:
			e.Cut(0)
		default:
			require.NoError(t, e.Heal())
			settle(t, e)
			// Only now: a member that loses its data while others are missing may lose committed writes.
			if e.Size() > 1 && r.IntN(2) == 0 {
				e.Member(one).Wipe()
				settle(t, e)
			}
		}
	}
	require.NoError(t, e.Heal())
	settle(t, e)
	wg.Wait()
	settle(t, e)

	leader := e.Member(e.Leader())
	assert.Len(t, leader.Sessions(), workers)
	live := map[int64]bool{}
	for _, ses := range leader.Sessions() {
		live[ses.ID] = true
	}
	for path, n := range leader.Tree() {
		if n.Mode == Ephemeral {
			assert.True(t, live[n.Stat.EphemeralOwner], path)
		}
	}
	for i, s := range e.Members() {
		assert.Equal(t, leader.Tree(), s.Tree())
		assert.Equal(t, leader.Zxid(), s.Zxid())
		assert.Len(t, s.Sessions(), workers)
		assert.Equal(t, len(h.log), h.at[i])
		for _, w := range s.Watches() {
			assert.True(t, live[w.Session], w)
		}
	}
	assert.Greater(t, len(h.log), 500)
}

// prove writes on a connection to the leader. A write that is committed there has touched the session when it was sent,
// or later.
func (w *worker) prove(e *Ensemble, h *history) {
	if w.c == nil || w.s != e.Member(max(e.Leader(), 0)) {
		return
	}
	id, sent := w.hello.SessionID, time.Now()
	if _, good := w.ask(jute.OpSetData, put("/c", "x")); good {
		e.mu.Lock()
		defer e.mu.Unlock()
		h.proofs[id] = sent.Add(time.Duration(w.hello.Timeout) * time.Millisecond)
	}
}
