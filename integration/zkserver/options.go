package zkserver

import (
	"fmt"
	"strconv"
	"time"
)

// Options are the settings of a server. The zero value is a server with a tick
// of 500 ms, which grants session timeouts of 1 s to 10 s.
type Options struct {
	// Version is the release of the servers, such as 3.8.6, whose jars Maven has fetched; empty means the release of
	// ZK_VERSION (see ../setup).
	Version string
	// TickTime is the server's unit of time; 0 means 500 ms.
	TickTime time.Duration
	// SyncLimit is the time, in ticks, that a member of an ensemble waits for its leader, or the leader for a quorum,
	// before it gives up; 0 means 4.
	SyncLimit int
	// MinSessionTimeout and MaxSessionTimeout bound the session timeout that is
	// granted; 0 means ZooKeeper's own rule, 2 and 20 ticks.
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// ExtendedTypes allows TTL nodes.
	ExtendedTypes bool
	// ContainerCheckInterval is the time between two looks for empty containers
	// and outdated TTL nodes; 0 means ZooKeeper's own, one minute.
	ContainerCheckInterval time.Duration
	// JVMFlags are added after the flags for a fast start.
	JVMFlags []string
	// Config are lines added to the configuration file.
	Config []string
}

// AsUsual are the usual time limits of ensembles, as in ZooKeeper's own sample configuration: a tick of 2 s and a
// syncLimit of 5.
func AsUsual() Options { return Options{TickTime: 2 * time.Second, SyncLimit: 5} }

func (o Options) tick() time.Duration {
	if o.TickTime == 0 {
		return 500 * time.Millisecond
	}
	return o.TickTime
}

func (o Options) syncLimit() int {
	if o.SyncLimit == 0 {
		return 4
	}
	return o.SyncLimit
}

// config is the configuration file but for the addresses and the directory.
func (o Options) config() string {
	text := fmt.Sprintf("tickTime=%d\ninitLimit=10\nsyncLimit=%d\n", o.tick().Milliseconds(), o.syncLimit())
	text += "maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
	if o.MinSessionTimeout != 0 {
		text += fmt.Sprintf("minSessionTimeout=%d\n", o.MinSessionTimeout.Milliseconds())
	}
	if o.MaxSessionTimeout != 0 {
		text += fmt.Sprintf("maxSessionTimeout=%d\n", o.MaxSessionTimeout.Milliseconds())
	}
	for _, line := range o.Config {
		text += line + "\n"
	}
	return text
}

// standalone are the lines of a server that is alone.
func (o Options) standalone(port int) string {
	return fmt.Sprintf("clientPort=%d\nclientPortAddress=127.0.0.1\n", port)
}

// properties are the settings that ZooKeeper takes from the command line only.
func (o Options) properties() []string {
	flags := []string{
		// Tests lose no data in a power cut.
		"-Dzookeeper.forceSync=no",
		"-Dzookeeper.preAllocSize=1024",
		"-Dzookeeper.admin.enableServer=false",
		"-Dorg.slf4j.simpleLogger.logFile=System.out",
		// a line per poll, a stack per lost client
		"-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=error",
		"-Dorg.slf4j.simpleLogger.showShortLogName=true",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dzookeeper.extendedTypesEnabled=" + strconv.FormatBool(o.ExtendedTypes),
	}
	if o.ContainerCheckInterval != 0 {
		flags = append(flags, fmt.Sprintf("-Dznode.container.checkIntervalMs=%d",
			o.ContainerCheckInterval.Milliseconds()))
	}
	return append(flags, o.JVMFlags...)
}
