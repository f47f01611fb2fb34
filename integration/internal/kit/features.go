package kit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/internal/jvm"
)

// Feature is a feature that only some of the tested releases have. Tests use [Has] and [Needs], and do not compare
// versions.
type Feature struct {
	what  string
	of    string
	since []string // the first release that has it, and the first of each older line that has it, too
}

var (
	PersistentWatches = Feature{"persistent watches and MultiRead", zooKeeper, []string{"3.6.0"}}
	// DowngradeInPlace (CURATOR-621): a read lock that Java downgrades to keeps the place of the write lock.
	DowngradeInPlace = Feature{"downgrades in place", curator, []string{"5.5.0"}}
	// EnableCompression: a Java client compresses the data of its recipes.
	EnableCompression = Feature{"enableCompression", curator, []string{"5.8.0"}}
)

const (
	zooKeeper = "ZooKeeper"
	curator   = "Curator"
)

// Has reports whether the release that the tests run on has a feature.
func Has(t testing.TB, f Feature) bool {
	t.Helper()
	return has(f, version(t, f))
}

// Needs skips the test on a release that lacks a feature, and logs which. The report of ../../run shows it.
func Needs(t testing.TB, features ...Feature) {
	t.Helper()
	for _, f := range features {
		if v := version(t, f); !has(f, v) {
			t.Skipf("lacks: %s %s has no %s (since %s)", f.of, v, f.what, strings.Join(f.since, ", "))
		}
	}
}

func version(t testing.TB, f Feature) string {
	t.Helper()
	of := jvm.ServerVersion
	if f.of == curator {
		of = jvm.CuratorVersion
	}
	v, err := of()
	require.NoError(t, err)
	return v
}

func has(f Feature, version string) bool {
	at := numbers(version)
	for i, since := range f.since {
		first := numbers(since)
		if (i == 0 || slices.Equal(at[:2], first[:2])) && slices.Compare(at, first) >= 0 {
			return true
		}
	}
	return false
}

// numbers returns the numbers of a release such as 3.8.0. It panics on anything else.
func numbers(version string) []int {
	var n []int
	for word := range strings.SplitSeq(version, ".") {
		i, err := strconv.Atoi(word)
		if err != nil {
			panic(fmt.Sprintf("%q is no release", version))
		}
		n = append(n, i)
	}
	return n
}
