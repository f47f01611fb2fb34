// Package mutex lets the mutex meet Curator for Java on the same path of a real server, and counts what both send.
package mutex
