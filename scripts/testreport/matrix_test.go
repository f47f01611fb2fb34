package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Cells are added up, a failure stays one, and what was not told shows.
func TestMatrix(t *testing.T) {
	said := func(where, line string) string {
		pkg, test, _ := strings.Cut(where, " ")
		return fmt.Sprintf(`{"Action":"output","Package":"%s","Test":"%s","Output":"    a_test.go:7: %s\n"}`+"\n",
			pkg, test, line)
	}
	input := said("p TestA", "cell: both | lock | Go → Java | ok | 1") +
		said("p TestA", "cell: both | lock | Go → Java | ok | 2") +
		said("p TestB", "cell: both | barrier | mixed | ok | 1") +
		said("p TestB", "cell: both | barrier | Go → Java | ok | 1") +
		said("p TestC", "cell: both | barrier | Go → Java | FAILED | 1") +
		said("p TestC", "cell: both | barrier | Go → Java | ok | 1") +
		said("p TestC", "cell: of which nothing can be made") +
		said("q TestA", "cell: another | row | column | ok | 12") +
		said("m/q TestA", "ran on: 3 processes") + `{"Action":"pass","Package":"m/p","Test":"TestA/one"}
{"Action":"pass","Package":"m/p","Test":"TestA"}
{"Action":"fail","Package":"m/q","Test":"TestA"}
{"Action":"pass","Package":"m/p","Elapsed":1.5}
`
	var shown strings.Builder
	r := &report{to: &shown, output: map[string][]string{}}
	require.NoError(t, r.read(strings.NewReader(input)))
	shown.Reset()
	r.printTables()
	assert.Equal(t, `
both
           Go → Java  mixed
  lock             3      –
  barrier     FAILED      1

another
       column
  row      12

What ran: tests, seconds, and how many groups of servers were started
        tests  seconds  on 3 processes
  m/q  FAILED        –               1
  m/p       2        2               –
`, shown.String())
}
