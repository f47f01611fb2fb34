package growth_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/kit"
)

// curve is a table of figures by subject and number, and a plot of one of its columns.
type curve struct {
	id, of  string   // its place in the document; the name of the counted things
	columns []string // the heads of the figures
	plotted int      // the column that is plotted
	rows    []row
}

type row struct {
	what    string
	n       int
	figures []float64
}

func (c *curve) add(t *testing.T, what string, n int, figures ...float64) {
	t.Helper()
	require.Len(t, figures, len(c.columns))
	c.rows = append(c.rows, row{what, n, figures})
	kit.Figure(t, "growth: %s", strings.TrimSpace(c.rows[len(c.rows)-1].text()))
}

func (r row) text() string {
	cells := []string{r.what, thousands(r.n)}
	for _, f := range r.figures {
		cells = append(cells, short(f))
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// short prints a figure with three significant digits.
func short(f float64) string {
	switch {
	case math.IsNaN(f):
		return ""
	case f == 0:
		return "0"
	case math.Abs(f) >= 1000:
		return thousands(int(math.Round(f)))
	}
	return fmt.Sprintf("%.*f", max(0, 2-int(math.Floor(math.Log10(math.Abs(f))))), f)
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// flat asserts that a figure of the largest size is at most so many times that of the size before: a cost per thing
// that does not depend on their number.
func (c *curve) flat(t *testing.T, what, column string, times float64) {
	t.Helper()
	var of []float64
	for _, r := range c.rows {
		for i, head := range c.columns {
			if r.what == what && head == column {
				of = append(of, r.figures[i])
			}
		}
	}
	require.GreaterOrEqual(t, len(of), 2, "%s: %s", what, column)
	assert.LessOrEqual(t, of[len(of)-1], times*of[len(of)-2], "%s: %s: %v", what, column, of)
}

// save writes the table and the plot to their place in the document.
func (c *curve) save(t *testing.T) {
	t.Helper()
	if *write == "" || t.Failed() {
		return
	}
	file := filepath.Join(*write, "measured.md")
	document, err := os.ReadFile(file)
	require.NoError(t, err)
	begin, end := fmt.Sprintf("<!-- growth: %s -->\n", c.id), "<!-- growth: end -->\n"
	before, rest, found := strings.Cut(string(document), begin)
	_, after, closed := strings.Cut(rest, end)
	require.True(t, found && closed, "%s has no place for the figures: %s…%s", file, begin, end)
	var made strings.Builder
	fmt.Fprintf(&made, "![%s](measured/growth-%s.svg)\n\n", c.columns[c.plotted], c.id)
	fmt.Fprintf(&made, "| | %s | %s |\n%s\n", c.of, strings.Join(c.columns, " | "),
		"|---|"+strings.Repeat("---|", 1+len(c.columns)))
	for _, r := range c.rows {
		made.WriteString(r.text())
	}
	require.NoError(t, os.WriteFile(filepath.Join(*write, "measured", "growth-"+c.id+".svg"), []byte(c.plot()), 0o644))
	require.NoError(t, os.WriteFile(file, []byte(before+begin+made.String()+end+after), 0o644))
}

var colours = []string{"#2563eb", "#d97706", "#15803d", "#b91c1c", "#7c3aed"}

// plot draws a line for each subject; both axes are logarithmic.
func (c *curve) plot() string {
	const left, top, width, height = 70, 30, 480, 260
	var lines []string
	of := map[string][]row{}
	most, low, high := 10, math.Inf(1), 0.0
	for _, r := range c.rows {
		f := r.figures[c.plotted]
		if math.IsNaN(f) || f <= 0 {
			continue
		}
		if of[r.what] == nil {
			lines = append(lines, r.what)
		}
		of[r.what] = append(of[r.what], r)
		most, low, high = max(most, r.n), min(low, f), max(high, f)
	}
	if len(lines) == 0 {
		low, high = 1, 10
	}
	bottom, ceiling := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high)+1e-9)
	ceiling = max(ceiling, bottom+1)
	x := func(n int) float64 { return left + width*math.Log10(float64(n))/math.Log10(float64(most)) }
	y := func(f float64) float64 { return top + height*(ceiling-math.Log10(f))/(ceiling-bottom) }
	var body strings.Builder
	fmt.Fprintf(&body, "<text x=\"10\" y=\"16\" font-weight=\"bold\">%s, by %s</text>\n", c.columns[c.plotted], c.of)
	for e := bottom; e <= ceiling; e++ {
		at := y(math.Pow(10, e))
		fmt.Fprintf(&body, "<line x1=\"%d\" y1=\"%.0f\" x2=\"%d\" y2=\"%.0f\" stroke=\"#ddd\"/>"+
			"<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%s</text>\n",
			left, at, left+width, at, left-6, at+4, short(math.Pow(10, e)))
	}
	for n := 1; n <= most; n *= 10 {
		fmt.Fprintf(&body, "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
			x(n), top+height+18, thousands(n))
	}
	for i, what := range lines {
		colour := colours[i%len(colours)]
		var points []string
		for _, r := range of[what] {
			f := r.figures[c.plotted]
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(r.n), y(f)))
			fmt.Fprintf(&body, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x(r.n), y(f), colour)
		}
		fmt.Fprintf(&body, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n",
			strings.Join(points, " "), colour)
		fmt.Fprintf(&body, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n",
			left+width+15, top+15+18*i, colour, what)
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "+
		"font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n",
		left+width+230, top+height+30, body.String())
}
