package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
)

// reportFailure makes the failing plan shorter, and describes its run. With keeps it keeps the run's files.
func (h *scheduleHunt) reportFailure(failed *Result, keeps bool) *Failure {
	var w workerProcess
	defer w.closeProcess()
	play := func(p *Plan) *Result { return w.playPlan(h.t, p) }
	again := countReplays(failed.Plan, play)
	best, tries := failed, 0
	short := again
	if !failed.standsStill && h.cfg.Shrink > 0 { // each replay of a run that the wall clock ended takes long
		var plans []*Result
		plans, tries = shrinkPlan(failed, again.failed == again.n, h.cfg.Shrink, play)
		best, short = mostReliable(plans, again, play)
	}
	var b strings.Builder
	v := best.Violations[0]
	fmt.Fprintf(&b, "chaos: VIOLATION: %v\n", v)
	for _, belief := range v.Beliefs {
		fmt.Fprintf(&b, "  at that moment %s\n", belief)
	}
	for _, node := range v.Nodes {
		fmt.Fprintf(&b, "  at that moment there was the ephemeral node %s\n", node)
	}
	fmt.Fprintf(
		&b,
		"found with seed %d (%d faults; %v). The shortest plan that still fails, after %d tries (%v):\n%v\n%s",
		failed.Plan.Seed,
		len(failed.Plan.Faults),
		again,
		tries,
		short,
		best.Plan,
		best.Plan.schedule(best.Actors),
	)
	if again.failed < again.n || short.failed < short.n {
		b.WriteString(
			"Where replays differ, the order counts in which Go runs goroutines that are ready at once.\n",
		)
	}
	fmt.Fprintf(&b, "its story, in virtual time:\n%s", storyLines(best))
	if keeps {
		if dir, err := writeFiles(h.t.Name(), best); err != nil {
			fmt.Fprintf(&b, "its files cannot be kept: %v\n", err)
		} else {
			fmt.Fprintf(&b, "kept in %s: plan.json, story.txt, trace.txt (the servers'), sequence.mmd (Mermaid)\n", dir)
			fmt.Fprintf(&b, "again: %s\n", h.replayCommand("-chaos.plan="+filepath.Join(dir, "plan.json")))
		}
	}
	fmt.Fprintf(&b, "the seed as it was found: %s\n", h.replayCommand(fmt.Sprintf("-chaos.seed=%d", failed.Plan.Seed)))
	return &Failure{Violation: v, Plan: best.Plan, Report: b.String(), Runs: h.runs, Replayed: again.failed}
}

// replayCommand returns a shell command that plays this test alone, with a flag and the flags of the test binary
// that belong to neither package testing nor this package.
func (h *scheduleHunt) replayCommand(option string) string {
	words := append([]string{"go", "test", "-run", testPattern(h.t), "-args", option}, ownArguments(os.Args[1:])...)
	for i, word := range words {
		if strings.Trim(word, shellSafe) != "" {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// shellSafe are characters without a meaning to a shell.
const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:"

// mostReliable returns the shortest plan that fails at least as often as the plan that was found, and its replays.
// plans begin with the plan that was found, and end with the shortest.
func mostReliable(plans []*Result, found replayCount, play func(*Plan) *Result) (*Result, replayCount) {
	for i := len(plans) - 1; i > 0; i-- {
		if r := countReplays(plans[i].Plan, play); r.failed*found.n >= found.failed*r.n {
			return plans[i], r
		}
	}
	return plans[0], found
}

// replayCount is the number of replays of a plan, and of those that failed.
type replayCount struct{ failed, n int }

func (r replayCount) String() string { return fmt.Sprintf("%d of %d replays fail", r.failed, r.n) }

// countReplays plays a plan ten times, but stops after a run that the wall clock ended.
func countReplays(p *Plan, play func(*Plan) *Result) (r replayCount) {
	for r.n < 10 {
		result := play(p)
		if r.n++; len(result.Violations) > 0 {
			r.failed++
		}
		if result.standsStill {
			break
		}
	}
	return r
}

// The numbers of lines of a story that a report shows at its beginning, around each fault, and before and after the
// first violation. The file has all lines.
const opening, around, before, after = 8, 4, 20, 6

// storyLines returns the lines of the story that a report shows.
func storyLines(r *Result) string {
	lines := foldLines(omitReconnects(r.Story))
	wanted := make([]bool, len(lines))
	want := func(from, to int) {
		for i := max(from, 0); i < min(to, len(lines)); i++ {
			wanted[i] = true
		}
	}
	want(0, opening)
	for i, l := range lines {
		if l.Actor == "faults" {
			want(i-around, i+around+1)
		}
		if l.Actor == "VIOLATION" {
			want(i-before, i+after)
			clear(wanted[min(i+after, len(lines)):])
			break
		}
	}
	var b strings.Builder
	left := 0
	gap := func() {
		if left > 0 {
			fmt.Fprintf(&b, "  %10s %-16s %d lines\n", "…", "", left)
		}
		left = 0
	}
	for i, l := range lines {
		if !wanted[i] {
			left++
			continue
		}
		gap()
		fmt.Fprintf(&b, "  %9.3fs %-16s %s\n", l.At.Seconds(), l.Actor, l.Text)
	}
	gap()
	return b.String()
}

// omitReconnects leaves out the failed connections of a process that looks for a server, except the first of each
// search.
func omitReconnects(lines []Line) (short []Line) {
	searching := map[string]bool{}
	for _, l := range lines {
		vain := strings.HasPrefix(l.Text, "[server") &&
			(strings.HasSuffix(l.Text, "connection closed") || strings.Contains(l.Text, "refused: "))
		if vain && searching[l.Actor] {
			continue
		}
		if vain || strings.HasPrefix(l.Text, "[server") {
			searching[l.Actor] = vain
		}
		short = append(short, l)
	}
	return short
}

// foldLines makes one line of equal lines of one actor that follow each other.
func foldLines(lines []Line) (short []Line) {
	for i := 0; i < len(lines); {
		l, n := lines[i], 1
		for i+n < len(lines) && lines[i+n].Actor == l.Actor && lines[i+n].Text == l.Text {
			n++
		}
		if i += n; n > 1 {
			l.Text += fmt.Sprintf(" (%d times, until %.3fs)", n, lines[i-1].At.Seconds())
		}
		short = append(short, l)
	}
	return short
}

func plainName(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' {
		return r
	}
	return '-'
}

// writeFiles writes a run's files.
func writeFiles(name string, r *Result) (dir string, err error) {
	name = "chaos-" + strings.Map(plainName, name) + fmt.Sprintf("-%d-", r.Plan.Seed)
	if dir, err = os.MkdirTemp("", name); err != nil {
		return "", err
	}
	plan, err := json.MarshalIndent(r.Plan, "", "  ")
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, l := range r.Story {
		fmt.Fprintf(&all, "%9.3fs %-16s %s\n", l.At.Seconds(), l.Actor, l.Text)
	}
	for file, text := range map[string]string{
		"plan.json": string(plan), "story.txt": all.String(), "trace.txt": strings.Join(r.Trace, "\n"),
		"sequence.mmd": sequenceDiagram(r),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// sequenceDiagram returns the story as a Mermaid sequence diagram.
func sequenceDiagram(r *Result) string {
	actors := append([]string{"faults"}, r.Actors...)
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for i, a := range actors {
		fmt.Fprintf(&b, "    participant p%d as %s\n", i, a)
	}
	text := strings.NewReplacer(";", ",", "#", "no. ", "\n", " ").Replace
	for _, l := range r.Story {
		at := l.At.Round(time.Millisecond)
		if i := slices.Index(actors, l.Actor); i >= 0 {
			fmt.Fprintf(&b, "    Note over p%d: %v %s\n", i, at, text(l.Text))
		} else {
			fmt.Fprintf(&b, "    Note over p0,p%d: %v %s: %s\n", len(actors)-1, at, l.Actor, text(l.Text))
		}
		if l.Actor == "VIOLATION" {
			break
		}
	}
	return b.String()
}
