// Package moving has the code of docs/choosing-a-lock.md, for moving to this library, as tests: it compiles, what
// needs no other servers runs, and the document contains exactly that code.
//
// After a change of a snippet: go test ./internal/moving -update
package moving
