package zkcontainer

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

// The variables of the image that are built up piece by piece.
const (
	jvmFlags = "JVMFLAGS"
	extra    = "ZOO_CFG_EXTRA"
)

// WithTickTime sets the server's unit of time, whole milliseconds; 500 ms without it. It bounds session
// timeouts from below, at two ticks; from above they are bounded by a minute, whatever the tick.
func WithTickTime(tick time.Duration) testcontainers.CustomizeRequestOption {
	return func(req *testcontainers.GenericContainerRequest) error {
		if tick < time.Millisecond {
			return fmt.Errorf("zkcontainer: a tick of %v is less than a millisecond", tick)
		}
		set(req, "ZOO_TICK_TIME", strconv.FormatInt(tick.Milliseconds(), 10))
		return nil
	}
}

// WithSyncLimit sets how many ticks a member of an ensemble waits for its leader, or the leader for a quorum,
// before it gives up; 4 without it.
func WithSyncLimit(ticks int) testcontainers.CustomizeRequestOption {
	return func(req *testcontainers.GenericContainerRequest) error {
		if ticks < 1 {
			return fmt.Errorf("zkcontainer: a sync limit of %d ticks is less than one", ticks)
		}
		set(req, "ZOO_SYNC_LIMIT", strconv.Itoa(ticks))
		return nil
	}
}

// WithConfig adds lines to the configuration file, "key=value" each. The image cannot take blanks in them.
func WithConfig(lines ...string) testcontainers.CustomizeRequestOption {
	return func(req *testcontainers.GenericContainerRequest) error {
		for _, line := range lines {
			if key, _, found := strings.Cut(line, "="); !found || key == "" || strings.ContainsAny(line, " \t\r\n") {
				return fmt.Errorf("zkcontainer: %q is not key=value without blanks", line)
			}
		}
		add(req, extra, lines...)
		return nil
	}
}

// WithJVMFlags adds flags for the server's JVM, after those for a fast start. The image cannot take blanks
// in them.
func WithJVMFlags(flags ...string) testcontainers.CustomizeRequestOption {
	return func(req *testcontainers.GenericContainerRequest) error {
		for _, flag := range flags {
			if flag == "" || strings.ContainsAny(flag, " \t\r\n") {
				return fmt.Errorf("zkcontainer: %q is not one flag", flag)
			}
		}
		add(req, jvmFlags, flags...)
		return nil
	}
}

// defaults are for a server that is up fast and takes what tests ask for.
func defaults(req *testcontainers.GenericContainerRequest) error {
	set(req, "ZOO_TICK_TIME", "500")
	set(req, "ZOO_INIT_LIMIT", "10")
	set(req, "ZOO_SYNC_LIMIT", "4")
	set(req, "ZOO_MAX_CLIENT_CNXNS", "0")
	set(req, "ZOO_ADMINSERVER_ENABLED", "false")
	set(req, "ZOO_4LW_COMMANDS_WHITELIST", "*")
	add(req, extra, "maxSessionTimeout=60000")
	add(req, jvmFlags, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024") // tests lose no data in a power cut
	return nil
}

func set(req *testcontainers.GenericContainerRequest, key, value string) {
	if req.Env == nil {
		req.Env = map[string]string{}
	}
	req.Env[key] = value
}

func add(req *testcontainers.GenericContainerRequest, key string, values ...string) {
	set(req, key, strings.TrimSpace(req.Env[key]+" "+strings.Join(values, " ")))
}
