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

// ErrNotLinearizable is the error of a check by [Check]: the model allows no order of the operations.
var ErrNotLinearizable = errors.New("porcupine: the history is not linearizable")

// checkLimit is the longest time for a check. It is plenty, since the history of one run is short.
const checkLimit = time.Minute

// Check returns a check for [chaos.World.History]. An operation with an unknown outcome may have been executed at any
// later time, or never. If the history is not linearizable the error matches [ErrNotLinearizable], and has the path of a
// file with porcupine's picture of the history. A check of more than a minute fails.
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
		result, info := checker.CheckOperationsVerbose(model, history, checkLimit)
		switch result {
		case checker.Ok:
			return nil
		case checker.Unknown:
			return fmt.Errorf("porcupine: checking %d operations took longer than %v", len(ops), checkLimit)
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
