// Package growth measures how what things cost grows with how many of them there are: waiters, sessions, holds,
// nodes of a cache, clients after a change of leader. The usual test goes to a hundred of each, and fails if a
// hundred cost more apiece than they should. `make bench-growth` goes on, and writes docs/measured.md.
package growth
