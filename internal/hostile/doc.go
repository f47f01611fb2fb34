// Package hostile tests the whole library against a server that cannot be trusted. A man in the middle
// between a client and a true server (package zktest) garbles, drops, repeats and invents what the server
// says, as a script tells him. The script is a fuzz input. Meanwhile the client holds a lock and a lease, for
// which an honest client competes, keeps caches, and calls every operation. See docs/simulation.md, "A
// hostile server".
//
// The package has only tests: how a script is read (script_test.go), what the man in the middle does
// (man_test.go, tricks_test.go), what the client does (work_test.go), and what must hold (promises_test.go).
package hostile
