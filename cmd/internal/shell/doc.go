// Package shell has the commands of curator for interactive use: commands that read and change nodes and ask the
// servers, and a prompt whose commands share one session. One file for each command. The shared parts:
//
//	host.go      where a command runs: alone with its own client, or in the prompt with the prompt's
//	errors.go    which errors are answers of the servers, and what to do about them
//	output.go    tables, JSON and lines of JSON; text.go and form.go make data safe to print
//	source.go    where data come from; question.go asks before a tree is deleted
//	prompt.go    the prompt; editor.go its line, words.go its syntax, complete.go and history.go
//
// Names and data of nodes cannot control the terminal: unprintable characters are escaped.
package shell
