// Package promises holds the library to its word on real servers: a lost hold is known in time (P1), no operation crosses sessions (P2),
// nothing leaks (P3), no call outlives its context (P4).
//
// P1 is told twice: on one server, where the client's margin is all there is, and on an ensemble whose members go on answering after they have
// lost each other ([TestTroubleInAnEnsemble]). CURATOR_TEST_REPEAT says how often each trouble is made there; 10 take about ten minutes:
//
//	CURATOR_TEST_REPEAT=10 ./run -timeout 60m -parallel 8 -run TroubleInAnEnsemble ./promises
package promises
