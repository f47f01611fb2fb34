// Package page makes the tables and plots of docs/choosing-a-lock.md from the results.
package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/compare/internal/play"
	"github.com/go-curator/curator/compare/internal/speed"
	"github.com/go-curator/curator/compare/internal/ways"
)

// Measured has a way's speed and capabilities.
type Measured struct {
	Way     string
	Can     speed.Can
	Figures []speed.Figures
}

// Results are the results in a directory.
type Results struct {
	Plays map[[2]string][]play.Result // by way and fault
	Speed map[string][]Measured       // by way: of each round
}

// measured is the round of a way with the median rate of n contenders, and the median of the ratios of its rate to
// this library's in the same round.
func (r Results) measured(way string, n int) (f speed.Figures, ratio float64, ok bool) {
	var figures []speed.Figures
	var ratios []float64
	ours := r.Speed["curator"]
	for round, m := range r.Speed[way] {
		for i, f := range m.Figures {
			if f.Contenders == n && round < len(ours) && i < len(ours[round].Figures) {
				figures = append(figures, f)
				ratios = append(ratios, f.Rate()/ours[round].Figures[i].Rate())
			}
		}
	}
	if len(figures) == 0 {
		return f, 0, false
	}
	slices.Sort(ratios)
	slices.SortFunc(figures, func(a, b speed.Figures) int { return cmp.Compare(a.Rate(), b.Rate()) })
	return figures[len(figures)/2], ratios[len(ratios)/2], true
}

// Load reads them.
func Load(dir string) (r Results, err error) {
	r = Results{map[[2]string][]play.Result{}, map[string][]Measured{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return r, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return r, err
		}
		if strings.HasPrefix(filepath.Base(file), "speed--") {
			var m Measured
			if err := json.Unmarshal(text, &m); err != nil {
				return r, fmt.Errorf("%s: %w", file, err)
			}
			r.Speed[m.Way] = append(r.Speed[m.Way], m)
			continue
		}
		var p play.Result
		if err := json.Unmarshal(text, &p); err != nil {
			return r, fmt.Errorf("%s: %w", file, err)
		}
		k := [2]string{p.Way, p.Fault}
		r.Plays[k] = append(r.Plays[k], p)
	}
	return r, nil
}

// Blocks are the parts of the page that are made, by name.
func (r Results) Blocks() map[string]string {
	return map[string]string{"checklist": r.checklist(), "holders": r.holders(), "locked": r.lockedOut(), "speed": r.speed()}
}

// Counted are the made parts of the page about how it was counted.
func (r Results) Counted() map[string]string {
	return map[string]string{"ways": r.uses(), "faults": r.faults(), "overlaps": r.overlaps()}
}

const ending = "<!-- compare: end -->"

// Put replaces the blocks in a page. A block without a place is an error, and so is a place without a block.
func Put(page string, blocks map[string]string) (string, error) {
	for name, text := range blocks {
		begin := "<!-- compare: " + name + " -->\n"
		before, rest, found := strings.Cut(page, begin)
		_, after, ended := strings.Cut(rest, ending)
		if !found || !ended {
			return "", fmt.Errorf("the page has no place for %q: %s…%s", name, strings.TrimSpace(begin), ending)
		}
		page = before + begin + text + ending + after
	}
	if n := strings.Count(page, ending); n != len(blocks) {
		return "", fmt.Errorf("the page has %d places for %d blocks", n, len(blocks))
	}
	return page, nil
}

// table writes rows; the first is the head.
func table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// each makes a table of ways and faults.
func (r Results) each(cell func(all []play.Result) string) string {
	head := []string{"way"}
	var faults []play.Fault
	for _, f := range play.Faults {
		if slices.ContainsFunc(ways.All, func(k ways.Kind) bool { return len(r.Plays[[2]string{k.ID, f.ID}]) > 0 }) {
			head, faults = append(head, f.Title), append(faults, f)
		}
	}
	rows := [][]string{head}
	for _, k := range ways.All {
		row := []string{k.Title}
		for _, f := range faults {
			all := r.Plays[[2]string{k.ID, f.ID}]
			if len(all) == 0 {
				row = append(row, "")
				continue
			}
			row = append(row, cell(all))
		}
		rows = append(rows, row)
	}
	return table(rows)
}

func seconds(d time.Duration) string {
	switch {
	case d > 0 && d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// holders reports plays with two holders: their number, and the longest time for which one continued after the
// other's grant.
func (r Results) holders() string {
	return r.each(func(all []play.Result) string {
		n, longest, late := 0, time.Duration(0), ""
		for _, p := range all {
			if len(p.Overlaps) > 0 {
				n++
				longest = max(longest, p.Longest())
			}
			if p.Late > 0 {
				late = ", reported late"
			}
		}
		if n == 0 {
			return fmt.Sprintf("0/%d", len(all))
		}
		return fmt.Sprintf("**%d/%d** %s%s", n, len(all), seconds(longest), late)
	})
}

// lockedOut reports the longest time without work under the lock.
func (r Results) lockedOut() string {
	return r.each(func(all []play.Result) string {
		longest := time.Duration(0)
		for _, p := range all {
			if p.ForEver {
				return "**for ever**"
			}
			if len(p.Locked) == 0 { // killed-asking has several faults, each with its own time
				longest = max(longest, p.Gap)
			}
			for _, d := range p.Locked {
				longest = max(longest, d)
			}
		}
		return seconds(longest)
	})
}

func (r Results) faults() string {
	rows := [][]string{{"fault", "what is done"}}
	for _, f := range play.Faults {
		rows = append(rows, []string{f.Title, f.What})
	}
	return table(rows)
}

func (r Results) uses() string {
	rows := [][]string{{"way", "server", "used as"}}
	for _, k := range ways.All {
		rows = append(rows, []string{k.Title, string(k.Server), k.Use})
	}
	return table(rows)
}

// checklist is the table of the properties that people ask about first.
func (r Results) checklist() string {
	rows := [][]string{{"way", "exclusive in all plays", "survives a server", "re-entrant", "expires", "non-blocking", "fair",
		"read-write", "fencing token", "loss reported"}}
	for _, k := range ways.All {
		plays, bad, inTime, late, never := 0, 0, 0, 0, 0
		for _, f := range play.Faults {
			for _, p := range r.Plays[[2]string{k.ID, f.ID}] {
				plays++
				if len(p.Overlaps) > 0 {
					bad++
				}
				inTime, late, never = inTime+p.InTime, late+p.Late, never+min(p.Never, 1)
			}
		}
		exclusive := fmt.Sprintf("%d of %d", plays-bad, plays)
		reported := "no"
		if inTime+late > 0 {
			reported = fmt.Sprintf("%d in time, %d late", inTime, late)
			if never > 0 {
				reported += fmt.Sprintf(", %d never", never)
			}
		}
		measured, can := len(r.Speed[k.ID]) > 0, speed.Can{}
		if measured {
			can = r.Speed[k.ID][0].Can
		}
		fair := ""
		if f, _, ok := r.measured(k.ID, 8); ok {
			fair = fmt.Sprintf("%.2f", f.Fairness())
		}
		rows = append(rows, []string{k.Title, exclusive, r.survives(k), yes(measured, can.Reenter), yes(true, k.HasLease),
			yes(measured, can.Try), fair, k.Has.ReadWrite, k.Has.Token, reported})
	}
	return table(rows)
}

func yes(known, so bool) string {
	switch {
	case !known:
		return ""
	case so:
		return "yes"
	}
	return "no"
}

// survives is judged by the plays that lost one of several servers.
func (r Results) survives(k ways.Kind) string {
	for _, fault := range []string{"one-lost", "promoted"} {
		if all := r.Plays[[2]string{k.ID, fault}]; len(all) > 0 {
			for _, p := range all {
				if p.ForEver || len(p.Overlaps) > 0 {
					return "no"
				}
			}
			return "yes"
		}
	}
	return "not tried"
}

// speed has ratios to this library in the same run.
func (r Results) speed() string {
	rows := [][]string{{"way", "free: turns/s", "to ours", "8: turns/s", "to ours", "p99 wait", "fewest / most", "32: turns/s",
		"to ours", "p99 wait", "fewest / most", "fail-over"}}
	for _, k := range ways.All {
		row := []string{k.Title}
		for _, n := range []int{1, 8, 32} {
			f, ratio, ok := r.measured(k.ID, n)
			if !ok {
				break
			}
			row = append(row, fmt.Sprintf("%.0f", f.Rate()), fmt.Sprintf("%.2f", ratio))
			if n > 1 {
				row = append(row, seconds(f.P99), fmt.Sprintf("%.2f", f.Fairness()))
			}
		}
		if len(row)+1 < len(rows[0]) {
			continue // it is not measured here
		}
		over := ""
		for _, p := range r.Plays[[2]string{k.ID, "killed"}] {
			if over = seconds(p.Next); p.ForEver {
				over = "never"
			}
		}
		rows = append(rows, append(row, over))
	}
	return table(rows)
}

// overlaps are the proofs: of every way and fault the longest overlap, with the times of both holders.
func (r Results) overlaps() string {
	rows := [][]string{{"way", "fault", "play", "overlaps", "the longest"}}
	for _, k := range ways.All {
		for _, f := range play.Faults {
			for i, p := range r.Plays[[2]string{k.ID, f.ID}] {
				if len(p.Overlaps) == 0 {
					continue
				}
				longest := slices.MaxFunc(p.Overlaps, func(a, b judgeOverlap) int { return cmp.Compare(a.After, b.After) })
				rows = append(rows, []string{k.Title, f.Title, fmt.Sprint(i + 1), fmt.Sprint(len(p.Overlaps)), longest.String()})
			}
		}
	}
	return table(rows)
}
