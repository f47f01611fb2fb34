package differential

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

var (
	codes  = regexp.MustCompile(`(?m)^error (-?\d+) at`)
	events = regexp.MustCompile(`(?m)^event (\d) `)
)

// The histories cover everything: each operation succeeds, each error occurs, each kind of event arrives.
func TestHistoriesMeetWhatThereIs(t *testing.T) {
	host, err := NewHost(startInProcess(t, never, zktest.V39))
	require.NoError(t, err)
	done, failed, heard := map[string]int{}, map[string]int{}, map[string]int{}
	total, well := 0, 0
	for seed := range uint64(500) {
		ops := Random(seed)
		outcome, err := host.Run(ops)
		require.NoError(t, err)
		for i, op := range ops {
			total++
			for _, event := range events.FindAllStringSubmatch(outcome[i], -1) {
				heard[event[1]]++
			}
			code := codes.FindStringSubmatch(outcome[i])
			if len(code) == 0 {
				continue // an action, or not connected
			}
			if failed[code[1]]++; code[1] == "0" {
				done[op.Kind]++
				well++
			}
			if op.Kind == "multi" && strings.Contains(outcome[i], "type -1 ") {
				failed["in a multi"]++
			}
		}
	}
	require.NoError(t, host.Close())
	for _, kind := range slices.Compact(slices.Clone(mix)) {
		_, request := kinds[kind]
		if request && kind != "reconfig" && kind != "unknown" {
			assert.Positive(t, done[kind], "%s never succeeds", kind)
		}
	}
	for _, code := range []int32{jute.CodeNoNode, jute.CodeNoAuth, jute.CodeBadVersion,
		jute.CodeNoChildrenForEphemerals, jute.CodeNodeExists, jute.CodeNotEmpty,
		jute.CodeInvalidACL, jute.CodeAuthFailed, jute.CodeNoWatcher, jute.CodeReconfigDisabled,
		jute.CodeBadArguments, jute.CodeMarshallingError,
		jute.CodeUnimplemented, jute.CodeQuotaExceeded} {
		assert.Positive(t, failed[fmt.Sprint(code)], "error %d never comes", code)
	}
	assert.Positive(t, failed["in a multi"])
	assert.Len(t, heard, 4, "kinds of events")
	kit.Figure(t, "of %d operations in 500 histories %d%% succeed; errors %v; events %v", total, 100*well/total,
		failed, heard)
}
