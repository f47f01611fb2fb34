package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/compare/internal/judge"
	"github.com/go-curator/curator/compare/internal/play"
)

func TestPlan(t *testing.T) {
	cells, err := plan("curator,redis-set-px", "stopped,member-cut", 1, 3)
	require.NoError(t, err)
	var said []string
	for _, c := range cells {
		said = append(said, c.String())
	}
	assert.Equal(t, []string{"curator stopped 1", "redis-set-px stopped 1", "curator member-cut 1", "curator stopped 2",
		"curator member-cut 2", "curator stopped 3", "curator member-cut 3"}, said)
	assert.Equal(t, "results/curator--stopped--1.json", cells[0].file("results"))

	_, err = plan("nobody", "", 1, 1)
	assert.ErrorContains(t, err, `there is no way "nobody"`)
	_, err = plan("", "flood", 1, 1)
	assert.ErrorContains(t, err, `there is no fault "flood"`)
	all, err := plan("", "", 1, 1)
	require.NoError(t, err)
	files := map[string]bool{}
	for _, c := range all {
		files[c.file("")] = true
	}
	assert.Len(t, files, len(all), "each has a file of its own")
}

func TestWhatHoldsOnAnyMachine(t *testing.T) {
	two := []judge.Overlap{{After: time.Second}}
	assert.Error(t, checked(play.Result{Way: "curator"}))
	assert.Error(t, checked(play.Result{Way: "curator-guard", Verdict: judge.Verdict{Holds: 2, Overlaps: two}}))
	assert.Error(t, checked(play.Result{Way: "curator-fenced", Verdict: judge.Verdict{Holds: 2, Overlaps: two}}))
	assert.NoError(t, checked(play.Result{Way: "curator-guard", Verdict: judge.Verdict{Holds: 2}}))
	assert.NoError(t, checked(play.Result{Way: "go-zookeeper", Verdict: judge.Verdict{Holds: 2, Overlaps: two}}))
}

func TestCommands(t *testing.T) {
	assert.ErrorContains(t, command(nil), "say what to do")
	assert.ErrorContains(t, command([]string{"jump"}), "there is no command")
	assert.ErrorContains(t, command([]string{"page", "-results", t.TempDir()}), "compare run makes them")
}
