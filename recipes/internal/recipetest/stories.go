package recipetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-curator/curator/zktest"
)

// CancelWhileTheServerHangs makes calls while the server hangs, and asserts that each returns when its
// context ends, and that nothing is left in the directories when the server is back.
func CancelWhileTheServerHangs(t *testing.T, s *zktest.Server, dirs []string, calls ...func(
	context.Context,
) error) {
	t.Helper()
	s.Pause()
	for i, call := range calls {
		const limit = 100 * time.Millisecond
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		err := call(ctx)
		cancel()
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != limit {
			t.Fatalf("call %d took %v and returned %v", i, took, err)
		}
	}
	s.Resume()
	time.Sleep(2 * time.Second)
	Clean(t, s, dirs...)
}

// Below is a random duration below most.
func Below(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most)))
}
