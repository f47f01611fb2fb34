//go:build linux || darwin

package cli_test

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cmd/internal/clock"
	"github.com/go-curator/curator/cmd/internal/keeper"
	"github.com/go-curator/curator/zktest"
)

// docs/cli.md explains how to use these flags.
var (
	safetyRuns    = flag.Int("safety.runs", 1, "how often each thing happens to a holder")
	safetyTimeout = flag.Duration("safety.timeout", 20*time.Second, "the session timeout of those runs")
)

// figures holds the figures of all runs.
type figures struct {
	mu   sync.Mutex
	of   map[string][]time.Duration // from the last write of one command to the first of the next; guarded by mu
	over map[string][]time.Duration // from the harm until the next command has ended; guarded by mu
}

func (f *figures) add(name string, gap, over time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[name], f.over[name] = append(f.of[name], gap), append(f.over[name], over)
}

func (f *figures) log(t *testing.T) {
	for name, gaps := range f.of {
		over := f.over[name]
		slices.Sort(gaps)
		slices.Sort(over)
		n := len(gaps)
		t.Logf("%s, %v: %d runs; the next begins %v to %v after the last write, half within %v; handed over after "+
			"%v to %v", name, *safetyTimeout, n, gaps[0].Round(time.Millisecond), gaps[n-1].Round(time.Millisecond),
			gaps[n/2].Round(time.Millisecond), over[0].Round(100*time.Millisecond),
			over[n-1].Round(100*time.Millisecond))
	}
}

// Whatever happens to the holder, the last write of its command is earlier than the first write of the next holder's
// command. The commands ignore TERM.
func TestACommandIsOverBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	all := &figures{of: map[string][]time.Duration{}, over: map[string][]time.Duration{}}
	t.Run("runs", func(t *testing.T) { // returns after all runs
		for range *safetyRuns {
			harmHolders(t, all)
		}
	})
	all.log(t)
}

func harmHolders(t *testing.T, all *figures) {
	for name, tt := range map[string]struct {
		harm func(b *bed, first *proc, command written)
		heal func(b *bed, first *proc) // before the first program's end
		code int                       // -1: killed
		told bool                      // with TERM, before it was killed
	}{
		"network cut": {
			harm: func(b *bed, _ *proc, _ written) { b.net.setCut(true) },
			code: 122, told: true,
		},
		"server hangs": { // no session expires in that time
			harm: func(b *bed, first *proc, _ written) {
				b.srv.Pause()
				assert.Equal(b, 122, first.code())
				b.srv.Resume()
			},
			code: 122, told: true,
		},
		"parent killed": {
			harm: func(_ *bed, first *proc, _ written) { first.signal(syscall.SIGKILL) },
			code: -1, told: true,
		},
		"parent stopped": {
			harm: func(_ *bed, first *proc, _ written) { first.signal(syscall.SIGSTOP) },
			heal: func(_ *bed, first *proc) { first.signal(syscall.SIGCONT) },
			code: 122, told: true,
		},
		"keeper killed": {
			harm: func(b *bed, _ *proc, command written) {
				require.NoError(b, syscall.Kill(command.parent, syscall.SIGKILL))
			},
			code: 125,
		},
		"parent and keeper killed": {
			harm: func(b *bed, first *proc, command written) {
				first.signal(syscall.SIGKILL)
				require.NoError(b, syscall.Kill(command.parent, syscall.SIGKILL))
			},
			code: -1,
		},
		"keeper stopped, network cut": {
			harm: func(b *bed, first *proc, command written) {
				require.NoError(b, syscall.Kill(command.parent, syscall.SIGSTOP))
				b.net.setCut(true)
			},
			code: 122,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.env = append(b.env, "CURATOR_SESSION_TIMEOUT="+safetyTimeout.String())
			b.net = b.throughNetwork()
			first := b.start(append([]string{"lock", path}, b.writer("first")...)...)
			b.direct()
			command := b.writes("first")
			second := b.start(append([]string{"lock", path}, b.writer("second", "50ms")...)...)
			eventually(t, "two in the line", func() bool { return len(b.line()) == 2 })
			tt.harm(b, first, command)
			harmed := time.Now()
			assert.Zero(t, second.code())
			over := time.Since(harmed)

			one, two := read(t, b.file("first")), read(t, b.file("second"))
			assert.Less(t, one.last, two.first, "both at work for %v", one.last-two.first)
			all.add(name, two.first-one.last, over)
			if tt.told {
				require.Len(t, one.terms, 1)
				assert.Greater(t, one.last, one.terms[0], "it had time to end in")
			}
			if tt.heal != nil {
				tt.heal(b, first)
			}
			assert.Equal(t, tt.code, first.code())
			b.atRest()
		})
	}
}

// On an ensemble, under the heartbeat rule, there is less time to stop a command, but enough.
func TestAnEnsemble(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ensemble := zktest.RunEnsembleT(quiet{t}, 3, zktest.Config{Listen: "127.0.0.1:0"})
	b.env = append(b.env, "CURATOR_SERVERS="+ensemble.ConnectString(), "CURATOR_SESSION_TIMEOUT=20s")
	first := b.start(append([]string{"lock", path}, b.writer("first")...)...)
	b.writes("first")
	second := b.start(append([]string{"lock", path}, b.writer("second", "50ms")...)...)
	beats := ensemble.Counts()[zktest.OpMulti]
	eventually(t, "two heartbeats", func() bool { return ensemble.Counts()[zktest.OpMulti] >= beats+2 })
	first.signal(syscall.SIGSTOP)
	assert.Zero(t, second.code())
	one := read(t, b.file("first"))
	two := read(t, b.file("second"))
	assert.Less(t, one.last, two.first)
	t.Logf("the next begins %v after the last write", two.first-one.last)
	first.signal(syscall.SIGCONT)
	assert.Equal(t, 122, first.code())
}

// A keeper that continues after the hold has ended starts nothing.
func TestALateKeeperStartsNothing(t *testing.T) {
	t.Parallel()
	heard, words, err := os.Pipe()
	require.NoError(t, err)
	defer words.Close()
	reports, reported, err := os.Pipe()
	require.NoError(t, err)
	defer reports.Close()
	file := t.TempDir() + "/file"
	job := keeper.Job{
		Pipes: keeper.Pipes{Words: 3, Reports: 4}, Until: clock.Now() - 1, Grace: keeper.Grace{Term: 1, Kill: 1},
		Path: os.Args[0], Command: []string{os.Args[0], "__write", file},
	}
	late := exec.Command(os.Args[0], job.Arguments()...)
	late.ExtraFiles = []*os.File{heard, reported}
	require.NoError(t, late.Run())
	heard.Close()
	reported.Close()
	said, err := io.ReadAll(reports)
	require.NoError(t, err)
	assert.Equal(t, keeper.Report{Ended: true, Told: true}.String(), string(said))
	assert.NoFileExists(t, file)
}

// Processes that a command leaves at its exit are ended before the lock is released, also a daemon.
func TestNothingOfACommandIsLeft(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.start("lock", path, "--", "sh", "-c", `"$0" __write "$1" & "$0" __daemon "$2"; read x < "$3"; exit 3`,
		os.Args[0], b.file("background"), b.file("daemon"), b.fifo("end"))
	b.writes("background")
	b.writes("daemon")
	second := b.start(append([]string{"lock", path}, b.writer("second", "1ms")...)...)
	b.writeTo("end")
	assert.Equal(t, 3, first.code())
	assert.Zero(t, second.code())
	next := read(t, b.file("second")).first
	for _, name := range []string{"background", "daemon"} {
		left := read(t, b.file(name))
		assert.Less(t, left.last, next, name)
		assert.Len(t, left.terms, 1, name)
	}
	b.atRest()
}

// When the keeper is killed the kernel kills the command, and the program kills the processes that the command has started.
func TestNothingOfAKilledKeeperIsLeft(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.start("lock", path, "--", "sh", "-c", `echo $PPID; "$0" __write "$1" & "$0" __daemon "$2"; sleep 600`,
		os.Args[0], b.file("background"), b.file("daemon"))
	b.writes("background")
	b.writes("daemon")
	second := b.start(append([]string{"lock", path}, b.writer("second", "1ms")...)...)
	parent, err := strconv.Atoi(first.stdout())
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(parent, syscall.SIGKILL))
	assert.Equal(t, 125, first.code())
	assert.Zero(t, second.code())
	next := read(t, b.file("second")).first
	for _, name := range []string{"background", "daemon"} {
		assert.Less(t, read(t, b.file(name)).last, next, name)
	}
	b.atRest()
}

// Programs that take turns never overlap.
func TestTurnsDoNotOverlap(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const rounds = 10
	names := []string{"a", "b"}
	ended := make(chan struct{})
	for _, name := range names {
		go func() {
			defer func() { ended <- struct{}{} }()
			for i := range rounds {
				code, _, err := b.runs(append([]string{"lock", path}, b.writer(name+string(rune('0'+i)), "10ms")...)...)
				assert.Zero(t, code, err)
			}
		}()
	}
	for range names {
		<-ended
	}
	var all []written
	for _, name := range names {
		for i := range rounds {
			all = append(all, read(t, b.file(name+string(rune('0'+i)))))
		}
	}
	assert.LessOrEqual(t, most(all), 1)
	b.atRest()
}

// most returns the largest number of commands that ran at one time.
func most(all []written) int {
	n := 0
	for _, at := range all { // at the beginning of each
		together := 0
		for _, w := range all {
			if w.first <= at.first && at.first <= w.last {
				together++
			}
		}
		n = max(n, together)
	}
	return n
}

func TestPermitsCount(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	leases := func() int { names, _ := b.srv.Children(path + "/leases"); return len(names) }
	permit := []string{"permit", path, "--of", "2"}
	var holders []*proc
	for n := range 2 {
		holders = append(holders, b.start(append(permit, "--", "sleep", "600")...))
		eventually(t, "held", func() bool { return leases() == n+1 })
	}
	code, _, err := b.runs(append(permit, "--try", "--", "true")...)
	assert.Equal(t, 121, code, err)
	third := b.start(append(permit, b.writer("third", "1ms")...)...)
	eventually(t, "waiting", func() bool { names, _ := b.srv.Children(path + "/locks"); return len(names) > 0 })
	assert.Zero(t, read(t, b.file("third")).first)
	holders[0].signal(syscall.SIGTERM)
	assert.Equal(t, 143, holders[0].code())
	assert.Zero(t, third.code())

	var started []*proc
	for _, name := range []string{"a", "b", "c"} { // next to the remaining holder
		started = append(started, b.start(append(permit, b.writer(name, "50ms")...)...))
	}
	var all []written
	for i, p := range started {
		assert.Zero(t, p.code())
		all = append(all, read(t, b.file([]string{"a", "b", "c"}[i])))
	}
	assert.Equal(t, 1, most(all))
	holders[1].signal(syscall.SIGTERM)
	assert.Equal(t, 143, holders[1].code())
	eventually(t, "no session is left", func() bool { return len(b.srv.Sessions()) == 0 })
}

// Each term lasts until its command ends, and the next term is the other program's, if that is in the line by then.
func TestLeadersTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	waiting := func() bool { // each has a node of its own
		owners := map[int64]bool{}
		for _, n := range b.srv.Tree() {
			owners[n.Stat.EphemeralOwner] = true
		}
		delete(owners, 0)
		return len(owners) == 2
	}
	var started []*proc
	for _, name := range []string{"a", "b"} {
		started = append(started, b.start("lead", path, "--min-hold", "10ms", "--", "sh", "-c",
			`echo "$1" >> "$0"; read go < "$2"; echo "$1" >> "$0"`, b.file("terms"), name, b.fifo("turn "+name)))
		eventually(t, name+" waits", func() bool { return len(b.line()) == len(started) })
	}
	said := ""
	for i, name := range []string{"a", "b", "a", "b", "a", "b"} {
		said += name + "\n"
		eventually(t, fmt.Sprint("term ", i+1, " has begun, and the other waits"),
			func() bool { return text(b.file("terms"))+"\n" == said && waiting() })
		b.writeTo("turn " + name)
		said += name + "\n"
	}
	eventually(t, "the last term is over", func() bool { return text(b.file("terms"))+"\n" == said+"a\n" })
	for _, p := range started {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range started {
		assert.Equal(t, 143, p.code())
	}
	b.atRest()
}

// A leader whose term is lost waits for the next one, and its command is started again.
func TestALostTermIsNotTheEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.env = append(b.env, "CURATOR_SESSION_TIMEOUT="+safetyTimeout.String())
	network := b.throughNetwork()
	first := b.start(append([]string{"lead", path}, b.writer("first")...)...)
	b.direct()
	b.writes("first")
	second := b.start(append([]string{"lead", path, "--once"}, b.writer("second", "50ms")...)...)
	eventually(t, "two in the line", func() bool { return len(b.line()) == 2 })
	network.setCut(true)
	assert.Zero(t, second.code())
	next := read(t, b.file("second"))
	network.setCut(false)
	eventually(t, "the first leads again", func() bool { return read(t, b.file("first")).last > next.last })
	for _, at := range read(t, b.file("first")).all {
		assert.False(t, next.first <= at && at <= next.last, "both at work")
	}
	first.signal(syscall.SIGKILL)
	first.code()
	b.expire()
	b.atRest()
	assert.Contains(t, first.stderr(), "waiting for the next term")
}
