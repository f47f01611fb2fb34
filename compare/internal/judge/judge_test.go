package judge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/compare/internal/ledger"
)

const ms = time.Millisecond

// say makes lines of "who hold event" at the given milliseconds.
type script struct{ lines []ledger.Line }

func (s *script) at(t int, who string, hold int, event ledger.Event) *script {
	s.lines = append(s.lines, ledger.Line{At: time.Duration(t) * ms, Who: who, Hold: hold, Event: event})
	return s
}

func (s *script) order(t int, who string, hold int, order int64) *script {
	s.lines = append(s.lines, ledger.Line{At: time.Duration(t) * ms, Who: who, Hold: hold, Event: ledger.Act, Order: order})
	return s
}

func (s *script) hold(who string, n, from, to int) *script {
	return s.at(from, who, n, ledger.Begin).at(from+1, who, n, ledger.Act).at(to-1, who, n, ledger.Act).at(to, who, n, ledger.End)
}

func TestTurnsDoNotOverlap(t *testing.T) {
	v := Judge(new(script).hold("a", 1, 10, 20).hold("b", 1, 21, 30).hold("a", 2, 31, 40).lines)
	assert.Equal(t, Verdict{Holds: 3}, v)
}

func TestNothingIsNothing(t *testing.T) { assert.Zero(t, Judge(nil)) }

func TestAnOverlapHasTheTimesOfBoth(t *testing.T) {
	v := Judge(new(script).at(0, "a", 0, ledger.Want).hold("a", 1, 10, 50).hold("b", 1, 30, 70).lines)
	require.Len(t, v.Overlaps, 1)
	assert.Equal(t, Overlap{"a's hold 1", "b's hold 1", 10 * ms, 49 * ms, 30 * ms, 69 * ms, 19 * ms, 19 * ms, 1}, v.Overlaps[0])
	assert.Equal(t, 19*ms, v.Longest())
	assert.Equal(t, 1, v.ActsAfterLoss)
	assert.Equal(t, 1, v.Never)
	assert.Equal(t, "a's hold 1 from 10ms to 49ms, b's hold 1 from 30ms to 69ms: both for 19ms, 1 acts too late",
		v.Overlaps[0].String())
}

// A process that was stopped, and goes on when the next holder has come and gone, still was inside with it.
func TestOneThatCameAndWent(t *testing.T) {
	v := Judge(new(script).hold("a", 1, 10, 100).hold("b", 1, 40, 50).hold("c", 1, 60, 70).lines)
	require.Len(t, v.Overlaps, 2)
	assert.Equal(t, 9*ms, v.Overlaps[0].Length)
	assert.Equal(t, 59*ms, v.Longest(), "it went on, when b was gone, too")
	assert.Equal(t, 1, v.ActsAfterLoss, "the one late act counts once")
}

func TestTold(t *testing.T) {
	s := new(script).at(10, "a", 1, ledger.Begin).at(11, "a", 1, ledger.Act).at(20, "a", 1, ledger.Told).at(20, "a", 1, ledger.End)
	v := Judge(s.hold("b", 1, 30, 40).lines)
	assert.Equal(t, 1, v.InTime)
	assert.Empty(t, v.Overlaps)

	// It was stopped, b was granted the lock, and it did nothing before it was told.
	s = new(script).at(10, "a", 1, ledger.Begin).at(11, "a", 1, ledger.Act).at(50, "a", 1, ledger.Told)
	v = Judge(s.hold("b", 1, 30, 40).lines)
	assert.Equal(t, 1, v.InTime)
	assert.Empty(t, v.Overlaps)

	s = new(script).at(10, "a", 1, ledger.Begin).at(45, "a", 1, ledger.Act).at(50, "a", 1, ledger.Told)
	v = Judge(s.hold("b", 1, 30, 40).lines)
	assert.Equal(t, 1, v.Late)
	assert.Len(t, v.Overlaps, 1)
}

func TestOneThatWasKilledNeededNoTelling(t *testing.T) {
	s := new(script).at(10, "a", 1, ledger.Begin).at(11, "a", 1, ledger.Act).at(12, "x", 0, ledger.Fault)
	v := Judge(s.hold("b", 1, 30, 40).lines)
	assert.Empty(t, v.Overlaps)
	assert.Zero(t, v.InTime+v.Late+v.Never)
	assert.Equal(t, 18*ms, v.Next)
	assert.Equal(t, 18*ms, v.Gap)
}

// Where the store orders the acts, the stamps say nothing: the answer to a's act came late.
func TestTheStoresOrderDecides(t *testing.T) {
	s := new(script).at(10, "a", 1, ledger.Begin).order(50, "a", 1, 3)
	s.at(30, "b", 1, ledger.Begin).order(31, "b", 1, 5).at(60, "b", 1, ledger.End)
	assert.Empty(t, Judge(s.lines).Overlaps)

	s.order(55, "a", 1, 6)
	assert.Len(t, Judge(s.lines).Overlaps, 1)
	assert.Equal(t, 1, Judge(s.lines).ActsAfterLoss)
}

func TestNobodyHasTheLock(t *testing.T) {
	s := new(script).hold("a", 1, 10, 20).at(15, "x", 0, ledger.Fault).at(100, "x", 0, ledger.Heal)
	v := Judge(s.hold("b", 1, 120, 130).hold("a", 2, 131, 140).lines)
	assert.Equal(t, 101*ms, v.Gap)
	assert.Equal(t, 105*ms, v.Next)
	assert.Equal(t, 2, v.AfterHeal)

	v = Judge(new(script).hold("a", 1, 10, 20).at(15, "x", 0, ledger.Fault).at(100, "b", 0, ledger.Want).lines)
	assert.Zero(t, v.Next, "nobody came")
	assert.Equal(t, 81*ms, v.Gap)
}

func TestNextIsNotTheHolderItself(t *testing.T) {
	s := new(script).hold("a", 1, 10, 20).at(15, "x", 0, ledger.Fault).hold("a", 2, 21, 30)
	v := Judge(s.hold("b", 1, 31, 40).lines)
	assert.Equal(t, 16*ms, v.Next)
}

func TestAStoreThatLostItsDataCountsAnew(t *testing.T) {
	s := new(script).at(10, "a", 1, ledger.Begin).order(20, "a", 1, 1000).at(25, "a", 1, ledger.Told)
	assert.Empty(t, Judge(s.at(30, "b", 1, ledger.Begin).order(31, "b", 1, 5).lines).Overlaps)
}
