package cli

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersionOf(t *testing.T) {
	system := ", " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	for want, info := range map[string]*debug.BuildInfo{
		"(devel)": nil,
		"v1.2.3":  {Main: debug.Module{Version: "v1.2.3"}},
		"(devel), commit 1a2b with changes, 2026-01-02T03:04:05Z": {Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "1a2b"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: "true"}}},
		"v0.1.0, commit 1a2b": {Main: debug.Module{Version: "v0.1.0"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "1a2b"}, {Key: "vcs.modified", Value: "false"}}},
	} {
		assert.Equal(t, want+system, versionOf(info))
	}
}

// Lines of help fit into a terminal.
func TestExitCodesHelp(t *testing.T) {
	text := exitCodesHelp()
	for _, c := range exitCodes {
		assert.Contains(t, text, "\n  "+c.code+" ", c.code)
	}
	assert.NotRegexp(t, `(?m)^.{101,}$`, text)
}
