// Command testreport reads the output of go test -json, of one run or of several one after the other. It shows progress, the
// whole output of what failed, what tests log after "figure: ", the tables that they fill after "cell: " (kit.Cell in
// integration), which packages took how long on which servers, the slowest tests, and a summary. Lines that are not JSON
// are passed on. It fails unless tests were run and all of them passed: a skipped test is a failure, since a missing server must
// not look like success, unless it says what the release under test lacks (kit.Needs).
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// event is a line of go test -json; see go doc cmd/test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Elapsed    float64
	Output     string
}

type report struct {
	to                      io.Writer
	output                  map[string][]string // by package and test
	passed, failed, skipped int
	lacking                 int // skipped, since the release lacks what they test
	packages                int
	tables                  matrices
	slowest                 []event // results of tests, the slowest first
}

const (
	// worthwhile is how many seconds a test or a package has to take to be shown, if it passes.
	worthwhile = 1
	// most is how many of the slowest tests are shown.
	most = 10
)

func main() {
	began := time.Now()
	r := &report{to: os.Stdout, output: map[string][]string{}}
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	r.printTables()
	r.printSlowest()
	fmt.Printf("\n%d tests in %d packages: %d passed, %d failed, %d skipped, in %v\n",
		r.passed+r.failed+r.skipped, r.packages, r.passed, r.failed, r.skipped, time.Since(began).
			Round(100*time.Millisecond))
	if r.lacking > 0 {
		fmt.Printf("!! LEFT OUT: %d tests of what these releases lack, see above\n", r.lacking)
	}
	if r.failed+r.skipped > 0 || r.passed == 0 {
		os.Exit(1)
	}
}

func (r *report) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(r.to, lines.Text())
			continue
		}
		r.event(e)
	}
	return lines.Err()
}

func (r *report) event(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if e.Action == "build-output" {
			fmt.Fprint(r.to, e.Output)
			return
		}
		r.output[key] = append(r.output[key], e.Output)
		if _, measured, found := strings.Cut(e.Output, "figure: "); found {
			fmt.Fprintf(r.to, "%16s %s\n", "", strings.TrimSpace(measured))
		}
		if _, told, found := strings.Cut(e.Output, "cell: "); found {
			r.tables.add(told)
		}
		if _, servers, found := strings.Cut(e.Output, "ran on: "); found {
			r.ran(e.Package, "on "+strings.TrimSpace(servers), cell{n: 1})
		}
	case "pass", "fail", "skip":
		r.result(e, key)
	}
}

func (r *report) result(e event, key string) {
	if e.Test == "" {
		if e.Action == "skip" {
			return // a package without tests
		}
		r.packages++
		if e.Action == "fail" {
			// Not always the fault of a test: goleak, a panic, the build.
			r.failed++
			r.show(e.Package + " ")
		}
		fmt.Fprintf(r.to, "%-4s %7.2fs %s\n", e.Action, e.Elapsed, short(e.Package))
		r.ran(e.Package, "seconds", cell{failed: e.Action == "fail", n: int(e.Elapsed + 0.5)})
		return
	}
	lacking := e.Action == "skip" && strings.Contains(strings.Join(r.output[key], ""), "lacks: ")
	switch {
	case lacking:
		r.lacking++
		r.show(key)
	case e.Action == "pass":
		r.passed++
	case e.Action == "fail":
		r.failed++
		r.show(key)
	default:
		r.skipped++
		r.show(key)
	}
	column := "tests"
	if lacking {
		column = "left out"
	}
	r.ran(e.Package, column, cell{failed: e.Action != "pass" && !lacking, n: 1})
	delete(r.output, key)
	if strings.Contains(e.Test, "/") {
		return
	}
	if e.Action != "pass" || e.Elapsed >= worthwhile {
		fmt.Fprintf(r.to, "%-4s %7.2fs   %s\n", e.Action, e.Elapsed, e.Test)
	}
	at, _ := slices.BinarySearchFunc(r.slowest, e, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	r.slowest = slices.Insert(r.slowest, at, e)
	r.slowest = r.slowest[:min(most, len(r.slowest))]
}

// whatRan is a table with a line for each package that took long or needed servers.
const whatRan = "What ran: tests, seconds, and how many groups of servers were started"

func (r *report) ran(pkg, column string, c cell) {
	table := r.tables.table(whatRan)
	table.columns = appendNew(appendNew(table.columns, "tests"), "seconds")
	table.add(short(pkg), column, c)
}

// printTables shows what ran, and before that all else.
func (r *report) printTables() {
	for _, table := range r.tables {
		if table.name != whatRan {
			table.print(r.to)
		}
	}
	ran := r.tables.table(whatRan)
	ran.rows = slices.DeleteFunc(ran.rows, func(row string) bool {
		took, over := ran.cells[[2]string{row, "seconds"}]
		servers := slices.ContainsFunc(ran.columns, func(column string) bool {
			_, told := ran.cells[[2]string{row, column}]
			return told && strings.HasPrefix(column, "on ")
		})
		return over && !took.failed && took.n < worthwhile && !servers
	})
	if len(ran.rows) > 0 {
		ran.print(r.to)
	}
}

func (r *report) printSlowest() {
	fmt.Fprintf(r.to, "\nThe slowest tests\n")
	for _, e := range r.slowest {
		fmt.Fprintf(r.to, "  %7.2fs  %s %s\n", e.Elapsed, short(e.Package), e.Test)
	}
}

// short returns the path of a package in the repository.
func short(pkg string) string {
	const repository = "github.com/go-curator/curator"
	if pkg == repository {
		return "."
	}
	return strings.TrimPrefix(pkg, repository+"/")
}

func (r *report) show(key string) {
	for _, text := range r.output[key] {
		fmt.Fprint(r.to, text)
	}
}
