package keeper

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	for line, want := range map[string]parentMessage{
		Until(time.Second):   {until: time.Second},
		Until(-time.Second):  {},
		Pass(syscall.SIGHUP): {signal: syscall.SIGHUP},
	} {
		got, err := parseMessage(line[:len(line)-1])
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, line := range []string{"", "until", "until x", "until -1", "signal 0", "signal 1000", "stop 1"} {
		_, err := parseMessage(line)
		assert.Error(t, err, line)
	}
	for _, want := range []Report{{Started: 7}, {Failed: "no\nmemory"}, {Ended: true, Status: 143, Told: true}, {Ended: true}} {
		got, err := ParseReport(want.String())
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, line := range []string{"", "ended", "started x", "killed 1"} {
		_, err := ParseReport(line)
		assert.Error(t, err, line)
	}
}

func TestArguments(t *testing.T) {
	want := Job{
		Pipes: Pipes{Words: 7, Reports: 9}, Until: time.Hour, Grace: Grace{Term: time.Second, Kill: time.Millisecond},
		Path: "/bin/sh", Command: []string{"sh", "-c", "x"},
	}
	got, err := parseArguments(want.Arguments())
	require.NoError(t, err)
	assert.Equal(t, want, got)
	for _, args := range [][]string{nil, {Word}, {Word, "7", "9", "1", "2", "3", "/bin/sh"},
		{Word, "7", "9", "1", "2", "x", "/bin/sh", "sh"}, {Word, "7", "9", "-1", "2", "3", "/bin/sh", "sh"}} {
		_, err := parseArguments(args)
		assert.Error(t, err, args)
	}
}
