package zkcontainer

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// OwnerLabel is on every container and network of this package. Its value names the process that made it.
const OwnerLabel = "io.github.go-curator.zkcontainer.owner"

// strangersAge is the age at which containers of a process that cannot be looked for from here are taken for left
// behind.
const strangersAge = 2 * time.Hour

// owner is a process that has made containers.
type owner struct {
	home  string // where process ids mean the same as here
	pid   int
	start string // distinguishes it from others that had the same id before or after
}

var self = sync.OnceValue(func() owner { return owner{home(), os.Getpid(), startOf(os.Getpid())} })

func labels() map[string]string { return map[string]string{OwnerLabel: self().String()} }

func (o owner) String() string { return fmt.Sprintf("%s_%d_%s", o.home, o.pid, o.start) }

func parseOwner(value string) (owner, error) {
	part := strings.Split(value, "_")
	if len(part) != 3 {
		return owner{}, fmt.Errorf("%q is not an owner", value)
	}
	pid, err := strconv.Atoi(part[1])
	return owner{part[0], pid, part[2]}, err
}

// gone reports whether a container that the owner made at an instant is left behind.
func (o owner) gone(made time.Time) bool {
	if canTell && o.home != "" && o.home == home() {
		start := startOf(o.pid)
		return start == "" || start != o.start
	}
	return time.Since(made) > strangersAge
}
