package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// matrix is a table that tests fill cell by cell: rows and columns stand in the order in which they were
// first heard of.
type matrix struct {
	name          string
	rows, columns []string
	cells         map[[2]string]cell
}

type cell struct {
	failed bool
	n      int
}

func (c cell) String() string {
	if c.failed {
		return "FAILED"
	}
	return strconv.Itoa(c.n)
}

// matrices are all tables, in the order in which they were first heard of.
type matrices []*matrix

// add takes "table | row | column | verdict | number", and says whether that is what it was.
func (all *matrices) add(line string) bool {
	fields := strings.Split(line, "|")
	if len(fields) != 5 {
		return false
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	n, err := strconv.Atoi(fields[4])
	if err != nil {
		return false
	}
	all.table(fields[0]).add(fields[1], fields[2], cell{fields[3] != "ok", n})
	return true
}

// add adds to a cell.
func (m *matrix) add(row, column string, c cell) {
	m.rows, m.columns = appendNew(m.rows, row), appendNew(m.columns, column)
	at := [2]string{row, column}
	before := m.cells[at]
	m.cells[at] = cell{before.failed || c.failed, before.n + c.n}
}

func (all *matrices) table(name string) *matrix {
	for _, m := range *all {
		if m.name == name {
			return m
		}
	}
	m := &matrix{name: name, cells: map[[2]string]cell{}}
	*all = append(*all, m)
	return m
}

func appendNew(list []string, name string) []string {
	for _, known := range list {
		if known == name {
			return list
		}
	}
	return append(list, name)
}

// print shows a table. Where nothing was told there is a dash.
func (m *matrix) print(to io.Writer) {
	lines := [][]string{append([]string{""}, m.columns...)}
	for _, row := range m.rows {
		line := []string{row}
		for _, column := range m.columns {
			text := "–"
			if c, told := m.cells[[2]string{row, column}]; told {
				text = c.String()
			}
			line = append(line, text)
		}
		lines = append(lines, line)
	}
	widths := make([]int, len(m.columns)+1)
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	fmt.Fprintf(to, "\n%s\n", m.name)
	for _, line := range lines {
		var b strings.Builder
		for i, text := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if i == 0 {
				b.WriteString("  " + text + pad)
			} else {
				b.WriteString("  " + pad + text)
			}
		}
		fmt.Fprintln(to, strings.TrimRight(b.String(), " "))
	}
}
