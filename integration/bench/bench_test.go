package bench_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/bench"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

var (
	rounds = flag.Int("rounds", 1, "how often each peer does each job, each time in another order")
	long   = flag.Duration("long", 400*time.Millisecond, "how long a job is measured")
	warm   = flag.Duration("warm", 200*time.Millisecond, "how long a job runs before it is measured")
	only   = flag.String("only", "", "a regular expression for the works that are done; all if it is empty")
	write  = flag.String("write", "", "the directory of the documents, whose measured.md gets the figures")
)

// work is a job, with the most requests and events that a cycle of this library may cost.
type work struct {
	name             string
	job              bench.Job
	peers            []string
	requests, events float64
}

var (
	all  = []string{curator, ours, unawaited, library, floor, piped}
	most = []string{curator, ours, unawaited, library}
	both = []string{curator, ours, unawaited}
	two  = []string{curator, ours}
)

const (
	curator   = "Curator"
	ours      = "curator-go"
	unawaited = "unawaited"
	library   = "go-zookeeper"
	floor     = "floor"
	piped     = "piped"
)

// The limits hold for runs without faults on any machine: on a busy one fewer of the contenders meet, which costs an
// event or a request more (ADRs 0005 and 0061). Tests in virtual time check the exact figures.
var works = []work{
	{"free", mutexes(1, 1, 0), all, 3, 0},
	{"8 sessions", mutexes(8, 8, 0), all, 5, 3},
	{"32 sessions", mutexes(32, 32, 0), all, 5, 3},
	{"8 sessions, each holds 2 ms", mutexes(8, 8, 2*time.Millisecond), all, 5, 3},
	{"32 sessions, each holds 2 ms", mutexes(32, 32, 2*time.Millisecond), all, 5, 3},
	{"8 goroutines, one session", mutexes(1, 8, 0), most, 5, 3},
	{"32 goroutines, one session", mutexes(1, 32, 0), most, 5, 3},
	{"8 goroutines, one lock object", shared(8), both, 5, 3},
	{"32 goroutines, one lock object", shared(32), both, 5, 3},
	{"semaphore, 16 sessions, 4 leases",
		bench.Job{Work: "semaphore", Sessions: 16, Contenders: 16, Leases: 4}, both, 7, 3},
	{"semaphore mutex, 8 sessions",
		bench.Job{Work: "semaphore-mutex", Sessions: 8, Contenders: 8, Leases: 1}, both, 7, 3},
	{"counter", numbers(1, 0), two, 1, 0},
	{"counter, 8 sessions", numbers(8, 0), two, 3, 0.5},
	{"counter, 32 sessions", numbers(32, 0), two, 4, 0.5},
	// The slower the server, the more of these race, whatever the client: as many as without a rest, at worst.
	{"counter, 8 sessions, each rests 20 ms", numbers(8, 20*time.Millisecond), two, 8, 1},
	{"simple queue, 1 producer and 1 consumer", items("simple", 1, 1), two, 5, 2},
	{"simple queue, 4 and 4", items("simple", 4, 1), two, 13, 2},
	{"queue, 1 producer and 1 consumer", items("queue", 1, 1), two, 4, 2},
	{"queue, 4 and 4", items("queue", 4, 1), two, 10, 4},
	{"queue, 1 and 1, 8 items at a time", items("queue", 1, 8), two, 1.5, 0.5},
	{"double barrier, 16 sessions",
		bench.Job{Work: "barrier", Sessions: 16, Contenders: 16, Leases: 16}, two, 13, 4},
}

// items has consumers, each with a producer that puts so many items at a time.
func items(work string, consumers, batch int) bench.Job {
	return bench.Job{Work: work, Sessions: consumers, Contenders: consumers, Leases: batch}
}

func mutexes(sessions, contenders int, hold time.Duration) bench.Job {
	return bench.Job{Work: "mutex", Sessions: sessions, Contenders: contenders, Leases: 1, Hold: hold}
}

func shared(contenders int) bench.Job {
	return bench.Job{Work: "shared", Sessions: 1, Contenders: contenders, Leases: 1}
}

func numbers(sessions int, rest time.Duration) bench.Job {
	return bench.Job{Work: "counter", Sessions: sessions, Contenders: sessions, Hold: rest}
}

func TestPeers(t *testing.T) {
	works := slices.DeleteFunc(slices.Clone(works), func(w work) bool {
		return !regexp.MustCompile(*only).MatchString(w.name)
	})
	program := build(t)
	results := table{}
	for _, disk := range []bool{false, true} {
		if disk && *rounds == 1 {
			break // the waits for the disk do not matter for the requests
		}
		sync := map[bool]string{false: "no", true: "yes"}[disk]
		node := zkserver.Start(t, zkserver.Options{
			TickTime: 2 * time.Second, MaxSessionTimeout: kit.Patience,
			JVMFlags: []string{
				"-XX:TieredStopAtLevel=4", "-Xmx1g",
				"-Dzookeeper.preAllocSize=65536", "-Dzookeeper.forceSync=" + sync,
			},
		})
		server := func() (received, sent int) {
			both := kit.Metrics(t, node, "zk_packets_received", "zk_packets_sent")
			return both[0], both[1]
		}
		peers := map[string]peer{curator: startJava(t, node.Addr())}
		for _, name := range []string{ours, unawaited, library, floor, piped} {
			peers[name] = startGo(t, program, name, node.Addr())
		}
		for i, w := range works {
			if disk && (w.job.Hold > 0 || w.job.Sessions < w.job.Contenders ||
				slices.Contains([]string{"simple", "queue", "barrier"}, w.job.Work)) {
				continue
			}
			for round := range *rounds {
				for _, which := range rand.Perm(len(w.peers)) {
					name := w.peers[which]
					job := w.job
					job.Path = fmt.Sprintf("/bench/%d/%s-%d", i, name, round)
					ctx, cancel := context.WithTimeout(t.Context(), kit.Patience+*long)
					m, err := measure(ctx, peers[name], job, server, *warm, *long)
					cancel()
					require.NoError(t, err, "%s: %s", w.name, name)
					results.add(w.name, name, disk, m)
				}
			}
			results.report(t, w, disk)
		}
		node.Stop()
	}
	for _, w := range works {
		m := results.median(w.name, ours, false)
		// A tenth more is for pings, and each contender may be in the middle of a cycle at a mark. At a mark some
		// packets of neither cycle are counted.
		more := 1.1 + float64(w.job.Contenders)/float64(m.Cycles)
		marks := 10/float64(m.Cycles) + 0.05
		assert.LessOrEqual(t, m.requests, w.requests*more+marks, "requests a cycle: %s", w.name)
		assert.LessOrEqual(t, m.events, w.events*more+marks, "events a cycle: %s", w.name)
		for _, name := range w.peers {
			assert.Zero(t, results.overlaps(w.name, name), "%s: %s", w.name, name)
		}
	}
	if *write != "" && *only == "" {
		require.NoError(t, results.write(*write))
	}
}
