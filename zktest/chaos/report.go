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

// report makes the failing plan shorter, and describes its run. With keeps it keeps the run's files.
func (h *hunt) report(failed *Result, keeps bool) *Failure {
	var w worker
	defer w.close()
	play := func(p *Plan) *Result { return w.play(h.t, p) }
	again := replays(failed.Plan, play)
	best, tries := failed, 0
	short := again
	if !failed.circles && h.cfg.Shrink > 0 { // each replay of a run that the wall clock ended takes long
		var plans []*Result
		plans, tries = shrink(failed, again.failed == again.n, h.cfg.Shrink, play)
		best, short = surest(plans, again, play)
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
	fmt.Fprintf(&b, "its story, in virtual time:\n%s", story(best))
	if keeps {
		if dir, err := keep(h.t.Name(), best); err != nil {
			fmt.Fprintf(&b, "its files cannot be kept: %v\n", err)
		} else {
			fmt.Fprintf(&b, "kept in %s: plan.json, story.txt, trace.txt (the servers'), sequence.mmd (Mermaid)\n", dir)
			fmt.Fprintf(&b, "again: %s\n", h.command("-chaos.plan="+filepath.Join(dir, "plan.json")))
		}
	}
	fmt.Fprintf(&b, "the seed as it was found: %s\n", h.command(fmt.Sprintf("-chaos.seed=%d", failed.Plan.Seed)))
	return &Failure{Violation: v, Plan: best.Plan, Report: b.String(), Runs: h.runs, Replayed: again.failed}
}

// command returns a shell command that plays this test alone, with a flag and the flags of the test binary that belong
// to neither package testing nor this package.
func (h *hunt) command(option string) string {
	words := append([]string{"go", "test", "-run", pattern(h.t), "-args", option}, ownArgs(os.Args[1:])...)
	for i, word := range words {
		if strings.Trim(word, shellSafe) != "" {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// shellSafe are characters without a meaning to a shell.
const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:"

// surest returns the shortest plan that fails at least as often as the plan that was found, and its replays. plans
// begin with the plan that was found, and end with the shortest.
func surest(plans []*Result, found replayed, play func(*Plan) *Result) (*Result, replayed) {
	for i := len(plans) - 1; i > 0; i-- {
		if r := replays(plans[i].Plan, play); r.failed*found.n >= found.failed*r.n {
			return plans[i], r
		}
	}
	return plans[0], found
}

// replayed is the number of replays of a plan, and of those that failed.
type replayed struct{ failed, n int }

func (r replayed) String() string { return fmt.Sprintf("%d of %d replays fail", r.failed, r.n) }

// replays plays a plan ten times, but stops after a run that the wall clock ended.
func replays(p *Plan, play func(*Plan) *Result) (r replayed) {
	for r.n < 10 {
		result := play(p)
		if r.n++; len(result.Violations) > 0 {
			r.failed++
		}
		if result.circles {
			break
		}
	}
	return r
}

// The numbers of lines of a story that a report shows at its beginning, around each fault, and before and after the
// first violation. The file has all lines.
const opening, around, before, after = 8, 4, 20, 6

// story returns the lines of the story that a report shows.
func story(r *Result) string {
	lines := folded(brief(r.Story))
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

// brief leaves out the failed connections of a process that looks for a server, except the first of each search.
func brief(lines []Line) (short []Line) {
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

// folded makes one line of equal lines of one actor that follow each other.
func folded(lines []Line) (short []Line) {
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

// keep writes a run's files.
func keep(name string, r *Result) (dir string, err error) {
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
		"sequence.mmd": sequence(r),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// sequence returns the story as a Mermaid sequence diagram.
func sequence(r *Result) string {
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
