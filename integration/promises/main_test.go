package promises

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-curator/curator/integration/internal/kit"
)

// tick is short, so that the servers expire sessions almost as early as they may: the worst case for promise
// P1.
const (
	tick    = 100 * time.Millisecond
	timeout = 4 * time.Second
)

func TestMain(m *testing.M) {
	kit.Hold()
	goleak.VerifyTestMain(m)
}
