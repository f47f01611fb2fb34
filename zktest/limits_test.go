package zktest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

func TestConnectionsPerAddress(t *testing.T) {
	s := RunT(t, Config{MaxClientConns: 2})
	first := newRaw(t, s, 10*time.Second)
	newRaw(t, s, 10*time.Second)
	dialRaw(t, s).closed()
	assert.Equal(t, ok, first.code(jute.OpCloseSession))
	first.closed()
	newRaw(t, s, 10*time.Second)
	_, err := NewServer(Config{MaxClientConns: -1})
	require.Error(t, err)
}

func TestBytes(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	in, out := s.Bytes()
	assert.Equal(t, [2]int64{49, 41}, [2]int64{in, out}, "the handshake's frames")
	s.ResetCounts()
	c.call(jute.OpPing)
	in, out = s.Bytes()
	assert.Equal(t, [2]int64{12, 20}, [2]int64{in, out})
}

func TestSkewedClockExpiresEarlyOrLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		early := newRaw(t, s, 10*time.Second)
		start := time.Now()
		s.SkewClock(5 * time.Second)
		early.closed()
		assert.Equal(t, 7*time.Second, time.Since(start), "twelve, less five")
		s.SkewClock(0)
		late := newRaw(t, s, 10*time.Second)
		start = time.Now()
		s.SkewClock(-20 * time.Second)
		late.closed()
		assert.Greater(t, time.Since(start), 30*time.Second)
	})
}

func TestSlowApplyOfOneMemberIsNobodyElsesBusiness(t *testing.T) {
	bubble(t, 3, Config{Lag: time.Second}, func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		c := newRaw(t, leader, 10*time.Second)
		e.SetLag(0, time.Hour)
		start := time.Now()
		c.create("/a", 0)
		assert.Zero(t, time.Since(start))
		time.Sleep(time.Second + time.Millisecond)
		assert.True(t, followers[1].Exists("/a"))
		assert.False(t, followers[0].Exists("/a"))
	})
}

func TestPlayOfASchedule(t *testing.T) {
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		start := time.Now()
		var seen []time.Duration
		mark := func(at time.Duration) Step {
			note := func(*Ensemble) { seen = append(seen, time.Since(start)) }
			return Step{At: at, Name: at.String(), Do: note}
		}
		stop := func(e *Ensemble) { e.Member(e.Leader()).Stop() }
		dies := Step{At: 2 * time.Second, Name: "leader dies", Do: stop}
		require.NoError(t, e.Play(t.Context(), mark(5*time.Second), mark(time.Second), dies))
		assert.Equal(t, []time.Duration{time.Second, 5 * time.Second}, seen)
		assert.Equal(t, 1, e.Leader())
		assert.Contains(t, e.Trace(), "[0]    2.000000s #0 0x0 schedule: leader dies")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.True(t, errors.Is(e.Play(ctx, mark(time.Minute)), context.DeadlineExceeded))
		require.NoError(t, e.Heal())
		settle(t, e)
	})
}
