package semaphore

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
)

func TestJudge(t *testing.T) {
	lease := func(n int) string { return fmt.Sprintf("_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-lease-%010d", n) }
	for _, c := range []struct {
		what     string
		own      []string
		children []string
		max      int
		want     leaseVerdict
	}{
		{"alone", []string{lease(5)}, []string{lease(5)}, 1, granted},
		{"not listed", []string{lease(5)}, []string{lease(4)}, 5, nodeMissing},
		{"no list", []string{lease(5)}, nil, 5, nodeMissing},
		{"one of two is not listed", []string{lease(5), lease(6)}, []string{lease(6)}, 5, nodeMissing},
		{"the last one free", []string{lease(5)}, []string{lease(5), lease(2), lease(3)}, 3, granted},
		{"one too many", []string{lease(5)}, []string{lease(5), lease(2), lease(3)}, 2, overLimit},
		{"those behind do not count", []string{lease(5)}, []string{lease(6), lease(5), lease(7), lease(2)}, 2,
			granted},
		{"several count together", []string{lease(5), lease(6)}, []string{lease(6), lease(5), lease(2)}, 3,
			granted},
		{"several are too many together", []string{lease(5), lease(6)}, []string{lease(6), lease(5), lease(2)}, 2,
			overLimit},
		{"others in between", []string{lease(5), lease(7)}, []string{lease(6), lease(5), lease(7)}, 2, overLimit},
		{"the first number of all", []string{lease(0)}, []string{lease(0), lease(1)}, 1, granted},
		{"none at all", []string{lease(5)}, []string{lease(5)}, 0, overLimit},
		{"foreign children do not count", []string{lease(5)}, []string{"0", "aaa", lease(5), "lock-0000000001"}, 1,
			granted},
		{"a lease without a number counts", []string{lease(5)}, []string{"lease-", lease(5)}, 1, overLimit},
		{"whatever stands there", []string{lease(5)}, []string{"lease-zzzz", "lease-00000000007", lease(5)}, 2,
			overLimit},
		{"negative numbers count", []string{lease(5)}, []string{"lease--000000001", lease(5)}, 1, overLimit},
		{"plain names and others' prefixes", []string{lease(5)},
			[]string{"lease-0000000001", "_c_0123456789abcdef0123456789abcdef-lease-0000000002", lease(5)}, 2, overLimit},
		{"the end of the counter", []string{lease(2146435072)}, []string{lease(2146435072)}, 5, numbersExhausted},
		{"the number before", []string{lease(2146435071)}, []string{lease(2146435071)}, 5, granted},
		{"beyond the end", []string{"lease--000000001"}, []string{"lease--000000001"}, 5, numbersExhausted},
		{"no number", []string{"lease-"}, []string{"lease-"}, 5, numbersExhausted},
	} {
		require.Equal(t, c.want, leaseSnapshot{children: c.children, max: c.max}.judgeNodes(c.own), c.what)
	}
}

// The rule alone, without a line: contenders create, list and delete at random, each by judge or, as Curator does, by the number
// of all children. Never more than max hold leases.
func TestJudgeNeverMakesTooMany(t *testing.T) {
	type contender struct {
		names []string
		java  bool
		holds bool
	}
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 0))
		max := 1 + random.IntN(5)
		var all []*contender
		next, grants := 0, 0
		for range 300 {
			var children []string
			for _, c := range all {
				children = append(children, c.names...)
			}
			random.Shuffle(len(children), func(i, j int) { children[i], children[j] = children[j], children[i] })
			switch i := random.IntN(3); {
			case len(all) == 0 || i == 0 && len(all) < 12:
				c := &contender{java: random.IntN(3) == 0}
				for range 1 + random.IntN(min(max, 3)) {
					c.names = append(c.names, fmt.Sprintf("lease-%010d", next))
					next++
				}
				all = append(all, c)
			case i == 1:
				c := all[random.IntN(len(all))]
				if c.java {
					c.holds = c.holds || len(children) <= max
				} else {
					c.holds = c.holds || leaseSnapshot{children: children, max: max}.judgeNodes(c.names) == granted
				}
			default:
				i := random.IntN(len(all))
				all = append(all[:i], all[i+1:]...)
			}
			held := 0
			for _, c := range all {
				if c.holds {
					held += len(c.names)
					grants++
				}
			}
			require.LessOrEqual(t, held, max, "seed %d", seed)
		}
		require.Positive(t, grants)
	}
}

// Three leases were created and two of them deleted: the next number is 3.
func TestCountCreated(t *testing.T) {
	require.EqualValues(t, 3, leaseSnapshot{dir: framework.Stat{Cversion: 5, NumChildren: 1}}.countCreated())
}
