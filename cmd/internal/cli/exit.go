package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/go-curator/curator/cmd/internal/run"
	"github.com/go-curator/curator/cmd/internal/shell"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

// The exit codes of the program itself. A command's own status is returned unchanged.
const (
	exitNo           = 1 // not of the commands that run a command, whose status it may be
	exitNotAcquired  = 121
	exitLost         = 122
	exitNotConnected = 123
	exitUsage        = 124
	exitFailure      = 125
	exitNotRunnable  = 126
	exitNotFound     = 127
)

// exitCodes are listed in the help and in docs/cli.md.
var exitCodes = []struct {
	code, meaning string
}{
	{"0 to 255", "the command's own exit status, if it ended by itself"},
	{"1", "a negative result: no such node, another version, no permission; why, doctor: a problem was found"},
	{"121", "not acquired at once (--try) or within --wait, or the slot was begun; the command was not run"},
	{"122", "lost: the hold was lost or about to be uncertain, and the command was terminated"},
	{"123", "cannot connect: no server replied in time, or all refused"},
	{"124", "wrong usage: a flag, a path, a file, or a session timeout too short for holds or for the grace"},
	{"125", "anything else that went wrong in curator"},
	{"126", "the command was found and cannot be run"},
	{"127", "the command was not found"},
	{"128 + n", "signal n ended the command, or ended curator while it waited"},
}

func exitCodesHelp() string {
	const width = 98
	var s strings.Builder
	for _, c := range exitCodes {
		line := fmt.Sprintf("\n  %-8s ", c.code)
		for _, word := range strings.Fields(c.meaning) {
			if len(line)+1+len(word) > width {
				s.WriteString(line)
				line = "\n" + strings.Repeat(" ", 11)
			}
			line += " " + word
		}
		s.WriteString(line)
	}
	return s.String()
}

// programExit is the end of the program with a code. Without an error nothing is printed.
type programExit struct {
	code int
	err  error
}

func (e programExit) Error() string {
	if e.err == nil {
		return fmt.Sprint("exit status ", e.code)
	}
	return e.err.Error()
}

func (e programExit) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return programExit{exitUsage, fmt.Errorf(format, args...)}
}

// programExitOf returns the program's exit code for an error, and the message if there is one.
func programExitOf(err error) programExit {
	var known programExit
	var asked run.Asked
	is := func(any ...error) bool {
		for _, target := range any {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return programExit{}
	case errors.As(err, &known):
		return known
	case is(shell.ErrFound):
		return programExit{code: exitNo}
	case errors.As(err, &asked):
		return programExit{code: run.Status(asked.Signal)}
	case is(mutex.ErrNotAcquired):
		return programExit{exitNotAcquired, err}
	case is(shell.ErrNo):
		return programExit{exitNo, err}
	case is(shell.ErrLost):
		return programExit{exitLost, err}
	case is(shell.ErrUsage):
		return programExit{exitUsage, err}
	case is(framework.ErrInvalidOption, framework.ErrInvalidPath, framework.ErrInvalidConnectString,
		framework.ErrBadArguments, framework.ErrTimeoutTooShort, framework.ErrNoChroot):
		return programExit{exitUsage, err}
	case is(framework.ErrNotConnected, framework.ErrConnectionLoss, framework.ErrAuthFailed, framework.ErrTLS,
		framework.ErrSessionLost, framework.ErrNotReadOnly):
		return programExit{exitNotConnected, err}
	case is(context.DeadlineExceeded):
		return programExit{exitNotAcquired, err}
	case is(exec.ErrNotFound):
		return programExit{exitNotFound, err}
	}
	return programExit{exitFailure, err}
}
