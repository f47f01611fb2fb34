// Package keeper sees to it that a command is over before the hold under which it runs can pass on.
//
// The keeper is a process: the program itself, started with [Word] as its first argument. It is the parent of
// the command. The process that has the session, its own parent, tells it again and again until when the hold
// is certain ([Until]). When that time comes near, or when nothing can be told any more because the parent is
// gone, it ends the command: first by TERM, and in time by KILL. Nothing that happens to the parent (a crash,
// SIGKILL, SIGSTOP) keeps it from that, since it needs no further word. [decide] says when it does what.
//
// Over is the command when nothing that it has started is left: its process group is empty, and on Linux every
// process is gone that descends from it, whatever group or session that has moved to.
package keeper
