// Command report reads the output of go test -json, shows progress, the whole output of what failed, what
// tests log after "figure: ", the tables that they fill after "cell: " (see kit.Cell), and a summary. It
// fails unless tests were run and all of them passed: a skipped test is a failure, since a missing server
// must not look like success, unless it says what the release under test lacks (see kit.Needs).
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
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
}

func main() {
	began := time.Now()
	r := &report{to: os.Stdout, output: map[string][]string{}}
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	r.printTables()
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
		fmt.Fprintf(r.to, "%-4s %7.2fs %s\n", e.Action, e.Elapsed, e.Package)
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
	if !strings.Contains(e.Test, "/") {
		fmt.Fprintf(r.to, "%-4s %7.2fs   %s\n", e.Action, e.Elapsed, e.Test)
	}
	delete(r.output, key)
}

// whatRan is a table with a line for each package.
const whatRan = "What ran: tests, seconds, and how many groups of servers were started"

func (r *report) ran(pkg, column string, c cell) {
	table := r.tables.table(whatRan)
	table.columns = appendNew(appendNew(table.columns, "tests"), "seconds")
	table.add(path.Base(pkg), column, c)
}

// printTables shows what ran, and before that all else.
func (r *report) printTables() {
	for _, table := range r.tables {
		if table.name != whatRan {
			table.print(r.to)
		}
	}
	r.tables.table(whatRan).print(r.to)
}

func (r *report) show(key string) {
	for _, text := range r.output[key] {
		fmt.Fprint(r.to, text)
	}
}
