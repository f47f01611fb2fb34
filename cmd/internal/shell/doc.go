// Package shell is what curator has for people's own hands: commands that read and change nodes and ask the
// servers, and a prompt in which they share one session. One file for each command. What they share:
//
//	host.go      where a command runs: alone with a client of its own, or in the prompt with the prompt's
//	errors.go    which errors are answers of the servers, and what to do about them
//	output.go    tables, JSON and lines of JSON; text.go and form.go make data safe to print
//	source.go    where data come from; question.go asks before a tree is deleted
//	prompt.go    the prompt; editor.go its line, words.go its syntax, complete.go and history.go
//
// Whatever nodes are called and contain, it cannot control the terminal: what is not printable is escaped.
package shell
