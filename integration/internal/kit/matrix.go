package kit

import "testing"

// Cell tells the report of ../../run something for a table: ok or not, and of how many. What is told of one
// cell several times is added up, and once not ok it is FAILED. Names have no "|" in them.
func Cell(t testing.TB, table, row, column string, ok bool, n int) {
	t.Helper()
	verdict := "FAILED"
	if ok {
		verdict = "ok"
	}
	t.Logf("cell: %s | %s | %s | %s | %d", table, row, column, verdict, n)
}

// RanOn tells the report what this test runs on. The servers of package zkserver do it by themselves.
func RanOn(t testing.TB, what string) {
	t.Helper()
	t.Log("ran on: " + what)
}

// Direction says which of the two languages comes after which.
type Direction string

// The directions of Interop.
const (
	GoToJava Direction = "Go → Java"
	JavaToGo Direction = "Java → Go"
	Mixed    Direction = "mixed"
)

// Interop says that this test is one of Go beside Curator for Java, at a recipe, in some directions. The
// report's matrix tells how it ended.
func Interop(t testing.TB, recipe string, directions ...Direction) {
	t.Helper()
	t.Cleanup(func() {
		for _, direction := range directions {
			Cell(t, "Go and Curator for Java on the same nodes (tests)", recipe, string(direction), !t.Failed(), 1)
		}
	})
}
