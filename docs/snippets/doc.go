// Package snippets has the code of docs/from-java-curator.md, docs/from-go-zookeeper.md and
// docs/testing-your-service.md as tests: it compiles, it runs, and the documents contain exactly that code.
//
// After a change of a snippet: go test ./docs/snippets -update
package snippets
