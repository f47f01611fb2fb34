package recipes

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/leader"
)

// candidate takes part in an election, in either language.
type candidate struct {
	id string
	// join adds it to the end of the line.
	join func(ctx context.Context) error
	// lead waits until it leads, and returns when that was.
	lead  func(ctx context.Context) (time.Time, error)
	leads func(ctx context.Context) (bool, error)
	// ids returns the participants as it sees them, the leader first.
	ids func(ctx context.Context) ([]string, error)
	// step ends its term; rejoins means that it then joins the line again by itself.
	step    func(ctx context.Context) error
	rejoins bool
	close   func(ctx context.Context) error
}

func ids(participants []leader.Participant, err error) (all []string, _ error) {
	for _, p := range participants {
		all = append(all, p.ID)
	}
	return all, err
}

func goLatch(client *framework.Client, path, id string) *candidate {
	var l *leader.Latch
	return &candidate{
		id: id,
		join: func(context.Context) (err error) {
			l, err = leader.NewLatch(client, path, leader.WithID(id))
			return err
		},
		lead: func(ctx context.Context) (time.Time, error) {
			_, err := l.Await(ctx)
			return time.Now(), err
		},
		leads: func(context.Context) (bool, error) { return l.HasLeadership(), nil },
		ids:   func(ctx context.Context) ([]string, error) { return ids(l.Participants(ctx)) },
		step:  func(ctx context.Context) error { return l.Leave(ctx, leader.NotifyLeader) },
		close: func(context.Context) error { return l.Close() },
	}
}

func javaLatch(peer *javapeer.Peer, path, id string) *candidate {
	var l *javapeer.Candidate
	round := 0
	return &candidate{
		id: id,
		join: func(ctx context.Context) (err error) {
			round++
			l, err = peer.Latch(ctx, path+" "+id+" "+string(rune('a'+round)), path, id)
			return err
		},
		lead:  func(ctx context.Context) (time.Time, error) { return l.AwaitLeader(ctx) },
		leads: func(ctx context.Context) (bool, error) { return l.Leads(ctx) },
		ids:   func(ctx context.Context) ([]string, error) { return l.Participants(ctx) },
		step:  func(ctx context.Context) error { return l.Close(ctx) },
		close: func(ctx context.Context) error { return l.Close(ctx) },
	}
}

func goSelector(t *testing.T, client *framework.Client, path, id string) *candidate {
	var owner sync.WaitGroup
	led, resign := make(chan time.Time, 1), make(chan struct{})
	s := leader.NewSelector(client, path, func(ctx context.Context) error {
		led <- time.Now()
		select {
		case <-resign:
		case <-ctx.Done():
		}
		return nil
	}, leader.WithID(id))
	ctx, stop := context.WithCancel(kit.Context(t))
	t.Cleanup(func() { stop(); owner.Wait() })
	return &candidate{
		id: id,
		join: func(context.Context) error {
			owner.Go(func() { assert.ErrorIs(t, s.Run(ctx), context.Canceled) })
			return nil
		},
		lead:    func(context.Context) (time.Time, error) { return kit.Receive(t, id+" leads", led), nil },
		leads:   func(context.Context) (bool, error) { return s.HasLeadership(), nil },
		ids:     func(ctx context.Context) ([]string, error) { return ids(s.Participants(ctx)) },
		step:    func(context.Context) error { resign <- struct{}{}; return nil },
		rejoins: true,
		close:   func(context.Context) error { stop(); owner.Wait(); return nil },
	}
}

// goCampaign joins the election again for each term.
func goCampaign(t *testing.T, client *framework.Client, path, id string) *candidate {
	var owner sync.WaitGroup
	var term *leader.Term
	terms := make(chan *leader.Term, 1)
	list := leader.NewSelector(client, path, func(context.Context) error { return nil })
	ctx, stop := context.WithCancel(kit.Context(t))
	t.Cleanup(func() { stop(); owner.Wait() })
	return &candidate{
		id: id,
		join: func(context.Context) error {
			owner.Go(func() {
				next, err := leader.Campaign(ctx, client, path, leader.WithID(id))
				if err == nil {
					terms <- next
				} else {
					assert.ErrorIs(t, err, context.Canceled)
				}
			})
			return nil
		},
		lead: func(context.Context) (time.Time, error) {
			term = kit.Receive(t, id+" leads", terms)
			return time.Now(), nil
		},
		leads: func(context.Context) (bool, error) { return term != nil && term.Valid(), nil },
		ids:   func(ctx context.Context) ([]string, error) { return ids(list.Participants(ctx)) },
		step:  func(ctx context.Context) error { return term.Resign(ctx) },
		close: func(ctx context.Context) error {
			stop()
			owner.Wait()
			select {
			case term = <-terms:
				return term.Resign(ctx)
			default:
				return nil
			}
		},
	}
}

func javaSelector(peer *javapeer.Peer, path, id string) *candidate {
	var s *javapeer.Candidate
	leads := false
	return &candidate{
		id: id,
		join: func(ctx context.Context) (err error) {
			s, err = peer.Selector(ctx, path+" "+id, path, id)
			return err
		},
		lead: func(ctx context.Context) (time.Time, error) {
			at, err := s.AwaitLeader(ctx)
			leads = err == nil
			return at, err
		},
		leads:   func(context.Context) (bool, error) { return leads, nil },
		ids:     func(ctx context.Context) ([]string, error) { return s.Participants(ctx) },
		step:    func(ctx context.Context) error { leads = false; return s.Resign(ctx) },
		rejoins: true,
		close:   func(ctx context.Context) error { return s.Close(ctx) },
	}
}

// Go and Java lead in turn, in the order of the line; all of them, and an observer, see the same leader and the same
// participants.
func TestElections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second := w.golang(t)
	t.Run("latch", func(t *testing.T) {
		kit.Interop(t, "leader latch", kit.Mixed)
		const path = "/elections/latch"
		elect(t, w, path, []string{
			` persistent ""`, `/_c_GUID-latch-0000000000 ephemeral "go 1"`,
			`/_c_GUID-latch-0000000001 ephemeral "java 1"`,
			`/_c_GUID-latch-0000000002 ephemeral "go 2"`, `/_c_GUID-latch-0000000003 ephemeral "java 2"`,
		}, goLatch(w.client, path, "go 1"), javaLatch(w.peer, path, "java 1"), goLatch(second, path, "go 2"),
			javaLatch(w.peer, path, "java 2"))
	})
	t.Run("selector", func(t *testing.T) {
		kit.Interop(t, "leader selector", kit.Mixed)
		const path = "/elections/selector"
		elect(t, w, path, []string{
			` persistent ""`, `/_c_GUID-lock-0000000000 ephemeral "java 1"`,
			`/_c_GUID-lock-0000000001 ephemeral "go 1"`,
			`/_c_GUID-lock-0000000002 ephemeral "java 2"`, `/_c_GUID-lock-0000000003 ephemeral "go 2"`,
		}, javaSelector(w.peer, path, "java 1"), goSelector(t, w.client, path, "go 1"),
			javaSelector(w.peer, path, "java 2"), goCampaign(t, second, path, "go 2"))
	})
}

func elect(t *testing.T, w *world, path string, layout []string, line ...*candidate) {
	const rounds = 4
	ctx := kit.Context(t)
	for i, c := range line {
		require.NoError(t, c.join(ctx))
		w.count(t, path, i+1)
	}
	assert.Equal(t, layout, w.nodes(t, path))
	observed := make(chan string, 100)
	var observer sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	defer observer.Wait()
	defer stop()
	observer.Go(func() {
		for o, err := range leader.Observe(watching, w.client, path) {
			if err == nil && !o.Nobody {
				observed <- o.Leader.ID
			}
		}
	})
	var ended time.Time // of the last term
	for range rounds * len(line) {
		first := line[0]
		from, err := first.lead(ctx)
		require.NoError(t, err, first.id)
		assert.False(t, from.Before(ended), "%s leads beside the leader before it", first.id)
		var want []string
		for _, c := range line {
			want = append(want, c.id)
			leads, err := c.leads(ctx)
			require.NoError(t, err)
			assert.Equal(t, c == first, leads, "%s leads, says %s", first.id, c.id)
		}
		for _, c := range line {
			kit.Soon(t, "the same line seen by "+c.id, func() bool {
				got, err := c.ids(ctx)
				return assert.NoError(t, err) && slices.Equal(want, got)
			})
		}
		assert.Equal(t, first.id, kit.Receive(t, "what the observer sees", observed))
		ended = time.Now()
		require.NoError(t, first.step(ctx))
		if !first.rejoins {
			require.NoError(t, first.join(ctx))
		}
		line = append(line[1:], first)
	}
	for _, c := range slices.Backward(line) {
		require.NoError(t, c.close(ctx))
	}
	w.gone(t, path)
}
