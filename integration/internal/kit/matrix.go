package kit

import "testing"

// Cell adds to a table of the report of ../../run: ok or not, and of how many. Several values for one cell are added
// up, and one that is not ok makes it FAILED. Names have no "|" in them.
func Cell(t testing.TB, table, row, column string, ok bool, n int) {
	t.Helper()
	verdict := "FAILED"
	if ok {
		verdict = "ok"
	}
	t.Logf("cell: %s | %s | %s | %s | %d", table, row, column, verdict, n)
}

// RanOn adds the servers of this test to the report. The servers of package zkserver do it by themselves.
func RanOn(t testing.TB, what string) {
	t.Helper()
	t.Log("ran on: " + what)
}

// Direction is the order of the two languages in a test.
type Direction string

// The directions of Interop.
const (
	GoToJava Direction = "Go → Java"
	JavaToGo Direction = "Java → Go"
	Mixed    Direction = "mixed"
)

// Interop marks this test as one of Go and Curator for Java together, at a recipe, in some directions. The report's
// matrix has its result.
func Interop(t testing.TB, recipe string, directions ...Direction) {
	t.Helper()
	t.Cleanup(func() {
		for _, direction := range directions {
			Cell(t, "Go and Curator for Java on the same nodes (tests)", recipe, string(direction), !t.Failed(), 1)
		}
	})
}
