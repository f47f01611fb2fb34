package histories

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// never is the return time of an operation whose outcome is unknown.
const never = math.MaxInt64

const nobody = -1

func begin(name string, model porcupine.Model, c clock) *history {
	h := &history{name: name, model: model, clock: c}
	h.prey.Store(nobody)
	return h
}

// clock is the one clock of all histories: nanoseconds since its creation.
type clock time.Time

func (c clock) now() int64 { return time.Since(time.Time(c)).Nanoseconds() }

// history has the operations on one thing. It is safe for concurrent use.
type history struct {
	name  string
	model porcupine.Model
	clock clock
	// prey is the client that is about to hold for long, or the constant nobody.
	prey atomic.Int32

	mu  sync.Mutex
	ops []porcupine.Operation
}

func (h *history) add(who int, call int64, input, output any, back int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: who, Call: call, Input: input, Output: output,
		Return: back})
}

// count counts operations.
func (h *history) count(counts func(porcupine.Operation) bool) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range h.ops {
		if counts(op) {
			n++
		}
	}
	return n
}

// verdict returns porcupine's result, and the file of the picture unless the result is Ok.
func (h *history) verdict(
	t *testing.T, dir func(*testing.T) string, notes []porcupine.Annotation,
) (porcupine.CheckResult, string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	result, info := porcupine.CheckOperationsVerbose(h.model, h.ops, time.Minute)
	if result == porcupine.Ok {
		return result, ""
	}
	info.AddAnnotations(notes)
	file := filepath.Join(dir(t), strings.ReplaceAll(t.Name()+"-"+h.name, "/", "-")+".html")
	require.NoError(t, porcupine.VisualizePath(h.model, info, file))
	return result, file
}

// check fails the test unless the history fulfills its model.
func (h *history) check(t *testing.T, notes []porcupine.Annotation) {
	t.Helper()
	if result, picture := h.verdict(t, artifacts, notes); result != porcupine.Ok {
		assert.Fail(t, "the history makes no sense", "%s: %s; see %s", h.name, result, picture)
	}
}

// artifacts returns the directory for pictures. It is created for the first picture, and kept.
var artifacts = func() func(t *testing.T) string {
	var once sync.Once
	dir := os.Getenv("CURATOR_TEST_ARTIFACTS")
	return func(t *testing.T) string {
		once.Do(func() {
			var err error
			if dir == "" {
				dir, err = os.MkdirTemp("", "curator-histories-")
			} else {
				err = os.MkdirAll(dir, 0o755)
			}
			require.NoError(t, err)
		})
		return dir
	}
}()
