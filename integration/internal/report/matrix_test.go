package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Cells are added up, a failure stays one, and what was not told shows.
func TestMatrix(t *testing.T) {
	input := `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: cell: who beside whom | lock | Go → Java | ok | 1\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: cell: who beside whom | lock | Go → Java | ok | 2\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:7: cell: who beside whom | barrier | mixed | ok | 1\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:7: cell: who beside whom | barrier | Go → Java | ok | 1\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    a_test.go:7: cell: who beside whom | barrier | Go → Java | FAILED | 1\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    a_test.go:7: cell: who beside whom | barrier | Go → Java | ok | 1\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    a_test.go:7: cell: of which nothing can be made\n"}
{"Action":"output","Package":"q","Test":"TestA","Output":"    a_test.go:7: cell: another | row | column | ok | 12\n"}
{"Action":"output","Package":"m/q","Test":"TestA","Output":"    a_test.go:7: ran on: 3 processes\n"}
{"Action":"pass","Package":"m/p","Test":"TestA/one"}
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
who beside whom
           Go → Java  mixed
  lock             3      –
  barrier     FAILED      1

another
       column
  row      12

What ran: tests, seconds, and how many groups of servers were started
      tests  seconds  on 3 processes
  q  FAILED        –               1
  p       2        2               –
`, shown.String())
}
