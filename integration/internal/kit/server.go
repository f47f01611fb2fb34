package kit

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/zkserver"
)

// Metric is a number that the server tells in its answer to mntr.
func Metric(t testing.TB, node *zkserver.Node, name string) int {
	t.Helper()
	var answer string
	Soon(t, "an answer to mntr", func() (answered bool) { // a busy machine may take longer than one try does
		var err error
		answer, err = node.FourLetter("mntr")
		return err == nil
	})
	for line := range strings.Lines(answer) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "\t"); found && key == name {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			require.NoError(t, err)
			return n
		}
	}
	require.FailNow(t, "no such metric", "%s in\n%s", name, answer)
	return 0
}

// Watches is how many watches the server keeps for all its clients.
func Watches(t testing.TB, node *zkserver.Node) int {
	t.Helper()
	return Metric(t, node, "zk_watch_count")
}
