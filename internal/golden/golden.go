// Package golden compares the decisions of pure functions with tables in testdata. If the tables stay the same, a
// change of the code has changed no decision.
//
// A test calls the function in every situation, or every class of situations, and adds a row for each. A situation is a
// list of circumstances, which have names and values. To be short enough to be read, the file has only the
// circumstances on which a decision depends. It is exact all the same: two functions that decide differently in one of
// the situations have different files.
//
// For tests only.
package golden

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden tables of decisions anew")

// Table has the decisions of one function. The zero value is empty.
type Table struct {
	kinds map[string]*situations
	count int
}

// situations has the situations of one kind. They are stored as numbers, since there may be a hundred thousand.
type situations struct {
	names     []string       // of the circumstances
	values    [][]string     // all values of the circumstance with the same index
	rows      map[string]int // the decision's index, by a situation: a byte for each circumstance, the index of its value
	decisions []string
}

// Row adds a situation of a kind: the decision, and the circumstances as names and values in turn. All situations of a
// kind have the same circumstances, the most important ones first. A name may be empty. Row panics if a situation has
// had another decision before.
func (t *Table) Row(kind, decision string, circumstances ...any) {
	if t.kinds == nil {
		t.kinds = map[string]*situations{}
	}
	s := t.kinds[kind]
	if s == nil {
		s = &situations{values: make([][]string, len(circumstances)/2), rows: map[string]int{}}
		for i := range s.values {
			s.names = append(s.names, circumstances[2*i].(string))
		}
		t.kinds[kind] = s
	}
	row := make([]byte, len(s.names))
	for i, name := range s.names {
		if circumstances[2*i] != name {
			panic(fmt.Sprintf("golden: %s has the circumstance %v where it had %s", kind, circumstances[2*i], name))
		}
		row[i] = byte(index(&s.values[i], fmt.Sprint(circumstances[2*i+1])))
	}
	decided := index(&s.decisions, decision)
	if old, known := s.rows[string(row)]; !known {
		s.rows[string(row)] = decided
		t.count++
	} else if old != decided {
		panic(fmt.Sprintf("golden: %s, %v: %s, and %s", kind, circumstances, s.decisions[old], decision))
	}
}

// index returns the index of a word in all. A word that is not in it is added.
func index(all *[]string, word string) int {
	i := slices.Index(*all, word)
	if i < 0 {
		i = len(*all)
		*all = append(*all, word)
	}
	return i
}

// lines returns the decisions as a tree, with a line for each leaf. It leaves out circumstances that make no
// difference, and joins values that lead to the same decisions.
func (s *situations) lines(kind string) (lines []string) {
	rows := slices.Sorted(maps.Keys(s.rows))
	var needed []int
	for i := range s.names {
		needed = append(needed, i)
	}
	for i := range slices.Backward(s.names) {
		at := slices.Index(needed, i)
		if fewer := slices.Delete(slices.Clone(needed), at, at+1); s.decidedBy(rows, fewer) {
			needed = fewer
		}
	}
	for _, line := range s.branch(rows, needed) {
		lines = append(lines, kind+":"+line)
	}
	return lines
}

// decidedBy reports whether the decisions of rows depend on these circumstances only.
func (s *situations) decidedBy(rows []string, circumstances []int) bool {
	known, key := map[string]int{}, make([]byte, len(circumstances))
	for _, row := range rows {
		for i, c := range circumstances {
			key[i] = row[c]
		}
		decided, seen := known[string(key)]
		if !seen {
			known[string(key)] = s.rows[row]
		} else if decided != s.rows[row] {
			return false
		}
	}
	return true
}

// branch returns the lines of the rows of one branch of the tree. needed are the circumstances, by their indices, on
// which the decision may still depend.
func (s *situations) branch(rows []string, needed []int) (lines []string) {
	for s.decidedBy(rows, nil) || s.decidedBy(rows, needed[1:]) {
		if s.decidedBy(rows, nil) {
			return []string{" -> " + s.decisions[s.rows[rows[0]]]}
		}
		needed = needed[1:]
	}
	c := needed[0]
	byLines := map[string][]string{} // the values of c, by the lines below them
	for i, value := range s.values[c] {
		var those []string
		for _, row := range rows {
			if int(row[c]) == i {
				those = append(those, row)
			}
		}
		if len(those) > 0 {
			below := strings.Join(s.branch(those, needed[1:]), "\n")
			byLines[below] = append(byLines[below], value)
		}
	}
	for below, values := range byLines {
		slices.Sort(values)
		text := " " + s.names[c] + "=" + strings.Join(values, "|")
		switch all := strings.Join(values, "|"); {
		case all == "true":
			text = " " + s.names[c]
		case all == "false":
			text = " !" + s.names[c]
		case s.names[c] == "":
			text = " " + all
		}
		for _, line := range strings.Split(below, "\n") {
			lines = append(lines, text+line)
		}
	}
	slices.Sort(lines)
	return lines
}

// text returns the content of the table's file.
func (t *Table) text() string {
	var lines []string
	for kind, s := range t.kinds {
		lines = append(lines, s.lines(kind)...)
	}
	slices.Sort(lines)
	return fmt.Sprintf("# %d situations, each with the circumstances on which the decision depends.\n%s\n",
		t.count, strings.Join(lines, "\n"))
}

// Compare fails the test if the table is not the one in testdata/name.golden, and shows the first rows that differ.
// With the flag -update it writes the file instead.
func (t *Table) Compare(tb testing.TB, name string) {
	tb.Helper()
	file := filepath.Join("testdata", name+".golden")
	got := t.text()
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			tb.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatalf("%v (-update writes it)", err)
	}
	if diff := difference(strings.ReplaceAll(string(want), "\r\n", "\n"), got); diff != "" {
		tb.Errorf("%s differs (-update writes it anew, if the change is meant):\n%s", file, diff)
	}
}

// maxShown limits the lines of a difference that are shown.
const maxShown = 20

// difference returns the first lines that only one of two sorted texts has; "" if there is none.
func difference(want, got string) string {
	var out []string
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	has := func(lines []string) map[string]bool {
		m := map[string]bool{}
		for _, line := range lines {
			m[line] = true
		}
		return m
	}
	inA, inB := has(a), has(b)
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(a) > 0 && !inB[a[0]]:
			out, a = append(out, "- "+a[0]), a[1:]
		case len(b) > 0 && !inA[b[0]]:
			out, b = append(out, "+ "+b[0]), b[1:]
		default:
			a, b = a[min(1, len(a)):], b[min(1, len(b)):]
		}
	}
	if len(out) > maxShown {
		out = append(out[:maxShown], fmt.Sprintf("… and %d more", len(out)-maxShown))
	}
	return strings.Join(out, "\n")
}

// CompareBlock fails the test if a file has another text than this between the lines <!-- name --> and <!-- end name
// -->. With the flag -update it writes the text there instead.
func CompareBlock(tb testing.TB, file, name, text string) {
	tb.Helper()
	all, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end "+name+" -->\n"
	head, rest, found := strings.Cut(string(all), begin)
	old, tail, ended := strings.Cut(rest, end)
	switch {
	case !found || !ended:
		tb.Fatalf("%s has no lines %q and %q", file, begin, end)
	case *update:
		if err := os.WriteFile(file, []byte(head+begin+text+end+tail), 0o644); err != nil {
			tb.Fatal(err)
		}
	case old != text:
		tb.Errorf("%s, %s differs (-update writes it anew, if the change is meant):\n%s", file, name, difference(old, text))
	}
}
