// Package snippets has the code of README.md and of pages in docs as tests: it compiles, it runs, and the documents
// contain exactly that code. It also checks the links of all documents and the names in them.
//
// After a change of a snippet: go test ./docs/snippets -update
package snippets
