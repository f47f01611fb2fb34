package page

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/go-curator/curator/compare/internal/judge"
	"github.com/go-curator/curator/compare/internal/play"
	"github.com/go-curator/curator/compare/internal/ways"
)

type judgeOverlap = judge.Overlap

// bar is one line of a plot.
type bar struct {
	label string
	value float64
	text  string
}

// bars is a plot of horizontal bars; with log their length is the logarithm.
func bars(title string, all []bar, log bool) string {
	const left, width, line = 250, 460, 24
	longest := 0.0
	length := func(v float64) float64 {
		if log {
			return math.Log10(1 + v)
		}
		return v
	}
	for _, b := range all {
		longest = max(longest, length(b.value))
	}
	var s strings.Builder
	height := (len(all) + 2) * line
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n",
		left+width+150, height)
	fmt.Fprintf(&s, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	fmt.Fprintf(&s, `<text x="10" y="18" font-weight="bold">%s</text>`+"\n", html.EscapeString(title))
	for i, b := range all {
		y := (i + 1) * line
		w := 0.0
		if longest > 0 {
			w = length(b.value) / longest * width
		}
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-8, y+17, html.EscapeString(b.label))
		fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.0f" height="%d" fill="#47a"/>`, left, y+4, w, line-8)
		fmt.Fprintf(&s, `<text x="%.0f" y="%d">%s</text>`+"\n", left+w+6, y+17, html.EscapeString(b.text))
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// Plots are files and their contents.
func (r Results) Plots() map[string]string {
	var holders, speed []bar
	for _, k := range ways.All {
		plays, bad := 0, 0
		for _, f := range play.Faults {
			if all := r.Plays[[2]string{k.ID, f.ID}]; len(all) > 0 {
				plays++
				for _, p := range all {
					if len(p.Overlaps) > 0 {
						bad++
						break
					}
				}
			}
		}
		if plays > 0 {
			holders = append(holders, bar{k.Title, float64(bad), fmt.Sprintf("%d of %d faults", bad, plays)})
		}
		if f, _, ok := r.measured(k.ID, 8); ok {
			speed = append(speed, bar{k.Title, f.Rate(), fmt.Sprintf("%.0f turns/s", f.Rate())})
		}
	}
	return map[string]string{
		"locks-holders.svg": bars("Faults with which there were two holders", holders, false),
		"locks-speed.svg":   bars("Eight contenders, no work: turns per second (logarithmic)", speed, true),
	}
}
