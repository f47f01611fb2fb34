package recipes

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
)

// long is kit.Context for a test that cuts connections all the time, which takes longer on a busy machine.
func long(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*kit.Patience)
	t.Cleanup(cancel)
	return ctx
}

// cutWhile cuts the connections through a cable again and again until done is closed, and returns how often.
// It cuts only when progress has grown since the last cut: on a machine that is so busy that nothing gets
// done between two cuts, what is tested has more time.
func cutWhile(cable *proxy.Proxy, done <-chan struct{}, progress *atomic.Int64) (cuts int) {
	const pause = 40 * time.Millisecond
	for before := progress.Load(); ; {
		select {
		case <-done:
			return cuts
		case <-time.After(pause):
		}
		if now := progress.Load(); now > before {
			before = now
			cable.Cut()
			cable.Heal()
			cuts++
		}
	}
}
