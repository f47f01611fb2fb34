package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-curator/curator/integration/internal/kit"
)

// key is a row of the table, for one peer.
type key struct {
	work, peer string
	disk       bool
}

// table has the results, round by round.
type table map[key][]measured

func (t table) add(work, peer string, disk bool, m measured) {
	k := key{work, peer, disk}
	t[k] = append(t[k], m)
}

// median returns the median of each figure; figures of one row may come from different rounds.
func (t table) median(work, peer string, disk bool) (m measured) {
	all := t[key{work, peer, disk}]
	if len(all) == 0 {
		return m
	}
	m = all[0]
	m.requests = median(all, func(m measured) float64 { return m.requests })
	m.events = median(all, func(m measured) float64 { return m.events })
	return m
}

func (t table) overlaps(work, peer string) (n int64) {
	for _, disk := range []bool{false, true} {
		for _, m := range t[key{work, peer, disk}] {
			n += m.Overlaps
		}
	}
	return n
}

func median[T any](all []T, figure func(T) float64) float64 {
	var figures []float64
	for _, each := range all {
		figures = append(figures, figure(each))
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// ratios returns the rates of a peer divided by Curator's in the same round.
func (t table) ratios(work, peer string, disk bool) (all []float64) {
	others := t[key{work, curator, disk}]
	for i, m := range t[key{work, peer, disk}] {
		all = append(all, m.Rate()/others[i].Rate())
	}
	slices.Sort(all)
	return all
}

// columns are the figures of a row, each as a median over the rounds.
var columns = []struct {
	head   string
	figure func(m measured) float64
	format string
}{
	{"cycles/s", func(m measured) float64 { return m.Rate() }, "%.0f"},
	{"requests", func(m measured) float64 { return m.requests }, "%.2f"},
	{"events", func(m measured) float64 { return max(0, m.events) }, "%.2f"},
	{"hand-over p50 µs", func(m measured) float64 { return micro(m.HandOver(0.5)) }, "%.0f"},
	{"p99 µs", func(m measured) float64 { return micro(m.HandOver(0.99)) }, "%.0f"},
	{"gap ms", func(m measured) float64 { return micro(m.Gap) / 1000 }, "%.0f"},
	{"CPU µs", func(m measured) float64 { return micro(m.CPU) / float64(m.Cycles) }, "%.0f"},
	{"kB", func(m measured) float64 { return float64(m.Bytes) / float64(m.Cycles) / 1000 }, "%.1f"},
	{"allocations", func(m measured) float64 { return float64(m.Objects) / float64(m.Cycles) }, "%.0f"},
	{"fewest / most", func(m measured) float64 {
		return float64(m.Slowest) / float64(max(1, m.Fastest))
	}, "%.2f"},
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// row returns a peer's line of the table in Markdown.
func (t table) row(work, peer string, disk bool) string {
	all := t[key{work, peer, disk}]
	ratios := t.ratios(work, peer, disk)
	middle, least, most := ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1]
	ratio := fmt.Sprintf("%.2f (%.2f to %.2f)", middle, least, most)
	if peer == curator {
		ratio = "1.00"
	}
	cells := []string{work, peer, ratio}
	for _, c := range columns {
		cell := fmt.Sprintf(c.format, median(all, c.figure))
		if c.head == "allocations" && peer == curator {
			cell = ""
		}
		cells = append(cells, cell)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func (t table) report(test *testing.T, w work, disk bool) {
	test.Helper()
	for _, peer := range w.peers {
		kit.Figure(test, "peers: %s", strings.TrimSpace(t.row(w.name, peer, disk)))
	}
}

const (
	begin = "<!-- bench-peers: made by make bench-peers -->\n"
	end   = "<!-- bench-peers: end -->\n"
)

// write replaces the tables and plots in the document.
func (t table) write(dir string) error {
	file := filepath.Join(dir, "measured.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no place for the figures: %s…%s", file, begin, end)
	}
	var made strings.Builder
	for _, disk := range []bool{false, true} {
		picture, title := "peers-memory.svg", "A server that does not wait for its disk"
		if disk {
			picture, title = "peers-disk.svg", "A server that waits for its disk"
		}
		fmt.Fprintf(&made, "\n### %s\n\n![cycles a second, Curator is 1](measured/%s)\n\n", title, picture)
		made.WriteString("| work | client | of Curator's |")
		for _, c := range columns {
			fmt.Fprintf(&made, " %s |", c.head)
		}
		made.WriteString("\n|" + strings.Repeat("---|", 3+len(columns)) + "\n")
		var bars []bar
		for _, w := range works {
			for _, peer := range w.peers {
				if len(t[key{w.name, peer, disk}]) == 0 {
					continue
				}
				if slices.Contains([]string{curator, ours, library}, peer) { // the other peers are in the plot
					made.WriteString(t.row(w.name, peer, disk))
				}
				ratios := t.ratios(w.name, peer, disk)
				bars = append(bars, bar{w.name, peer, ratios[len(ratios)/2]})
			}
		}
		if err := os.MkdirAll(filepath.Join(dir, "measured"), 0o755); err != nil {
			return err
		}
		picture = filepath.Join(dir, "measured", picture)
		if err := os.WriteFile(picture, []byte(plot(bars)), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(before+begin+made.String()+"\n"+end+after), 0o644)
}

type bar struct {
	group, name string
	value       float64
}

var colours = map[string]string{
	curator: "#9aa5b1", ours: "#2563eb", unawaited: "#60a5fa", library: "#d97706", floor: "#a7c7a0", piped: "#cfe3cb",
}

// plot draws horizontal bars in groups.
func plot(bars []bar) string {
	const left, width, height, scale = 260, 760, 14, 100
	var body strings.Builder
	y, group := 10, ""
	for _, b := range bars {
		if b.group != group {
			group, y = b.group, y+10
			fmt.Fprintf(&body, "<text x=\"10\" y=\"%d\" font-weight=\"bold\">%s</text>\n", y+11, b.group)
		}
		long := min(b.value*scale, width-left-110)
		fmt.Fprintf(&body, "<rect x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"%d\" fill=\"%s\"/>\n",
			left, y, long, height-2, colours[b.name])
		fmt.Fprintf(&body, "<text x=\"%.0f\" y=\"%d\">%s %.2f</text>\n",
			float64(left)+long+5, y+11, b.name, b.value)
		y += height
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "+
		"font-family=\"sans-serif\" font-size=\"11\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s"+
		"<line x1=\"%d\" y1=\"0\" x2=\"%d\" y2=\"%d\" stroke=\"#444\" stroke-dasharray=\"3\"/>\n</svg>\n",
		width, y+10, body.String(), left+scale, left+scale, y+10)
}
