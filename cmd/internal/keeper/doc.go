// Package keeper ends a command before its hold can pass to another contender.
//
// The keeper is a process: the program itself, started with [Word] as its first argument. It is the parent of the
// command. Its own parent, the process with the session, sends it repeatedly the time until which the hold is certain
// ([Until]). When that time comes near, or when its parent has ended, the keeper ends the command: first by TERM, and
// in time by KILL. A crash, SIGKILL or SIGSTOP of the parent cannot prevent that, since the keeper needs no further
// word. [decide] has the rules.
//
// A command has ended when all processes that it has started have: its process group is empty, and on Linux all of
// its descendants have ended, whatever their group or session.
package keeper
