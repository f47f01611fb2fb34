// Package promises holds the library to its word on a real server: a lost hold is known in time (P1), no operation crosses sessions (P2),
// nothing leaks (P3), no call outlives its context (P4).
package promises
