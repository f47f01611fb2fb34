package mutex

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-curator/curator/integration/internal/kit"
)

const tick = 200 * time.Millisecond

func TestMain(m *testing.M) {
	kit.Hold()
	goleak.VerifyTestMain(m)
}
