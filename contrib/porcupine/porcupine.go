package porcupine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	checker "github.com/anishathalye/porcupine"

	"github.com/go-curator/curator/zktest/chaos"
)

// ErrNotLinearizable is returned by [Check]: no order of the operations makes sense.
var ErrNotLinearizable = errors.New("porcupine: the history is not linearizable")

// limit bounds a check. Histories of one run are short.
const limit = time.Minute

// Check makes a check for [chaos.World.History]. An operation with an unknown outcome may have taken effect
// at any later time, or never. When the history makes no sense the error names a file with porcupine's
// picture of it.
func Check(model checker.Model) func([]chaos.Op) error {
	return func(ops []chaos.Op) error {
		clients := map[string]int{}
		history := make([]checker.Operation, 0, len(ops))
		for _, op := range ops {
			if _, known := clients[op.Process]; !known {
				clients[op.Process] = len(clients)
			}
			returned := int64(op.Returned)
			if op.Returned == chaos.Never {
				returned = math.MaxInt64
			}
			history = append(history, checker.Operation{ClientId: clients[op.Process], Input: op.Input,
				Call: int64(op.Called), Output: op.Output, Return: returned})
		}
		result, info := checker.CheckOperationsVerbose(model, history, limit)
		switch result {
		case checker.Ok:
			return nil
		case checker.Unknown:
			return fmt.Errorf("porcupine: checking %d operations took longer than %v", len(ops), limit)
		}
		dir, err := os.MkdirTemp("", "chaos-history-")
		if err != nil {
			return fmt.Errorf("%w (cannot write the picture: %v)", ErrNotLinearizable, err)
		}
		picture := filepath.Join(dir, "history.html")
		if err := checker.VisualizePath(model, info, picture); err != nil {
			return fmt.Errorf("%w (cannot write the picture: %v)", ErrNotLinearizable, err)
		}
		return fmt.Errorf("%w: see %s", ErrNotLinearizable, picture)
	}
}
