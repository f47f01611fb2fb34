// Package growth measures how costs grow with the number of waiters, sessions, holds, nodes of a cache, and clients
// after a change of leader. The usual test uses up to a hundred of each, and fails if a hundred cost more apiece than
// they should. `make bench-growth` uses more, and writes docs/measured.md.
package growth
