package kit

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/zkserver"
)

// Metric is a number of the server's reply to mntr.
func Metric(t testing.TB, node *zkserver.Node, name string) int {
	t.Helper()
	return Metrics(t, node, name)[0]
}

// Metrics are numbers of one answer, so that they are of the same moment.
func Metrics(t testing.TB, node *zkserver.Node, names ...string) []int {
	t.Helper()
	var answer string
	Soon(t, "an answer to mntr", func() (answered bool) { // a busy machine may take longer than one try does
		var err error
		answer, err = node.FourLetter("mntr")
		return err == nil
	})
	told := map[string]string{}
	for line := range strings.Lines(answer) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "\t"); found {
			told[key] = strings.TrimSpace(value)
		}
	}
	all := make([]int, len(names))
	for i, name := range names {
		require.Contains(t, told, name, "no such metric in\n%s", answer)
		n, err := strconv.Atoi(told[name])
		require.NoError(t, err, name)
		all[i] = n
	}
	return all
}

// Watches returns the number of watches that the server keeps for all its clients.
func Watches(t testing.TB, node *zkserver.Node) int {
	t.Helper()
	return Metric(t, node, "zk_watch_count")
}
