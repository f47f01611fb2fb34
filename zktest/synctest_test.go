package zktest_test

import "testing"

// Its code is in an Example's file, which documentation shows whole if it has no test.
func TestReports(t *testing.T) { testReports(t) }
