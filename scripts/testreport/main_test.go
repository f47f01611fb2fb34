package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	input := `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"of no interest\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: figure: 3 ms at most\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}
{"Action":"pass","Package":"p","Test":"TestQuick","Elapsed":0.9}
{"Action":"output","Package":"p","Test":"TestB/sub","Output":"what went wrong\n"}
{"Action":"fail","Package":"p","Test":"TestB/sub","Elapsed":0}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestC","Output":"no server\n"}
{"Action":"skip","Package":"p","Test":"TestC","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestD","Output":"    d_test.go:7: lacks: ZooKeeper 3.5.10 has no whoAmI (since 3.7.0)\n"}
{"Action":"skip","Package":"p","Test":"TestD","Elapsed":0}
{"Action":"output","Package":"p","Output":"found unexpected goroutines\n"}
{"Action":"fail","Package":"p","Elapsed":2}
{"Action":"skip","Package":"q","Elapsed":0}
{"ImportPath":"x","Action":"build-output","Output":"x.go:1: syntax error\n"}
not JSON
`
	var shown strings.Builder
	r := &report{to: &shown, output: map[string][]string{}}
	require.NoError(t, r.read(strings.NewReader(input)))
	assert.Equal(t, 2, r.passed)
	assert.Equal(t, 3, r.failed)
	assert.Equal(t, 1, r.skipped)
	assert.Equal(t, 1, r.lacking)
	assert.Equal(t, 1, r.packages)
	assert.Equal(t, `                 3 ms at most
pass    1.50s   TestA
what went wrong
fail    0.00s   TestB
no server
skip    0.00s   TestC
    d_test.go:7: lacks: ZooKeeper 3.5.10 has no whoAmI (since 3.7.0)
skip    0.00s   TestD
found unexpected goroutines
fail    2.00s p
x.go:1: syntax error
not JSON
`, shown.String())
}

// A quick package is left out of the table unless it needed servers, and the slowest tests are shown, of all packages.
func TestTheSlowest(t *testing.T) {
	var input strings.Builder
	for i := range 12 {
		fmt.Fprintf(&input, `{"Action":"pass","Package":"github.com/go-curator/curator/q%d","Test":"TestQ","Elapsed":%d.25}`+"\n",
			i%2, (i*5)%12)
	}
	input.WriteString(`{"Action":"pass","Package":"github.com/go-curator/curator/q0","Test":"TestQ/part","Elapsed":99}
{"Action":"output","Package":"github.com/go-curator/curator","Test":"TestR","Output":"ran on: one process"}
{"Action":"pass","Package":"github.com/go-curator/curator","Test":"TestR","Elapsed":0.1}
{"Action":"pass","Package":"github.com/go-curator/curator","Elapsed":0.1}
{"Action":"pass","Package":"github.com/go-curator/curator/q0","Elapsed":0.1}
{"Action":"pass","Package":"github.com/go-curator/curator/q1","Elapsed":12}
`)
	var shown strings.Builder
	r := &report{to: &shown, output: map[string][]string{}}
	require.NoError(t, r.read(strings.NewReader(input.String())))
	shown.Reset()
	r.printTables()
	r.printSlowest()
	assert.Equal(t, `
What ran: tests, seconds, and how many groups of servers were started
      tests  seconds  on one process
  q1      6       12               –
  .       1        0               1

The slowest tests
    11.25s  q1 TestQ
    10.25s  q0 TestQ
     9.25s  q1 TestQ
     8.25s  q0 TestQ
     7.25s  q1 TestQ
     6.25s  q0 TestQ
     5.25s  q1 TestQ
     4.25s  q0 TestQ
     3.25s  q1 TestQ
     2.25s  q0 TestQ
`, shown.String())
}
