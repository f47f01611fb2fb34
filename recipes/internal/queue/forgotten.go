package queue

import (
	"log/slog"
	"runtime"

	"github.com/go-curator/curator/framework"
)

// Mind has the log warn when a lock or lease, whose node is at path, is garbage collected before its session has ended. Its Release stops what Mind returns.
func Mind[T any](held *T, path string, session *framework.Session) runtime.Cleanup {
	return runtime.AddCleanup(held, forgotten, trace{path, session.Client().CleanupLogger(), session.Ended()})
}

// trace is what remains of it. It does not lead to the client, and from there, over hooks and the like of the user's, perhaps to what is held, which would
// never be collected then.
type trace struct {
	path  string
	log   *slog.Logger
	ended func() bool
}

// forgotten only warns: somebody may still work under the context. It runs on the collector's goroutine and touches as little as possible.
func forgotten(t trace) {
	if !t.ended() {
		t.log.Warn("a lock or lease was dropped without Release; it is held until its session ends", "path", t.path)
	}
}
