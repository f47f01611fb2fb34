package main

import (
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
	assert.Equal(t, 1, r.passed)
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
