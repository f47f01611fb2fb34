package queue

import (
	"log/slog"
	"runtime"

	"github.com/go-curator/curator/framework"
)

// WarnIfDropped has the log warn when held, a lock or lease whose node is at path, is garbage collected
// before its session has ended. Release stops the cleanup that it returns.
func WarnIfDropped[T any](held *T, path string, session *framework.Session) runtime.Cleanup {
	d := dropped{path, session.Client().CleanupLogger(), session.Ended()}
	return runtime.AddCleanup(held, warnDropped, d)
}

// dropped is what the warning needs. It must not lead to the client: from there the user's hooks might lead
// to what is held, which would never be collected then.
type dropped struct {
	path  string
	log   *slog.Logger
	ended func() bool
}

// warnDropped only warns, since somebody may still work under the context. It runs on the collector's
// goroutine.
func warnDropped(d dropped) {
	if !d.ended() {
		d.log.Warn("a lock or lease was dropped without Release; it is held until its session ends", "path", d.path)
	}
}
