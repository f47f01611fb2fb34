package page

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/compare/internal/judge"
	"github.com/go-curator/curator/compare/internal/play"
	"github.com/go-curator/curator/compare/internal/speed"
)

// some are results of two ways.
func some(t *testing.T) Results {
	dir := t.TempDir()
	write := func(name string, v any) {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	figures := func(turns int) []speed.Figures {
		one := func(n, most int) speed.Figures {
			return speed.Figures{Contenders: n, Long: time.Second, Turns: turns, P50: 1, P99: 2, Fewest: 1, Most: most}
		}
		return []speed.Figures{one(1, 1), one(8, 4), one(32, 8)}
	}
	write("a.json", play.Result{Way: "curator", Fault: "stopped", Verdict: judge.Verdict{InTime: 1, Gap: 5 * time.Second}})
	write("b.json", play.Result{Way: "curator", Fault: "stopped", Verdict: judge.Verdict{InTime: 1, Gap: 4 * time.Second}})
	write("c.json", play.Result{Way: "redis-set-px", Fault: "stopped", Verdict: judge.Verdict{Never: 1, Overlaps: []judge.Overlap{
		{Earlier: "c1's hold 1", Later: "c2's hold 1", After: 1500 * time.Millisecond, Acts: 7}}}})
	write("d.json", play.Result{Way: "redis-set-px", Fault: "killed", ForEver: true})
	for round, ours := range []int{100, 200, 10} { // in the last the machine did something else
		theirs := []int{250, 600, 260}[round]
		write(fmt.Sprint("speed--curator--", round, ".json"), Measured{"curator", speed.Can{Reenter: true, Try: true}, figures(ours)})
		write(fmt.Sprint("speed--redis-set-px--", round, ".json"), Measured{"redis-set-px", speed.Can{Try: true}, figures(theirs)})
	}
	r, err := Load(dir)
	require.NoError(t, err)
	return r
}

// row returns the first row of a way.
func row(t *testing.T, table, way string) string {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| "+way+" |") {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("no row of %s in\n%s", way, table)
	return ""
}

func TestTables(t *testing.T) {
	blocks := some(t).Blocks()
	maps.Copy(blocks, some(t).Counted())
	assert.Equal(t, "| this library |  | 0/2 |", row(t, blocks["holders"], "this library"))
	assert.Equal(t, "| Redis SET NX PX | 0/1 | **1/1** 1.5 s |", row(t, blocks["holders"], "Redis SET NX PX"))
	assert.Equal(t, "| this library |  | 5.0 s |", row(t, blocks["locked"], "this library"))
	assert.Contains(t, row(t, blocks["locked"], "Redis SET NX PX"), "**for ever**")
	assert.Contains(t, row(t, blocks["checklist"], "this library"), "| 2 of 2 | not tried | yes | yes | yes | 0.25 |")
	assert.Contains(t, row(t, blocks["checklist"], "Redis SET NX PX"), "| 1 of 2 | not tried | no | yes | yes |")
	assert.Contains(t, row(t, blocks["speed"], "Redis SET NX PX"), "| 260 | 3.00 |")
	assert.Contains(t, row(t, blocks["speed"], "Redis SET NX PX"), "| never |")
	assert.Contains(t, blocks["overlaps"], "c1's hold 1 from")
	for name, text := range blocks {
		var columns int
		for line := range strings.Lines(text) {
			if columns == 0 {
				columns = strings.Count(line, "|")
			}
			assert.Equal(t, columns, strings.Count(line, "|"), "%s: %s", name, line)
		}
	}
}

func TestPlotsAreXML(t *testing.T) {
	plots := some(t).Plots()
	assert.Len(t, plots, 2)
	for name, text := range plots {
		d := xml.NewDecoder(strings.NewReader(text))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err, name)
		}
		assert.Contains(t, text, "this library")
	}
}

func TestPut(t *testing.T) {
	page := "before\n<!-- compare: a -->\nold\n" + ending + "\nafter\n"
	made, err := Put(page, map[string]string{"a": "new\n"})
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(page, "old", "new", 1), made)
	_, err = Put(page, map[string]string{"b": "new\n"})
	assert.ErrorContains(t, err, `the page has no place for "b"`)
	_, err = Put(page+page, map[string]string{"a": "new\n"})
	assert.ErrorContains(t, err, "2 places for 1 blocks")
}

// The page in the repository has a place for each block, and no other.
func TestThePageHasThePlaces(t *testing.T) {
	text, err := os.ReadFile("../../../docs/choosing-a-lock.md")
	require.NoError(t, err)
	_, err = Put(string(text), some(t).Blocks())
	require.NoError(t, err)
	text, err = os.ReadFile("../../counted.md")
	require.NoError(t, err)
	_, err = Put(string(text), some(t).Counted())
	require.NoError(t, err)
}
