package zktest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// The client and the server each have a table of the operations. Both have the same operations and names, mark the same
// operations as changes, and know the same releases.
func TestTheTablesOfOperationsAgree(t *testing.T) {
	elsewhere := map[int32]string{ // than in operations
		jute.OpAuth: "the connection answers it", jute.OpSASL: "the connection answers it",
	}
	notSent := map[int32]string{ // by a client on its own
		jute.OpCheck: "part of a multi", jute.OpDeleteContainer: "the leader's", jute.OpCreateSession: "the handshake",
	}
	for code := int32(-20); code < 1000; code++ {
		name, served := wire.OpName(code), operations[code]
		_, known := operations[code]
		switch {
		case name == "":
			assert.Equal(t, notSent[code] != "", known, "operation %d: the client has no row for what the server serves", code)
			continue
		case elsewhere[code] != "":
		default:
			assert.True(t, known, "%s: the server does not serve it", name)
		}
		assert.Equal(t, name, opName(code))
		assert.Equal(t, code, opByName[name])
		changes := served.prepare != nil && code != jute.OpCloseSession // it has one outcome, whatever its reply
		assert.Equal(t, changes, wire.Mutates(code), name)
		assert.Equal(t, pathsOf(code), namedPaths(code, bodyOf(code)), name)
		for _, profile := range Profiles() {
			minor, err := strconv.Atoi(strings.Split(profile.String(), ".")[1])
			require.NoError(t, err)
			assert.Equal(t, minor < wire.Since(code), slices.Contains(behaviours[profile].unknown, code), "%s in %v", name, profile)
		}
	}
}

// bodyOf returns a request with the paths of pathsOf.
func bodyOf(code int32) []byte {
	switch code {
	case jute.OpMulti:
		return jute.Checks("/a", "/b")
	case jute.OpMultiRead:
		read := func(path string) jute.MultiOp {
			return jute.MultiOp{Op: jute.OpGetData, Request: &jute.PathWatchRequest{Path: path}}
		}
		return jute.Marshal(&jute.MultiRequest{Ops: []jute.MultiOp{read("/a"), read("/b")}})
	case jute.OpSetWatches, jute.OpSetWatches2:
		return jute.Marshal(&jute.SetWatches2{SetWatches: jute.SetWatches{Data: []string{"/a"}, Child: []string{"/b"}}})
	}
	return jute.Marshal(&jute.PathRequest{Path: "/a"})
}

func pathsOf(code int32) []string {
	switch code {
	case jute.OpPing, jute.OpAuth, jute.OpSASL, jute.OpCloseSession, jute.OpWhoAmI:
		return []string{}
	case jute.OpMulti, jute.OpMultiRead, jute.OpSetWatches, jute.OpSetWatches2:
		return []string{"/a", "/b"}
	}
	return []string{"/a"}
}
