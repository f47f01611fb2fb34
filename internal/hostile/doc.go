// Package hostile tests the whole library against a server that cannot be trusted. A man in the middle between a
// client and a true server (package zktest) garbles, drops, repeats and invents replies and events, as a script
// commands. The script is a fuzz input. During the attack the client holds a lock and a lease, competes for them
// with an honest client, keeps caches, and calls every operation. See docs/simulation.md, "A hostile server".
//
// The package has only tests: the script's decoder (script_test.go), the man in the middle (man_test.go,
// tricks_test.go), the client's work (work_test.go), and the checks (promises_test.go).
package hostile
