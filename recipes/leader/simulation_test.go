package leader_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/zktest"
)

// history has the interval of every term: from the moment at which the leader had it in hand to the end of
// its context.
type history struct {
	mu    sync.Mutex
	terms []*interval
}

type interval struct {
	term       *leader.Term
	begin, end time.Time
}

func (h *history) began(t *testing.T, term *leader.Term) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if term.Context().Err() != nil {
		return // it was over before anybody had it
	}
	now := &interval{term: term, begin: time.Now()}
	if n := len(h.terms); n > 0 {
		last := h.terms[n-1]
		if last.term == term {
			return // Await has returned it once more
		}
		assert.Error(t, last.term.Context().Err(), "%s leads while %s does", term.Node(), last.term.Node())
		if last.term.Node() == term.Node() {
			assert.Equal(t, last.term.FencingToken(), term.FencingToken())
		} else {
			assert.Greater(t, term.FencingToken(), last.term.FencingToken())
		}
	}
	h.terms = append(h.terms, now)
	context.AfterFunc(term.Context(), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		now.end = time.Now()
	})
}

// disjoint asserts that no two terms overlap, by the clock. A term has an end unless it is the last.
func (h *history) disjoint(t *testing.T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, now := range h.terms {
		if i == 0 {
			continue
		}
		last := h.terms[i-1]
		assert.False(t, last.end.IsZero(), "%s never ended", last.term.Node())
		assert.False(t, last.end.After(now.begin), "%s led until %v, %s from %v", last.term.Node(), last.end, now.term.Node(), now.begin)
	}
}

// Latches, and selectors with functions of all speeds, and a network and a server that misbehave at random.
// Whatever happens: terms never overlap, tokens grow, somebody leads in the end, and nothing is left. A
// failing seed fails again.
func TestSimulation(t *testing.T) {
	for _, kind := range []string{"latch", "selector"} {
		t.Run(kind, func(t *testing.T) {
			recipetest.Seeds(t, 15, func(t *testing.T, seed uint64) { simulate(t, kind, seed) })
		})
	}
}

func simulate(t *testing.T, kind string, seed uint64) {
	const participants = 4
	var cfg zktest.Config
	if seed%3 == 0 {
		cfg.EnsembleConfig = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nversion=0" // for these timeouts that means heartbeats
	}
	s := zktest.RunT(t, cfg)
	random := rand.New(rand.NewPCG(seed, 0))
	var h history
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(background)
	clients := make([]*framework.Client, participants)
	for i := range participants {
		clients[i] = newClient(t, s, framework.WithSessionTimeout(4*time.Second))
		var opts []leader.Option
		if seed%2 == 0 {
			opts = append(opts, leader.WithLossPolicy(framework.SessionOnly))
		}
		r := rand.New(rand.NewPCG(seed, uint64(i)+1))
		run := takeTurns
		if kind == "selector" {
			run = runSelector
		}
		wg.Go(func() { run(ctx, t, clients[i], r, &h, opts) })
	}
	calm := recipetest.Trouble(t, s, random, clients)
	time.Sleep(90 * time.Second)
	calm()
	time.Sleep(time.Minute)
	h.mu.Lock()
	grants := len(h.terms)
	h.mu.Unlock()
	assert.Greater(t, grants, 5)
	stop()
	wg.Wait()
	time.Sleep(20 * time.Second) // clean-ups, and sessions of the dead
	h.disjoint(t)
	clean(t, s)
	recipetest.Tidy(t, clients...)
}

// takeTurns is the life of a latch's owner: it resigns, leaves and comes back.
func takeTurns(ctx context.Context, t *testing.T, c *framework.Client, r *rand.Rand, h *history, opts []leader.Option) {
	for ctx.Err() == nil {
		l, err := leader.NewLatch(c, path, opts...)
		if !assert.NoError(t, err) {
			return
		}
		for range 1 + r.IntN(4) {
			waiting, cancel := context.WithTimeout(ctx, recipetest.Below(r, time.Minute))
			term, err := l.Await(waiting)
			cancel()
			if err != nil {
				assert.ErrorIs(t, err, waiting.Err(), "nothing else ends the wait here")
				break
			}
			h.began(t, term)
			recipetest.Work(term.Context(), r, 3*time.Second)
			if r.IntN(2) == 0 {
				resigning, cancel := context.WithTimeout(ctx, recipetest.Below(r, 5*time.Second))
				_ = term.Resign(resigning) // however it ends
				cancel()
			}
		}
		leaving, cancel := context.WithTimeout(background, recipetest.Below(r, 5*time.Second))
		_ = l.Leave(leaving, leader.Silent)
		cancel()
		assert.NoError(t, l.Close())
	}
}

// runSelector is a selector whose function is slow to end now and then.
func runSelector(ctx context.Context, t *testing.T, c *framework.Client, r *rand.Rand, h *history, opts []leader.Option) {
	running := 0
	sel := leader.NewSelector(c, path, func(ctx context.Context) error {
		running++
		assert.Equal(t, 1, running)
		defer func() { running-- }()
		h.began(t, leader.TermOf(ctx))
		recipetest.Work(ctx, r, 3*time.Second)
		if ctx.Err() != nil && r.IntN(3) == 0 {
			time.Sleep(recipetest.Below(r, 8*time.Second))
		}
		return nil
	}, opts...)
	for ctx.Err() == nil {
		running, cancel := context.WithTimeout(ctx, recipetest.Below(r, time.Minute))
		assert.ErrorIs(t, sel.Run(running), running.Err())
		cancel()
	}
}
