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

// Clients work during faults. After the faults all clients are served again, and the state is sound.
func TestChaos(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) { chaos(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func chaos(t *testing.T, r *rand.Rand) {
	s := RunT(t, Config{TickTime: time.Second})
	require.NoError(t, s.Create("/c", nil))
	end := time.Now().Add(2 * time.Minute)
	var wg sync.WaitGroup
	const workers = 4
	for range workers {
		w := &worker{s: s, t: t}
		wg.Go(func() {
			for time.Now().Before(end) {
				w.work()
				time.Sleep(400 * time.Millisecond)
			}
			for range 40 { // twenty quiet seconds at the end
				w.ask(jute.OpPing)
				time.Sleep(time.Second / 2)
			}
		})
	}
	for time.Now().Before(end.Add(-20 * time.Second)) {
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		var victim int64
		if live := s.Sessions(); len(live) > 0 && r.IntN(2) == 0 {
			victim = live[r.IntN(len(live))].ID
		}
		switch r.IntN(9) {
		case 0:
			s.Cut(victim)
		case 1:
			s.Expire(victim)
		case 2:
			require.NoError(t, s.Restart())
		case 3:
			s.BlackHole(victim, Direction(1+r.IntN(3)))
		case 4:
			s.Delay(victim, time.Duration(r.IntN(2000))*time.Millisecond)
		case 5, 6:
			s.Pause()
			time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
			s.Resume()
		case 7:
			action := Action(1 + r.IntN(int(DelayReply)))
			i := s.Inject(Fault{Session: victim, Action: action, Delay: time.Second, After: r.IntN(5)})
			time.Sleep(time.Second)
			i.Release()
			i.Remove()
		default:
			s.Heal()
		}
	}
	s.Heal()
	wg.Wait()

	assert.Len(t, s.Sessions(), workers)
	live := map[int64]bool{}
	for _, ses := range s.Sessions() {
		assert.True(t, ses.Connected)
		live[ses.ID] = true
	}
	for path, n := range s.Tree() {
		if n.Mode == Ephemeral {
			assert.True(t, live[n.Stat.EphemeralOwner], path)
		}
		kids, err := s.Children(path)
		require.NoError(t, err)
		assert.Equal(t, int(n.Stat.NumChildren), len(kids))
	}
	for _, w := range s.Watches() {
		assert.True(t, live[w.Session], w)
	}
	assert.Positive(t, s.Counts()["create"])
}

// worker is a client that reconnects, and waits two seconds at most for a reply.
type worker struct {
	s     *Server
	pick  func() *Server // the next server to connect to, nil: s
	t     *testing.T
	c     *raw // nil while there is no connection
	hello jute.ConnectResponse
}

func (w *worker) work() {
	path, good := w.ask(jute.OpCreate, mk("/c/n-", jute.ModeEphemeralSequential))
	if created := (jute.PathResponse{}); good && jute.Unmarshal(path.body, &created) == nil {
		w.ask(jute.OpGetData, watch(created.Path))
	}
	list, good := w.ask(jute.OpGetChildren, watch("/c"))
	var kids jute.ChildrenResponse
	if good && jute.Unmarshal(list.body, &kids) == nil && len(kids.Children) > 3 {
		w.ask(jute.OpDelete, rm("/c/"+kids.Children[0]))
	}
}

func (w *worker) ask(op int32, recs ...jute.Record) (reply, bool) {
	if w.c == nil && !w.connect() {
		return reply{}, false
	}
	_ = w.c.nc.SetDeadline(time.Now().Add(2 * time.Second))
	_, err := w.c.nc.Write(jute.Frame(append([]jute.Record{&jute.RequestHeader{Xid: 1, Op: op}}, recs...)...))
	var r reply
	if err == nil {
		r, err = w.c.recv()
	}
	if err != nil {
		_ = w.c.nc.Close()
		w.c = nil
	}
	return r, err == nil && r.Err == 0
}

func (w *worker) connect() bool {
	if w.pick != nil {
		w.s = w.pick()
	}
	nc, err := w.s.Dialer()("tcp", w.s.Addr(), time.Second)
	if err != nil {
		return false
	}
	c := &raw{t: w.t, nc: nc}
	_ = nc.SetDeadline(time.Now().Add(2 * time.Second))
	req := &jute.ConnectRequest{Timeout: 5000, SessionID: w.hello.SessionID, Password: w.hello.Password}
	_, err = nc.Write(jute.Frame(req))
	var frame []byte
	if err == nil {
		frame, err = c.frame()
	}
	if err != nil || jute.Unmarshal(frame, &w.hello) != nil || w.hello.SessionID == 0 {
		_ = nc.Close()
		return false
	}
	w.c = c
	w.t.Cleanup(func() { _ = nc.Close() })
	return true
}
