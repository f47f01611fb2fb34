package inspect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/internal/zkpath"
)

func TestShapes(t *testing.T) {
	const (
		java  = "_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-"
		java2 = "_c_0a4b9f10-3c7a-4e57-8d0f-6a2f3b8c9d1e-"
		gozk  = "_c_a93543d469521474a43b550766a4711f-"
		kaz   = "5d41402abc4b2a76b9719d911017c592"
		kaz2  = "0cc175b9c0f1b6a831c399e269772661"
		uuid  = "d93c3b7d-b92f-47f8-97dd-71e653f1e8cf"
		ready = "ready"
	)
	for name, c := range map[string]struct {
		names            []string
		kind             Kind
		holders, waiting []string
		foreign          []string
	}{
		"nothing below": {nil, Leaf, nil, nil, nil},
		"unknown":       {[]string{"a", "b"}, Unknown, nil, nil, []string{"a", "b"}},
		"a mutex": {[]string{java2 + "lock-0000000002", gozk + "lock-0000000001", "x"}, Mutex,
			[]string{gozk + "lock-0000000001"}, []string{java2 + "lock-0000000002"}, []string{"x"}},
		"kazoo's lock": {[]string{kaz + "__lock__0000000007", kaz2 + "__lock__0000000008"}, Mutex,
			[]string{kaz + "__lock__0000000007"}, []string{kaz2 + "__lock__0000000008"}, nil},
		"Java and a kazoo": {[]string{kaz + "__lock__0000000001", java + "lock-0000000002", java2 + "lock-0000000003"},
			Mutex, []string{java + "lock-0000000002"}, []string{java2 + "lock-0000000003"},
			[]string{kaz + "__lock__0000000001"}},
		"readers, then a writer, then a reader": {
			[]string{"__READ__0000000003", "__WRIT__0000000002", "__READ__0000000001", "__READ__0000000000"},
			ReadWriteLock, []string{"__READ__0000000000", "__READ__0000000001"},
			[]string{"__WRIT__0000000002", "__READ__0000000003"}, nil},
		"a writer, and its own read lock": {
			[]string{java + "__READ__0000000005", "__WRIT__0000000005", "__WRIT__0000000006", "__READ__0000000007"},
			ReadWriteLock, []string{java + "__READ__0000000005", "__WRIT__0000000005"},
			[]string{"__WRIT__0000000006", "__READ__0000000007"}, nil},
		"its own read lock, listed after it": {
			[]string{"__WRIT__0000000005", java + "__READ__0000000005", "__READ__0000000007"}, ReadWriteLock,
			[]string{"__WRIT__0000000005", java + "__READ__0000000005"}, []string{"__READ__0000000007"}, nil},
		"a writer of two": {[]string{"__WRIT__0000000005", "__WRIT__0000000006"}, ReadWriteLock,
			[]string{"__WRIT__0000000005"}, []string{"__WRIT__0000000006"}, nil},
		"kazoo's readers": {[]string{kaz + "__rlock__0000000001", kaz2 + "__lock__0000000002"}, ReadWriteLock,
			[]string{kaz + "__rlock__0000000001"}, []string{kaz2 + "__lock__0000000002"}, nil},
		"a latch": {[]string{java + "latch-0000000001", "latch-0000000000"}, Latch,
			[]string{"latch-0000000000"}, []string{java + "latch-0000000001"}, nil},
		"a latch beside a selector": {[]string{"latch-0000000001", "latch-0000000002", "lock-0000000000"}, Latch,
			[]string{"latch-0000000001"}, []string{"latch-0000000002"}, []string{"lock-0000000000"}},
		"members":         {[]string{uuid, kaz}, Members, []string{kaz, uuid}, nil, nil},
		"an open barrier": {[]string{uuid, ready}, DoubleBarrier, []string{uuid}, nil, nil},
		"left open":       {[]string{ready}, DoubleBarrier, nil, nil, nil},
		"no lock of kazoo's": {[]string{"sem-__lock__", "__lock__", kaz + "__lock__x"}, Unknown, nil, nil,
			[]string{"sem-__lock__", "__lock__", kaz + "__lock__x"}},
		"Curator's leases": {[]string{"leases", "locks"}, Unknown, nil, nil, []string{"leases", "locks"}},
		"a queue": {[]string{"queue-0000000011", "queue-0000000002"}, Queue, nil,
			[]string{"queue-0000000002", "queue-0000000011"}, nil},
		"a queue with priorities": {[]string{"queue-1000000050000000000", "queue-0FFFFFFFF0000000001"}, Queue, nil,
			[]string{"queue-0FFFFFFFF0000000001", "queue-1000000050000000000"}, nil},
		"a queue with times": {[]string{"queue-|18BCFE56800|0000000000", "queue-|08BCFE56|0000000001"}, Queue, nil,
			[]string{"queue-|08BCFE56|0000000001", "queue-|18BCFE56800|0000000000"}, nil},
		"a queue with ids": {[]string{"queue-|z|0000000000", "queue-|a|0000000001"}, Queue, nil,
			[]string{"queue-|z|0000000000", "queue-|a|0000000001"}, nil},
		"kazoo's queue": {[]string{"entry-100-0000000000", "entry-002-0000000001"}, Queue, nil,
			[]string{"entry-002-0000000001", "entry-100-0000000000"}, nil},
		"a number that is written to":    {[]string{java + "mark"}, Number, nil, nil, nil},
		"a number that several write to": {[]string{java + "mark", java + "turn-0000000007"}, Number, nil, nil, nil},
		"a shard of a queue":             {[]string{"queue-" + uuid}, Unknown, nil, nil, []string{"queue-" + uuid}},
	} {
		s := classifyChildren(c.names)
		assert.Equal(t, c.kind, s.kind, name)
		assert.Equal(t, c.holders, namesOf(s.holders), name)
		assert.Equal(t, c.waiting, namesOf(s.waiting), name)
		assert.Equal(t, c.foreign, s.foreign, name)
	}
}

func namesOf(line []childEntry) (names []string) {
	for _, e := range line {
		names = append(names, e.name)
	}
	return names
}

func TestLibraries(t *testing.T) {
	for name, want := range map[string]Library{
		"_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-lock-0000000000":   Java,
		"_c_a93543d469521474a43b550766a4711f-lock-0000000000":       GoZookeeper,
		"5d41402abc4b2a76b9719d911017c592__lock__0000000000":        Kazoo,
		"5d41402abc4b2a76b9719d911017c592":                          Kazoo,
		"d93c3b7d-b92f-47f8-97dd-71e653f1e8cf":                      Java,
		zkpath.NewGUID():                                            Go,
		zkpath.Protect(zkpath.NewGUID(), "lock-0000000000"):         Go,
		"lock-0000000000":                                           "",
		"_c_":                                                       "",
		"_c_5d41402abc4b2a76b9719d911017c59":                        "",
		"entry-100-0000000000":                                      Kazoo,
		strings.Repeat("\xff", 40):                                  "",
		"_c_D93C3B7D-B92F-47F8-97DD-71E653F1E8CF-__READ__000000000": Java,
	} {
		assert.Equal(t, want, libraryOf(name), "%q", name)
	}
}

func TestNumbersUsed(t *testing.T) {
	for want, names := range map[int64][]string{
		0:           {"lock-", "x"},
		8:           {"lock-0000000007", "lock-0000000002"},
		maxSequence: {"lock-2147483647", "lock-0000000001"},
		12:          {"queue-|a|0000000011"},
	} {
		s := classifyChildren(names)
		assert.Equal(t, want, numbersUsed(append(s.holders, s.waiting...)), names)
	}
	over := classifyChildren([]string{"lock--2147483648"})
	assert.EqualValues(t, maxSequence, numbersUsed(over.holders), "it has run over")
}

func TestNumbers(t *testing.T) {
	for data, want := range map[string]int64{
		"42": 42, "-7": -7, "\x00\x00\x00\x07": 7, "\xff\xff\xff\xfe": -2,
		"\x00\x00\x00\x00\x00\x00\x01\x2d": 301, "12345678": 12345678,
	} {
		n, ok := parseNumber([]byte(data))
		assert.True(t, ok, "%q", data)
		assert.Equal(t, want, n, "%q", data)
	}
	for _, data := range []string{"", "x", "10.0.0.1", "text", "\x00\x00\x00", "123456789012345678901"} {
		_, ok := parseNumber([]byte(data))
		assert.False(t, ok, "%q", data)
	}
}

// For any names, each child is counted once, and nothing panics.
func FuzzShape(f *testing.F) {
	f.Add("lock-0000000000\n_c_a-lock-1\nready\n__lock__")
	f.Add("__READ__0000000001\n__WRIT__0000000001\nleases\nlocks")
	f.Add("queue-|zz|0000000001\nqueue-||0000000001\nqn-0000000001\nentry-")
	f.Fuzz(func(t *testing.T, text string) {
		all := strings.Split(text, "\n")
		s := classifyChildren(all)
		in := append(append(namesOf(s.holders), namesOf(s.waiting)...), s.foreign...)
		aside := 0 // ready, a mark
		for _, name := range all {
			r := parseChild(name).role
			if r == readyNode && s.kind == DoubleBarrier || r == counterNode && s.kind == Number {
				aside++
			}
		}
		assert.Equal(t, len(all), len(in)+aside)
		numbersUsed(append(s.holders, s.waiting...))
		if s.kind == Mutex || s.kind == Latch {
			assert.Len(t, s.holders, 1)
		}
	})
}
