// Package mutex tests the mutex beside Curator for Java on the same path of a real server, and counts the
// requests of both.
package mutex
