//go:build !race

package snippets

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest/chaos"
)

// Not with the race detector, which finds races of go-zookeeper's own (recvLoop and sendSetWatches).
func TestBareInvoices(t *testing.T) {
	found := chaos.Find(t, bareInvoices, chaos.Config{Count: 10_000, Shrink: -1})
	require.NotNil(t, found, "go-zookeeper's lock cannot tell that it is lost")
	t.Log(found.Report)
	// Two have the lock; or one waits for ever for a node that a lost reply has left.
	assert.Contains(t, []string{"sending", "stop"}, found.Violation.Check)
}
