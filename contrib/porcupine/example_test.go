package porcupine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-curator/curator/contrib/porcupine"
	"github.com/go-curator/curator/zktest/chaos"
)

// Two processes add one to a number. World.History collects such operations in a run, and calls the function at its end.
func ExampleCheck() {
	check := porcupine.Check(porcupine.Counter())
	added := func(process string, from, to time.Duration, sum int64) chaos.Op {
		return chaos.Op{Process: process, Called: from, Returned: to, Input: porcupine.Add{N: 1}, Output: sum}
	}
	fmt.Println("both count:", check([]chaos.Op{added("a", 0, 2, 1), added("b", 1, 3, 2)}))

	err := check([]chaos.Op{added("a", 0, 1, 1), added("b", 2, 3, 1)})
	fmt.Println("one is forgotten:", errors.Is(err, porcupine.ErrNotLinearizable))
	if _, picture, found := strings.Cut(err.Error(), "see "); found { // the history as a picture
		_ = os.RemoveAll(filepath.Dir(picture))
	}
	// Output:
	// both count: <nil>
	// one is forgotten: true
}
