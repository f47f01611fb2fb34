// Package promises tests the library's promises on real servers: a lost hold is known in time (P1), no operation
// crosses sessions (P2), nothing leaks (P3), no call outlives its context (P4).
//
// P1 is tested twice: on one server, where only the client's margin protects it, and on an ensemble whose members
// still reply after they have lost each other ([TestTroubleInAnEnsemble]). CURATOR_TEST_REPEAT is the number of times
// that each fault is injected there; 10 take about ten minutes:
//
//	CURATOR_TEST_REPEAT=10 ./run -timeout 60m -parallel 8 -run TroubleInAnEnsemble ./promises
package promises
