package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/go-curator/curator/cmd/internal/keeper"
	"github.com/go-curator/curator/cmd/internal/run"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/retry"
)

// holdCommand is shared by all commands that run a command under a hold.
type holdCommand struct {
	clientConnection
	grace   keeper.Grace
	minHold time.Duration
	jitter  time.Duration

	path    string   // of the lock, the election, the permits
	command []string // name and arguments
	program string   // where the command was found
	signals <-chan os.Signal
	client  *framework.Client
	cmd     *cobra.Command
}

func (u *holdCommand) flags(f *pflag.FlagSet) {
	f.DurationVar(&u.grace.Term, "grace", 0,
		"time between TERM and KILL (default: what the session timeout allows, up to 10s)")
	f.DurationVar(&u.grace.Kill, "kill-grace", 0,
		"time between KILL and the end of the hold (default: up to 500ms)")
	f.DurationVar(&u.minHold, "min-hold", 0, "keep the hold for at least this long, also if the command ends earlier")
	f.DurationVar(&u.jitter, "jitter", 0, "wait for a random time up to this before anything else")
	u.clientConnection.flags(f)
}

// commandHold is a hold under which a command is run.
type commandHold struct {
	run.Hold
	node    string
	token   int64  // fencing token; 0 if there is none
	slot    string // of once; "" for others
	release func(context.Context) error
}

// parseArguments takes PATH -- COMMAND….
func (u *holdCommand) parseArguments(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash == -1 || dash == len(args):
		return usageError("no command: write %s PATH -- COMMAND [ARGUMENT]…", cmd.CommandPath())
	case dash != 1:
		return usageError("one path is needed, %d are given: write %s PATH -- COMMAND [ARGUMENT]…", dash,
			cmd.CommandPath())
	}
	return u.checkArguments(cmd, args[0], args[1:])
}

// checkArguments takes the path and the command, and checks the times.
func (u *holdCommand) checkArguments(cmd *cobra.Command, path string, command []string) error {
	u.cmd, u.path, u.command = cmd, path, command
	var fault *zkpath.Error
	if errors.As(zkpath.Validate(path, false), &fault) {
		return usageError("invalid path %q: %s", path, fault.Reason)
	}
	for name, d := range map[string]time.Duration{
		"grace": u.grace.Term, "kill-grace": u.grace.Kill, "min-hold": u.minHold, "jitter": u.jitter,
	} {
		if d < 0 {
			return usageError("--%s %v is negative", name, d)
		}
	}
	return nil
}

// connectAndRun looks for the command, waits for the jitter and connects. f is called with a context that ends when a signal
// asks to end; stop ends that handling of signals, for another handler. Then the client is closed.
func (u *holdCommand) connectAndRun(f func(ctx context.Context, stop func()) error) (err error) {
	u.program, err = exec.LookPath(u.command[0])
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return programExit{exitNotFound, fmt.Errorf("%s: command not found", u.command[0])}
	case err != nil:
		return programExit{exitNotRunnable, err}
	}
	var ignore func()
	u.signals, ignore = run.Signals()
	defer ignore()
	ctx, stop := u.untilSignal(context.Background()) // in the prompt, too: Ctrl-C is the command's
	defer stop()
	if u.jitter > 0 {
		select {
		case <-time.After(rand.N(u.jitter)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if u.client, err = u.openClient(ctx, u.cmd); err != nil {
		return endCause(ctx, err)
	}
	defer u.closeClient(u.client)
	if _, err := u.fitGrace(); err != nil {
		return err
	}
	return endCause(ctx, f(ctx, stop))
}

// untilSignal is run.UntilAsked with a stop that may be called again.
func (u *holdCommand) untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, stop := run.UntilAsked(ctx, u.signals)
	stopped := false
	return ctx, func() {
		if !stopped {
			stopped = true
			stop()
		}
	}
}

// endCause is err, or the signal that has ended ctx and so caused err.
func endCause(ctx context.Context, err error) error {
	var asked run.Asked
	if err != nil && errors.As(context.Cause(ctx), &asked) {
		return asked
	}
	return err
}

// fitGrace returns the grace, with defaults for the parts that are not given, or an error if the session timeout is too
// short for it: the remaining time of a hold while the servers reply must be longer than the grace, or a command
// would be asked to end without a reason. A quarter of that remaining time is reserved for slow replies, and the
// grace is half of it by default.
func (u *holdCommand) fitGrace() (keeper.Grace, error) {
	g, safety := u.grace, u.client.Safety()
	if safety.Refused != nil {
		return g, safety.Refused
	}
	if !safety.Known {
		return g, nil // it is asked again under the hold, which is not there before it is known
	}
	if g.Kill == 0 {
		g.Kill = min(safety.Steady/6, 500*time.Millisecond)
	}
	most := safety.Steady * 3 / 4
	if g.Term == 0 {
		g.Term = max(min(safety.Steady/3, 10*time.Second, most-g.Kill), 0)
	}
	if g.Sum() > most {
		return g, usageError("--grace %v and --kill-grace %v are too long: with the session timeout of %v that the "+
			"servers have granted, a hold is certain for only %v at times, of which both together may take %v; "+
			"lower them, or raise --session-timeout (and maxSessionTimeout at the servers)",
			g.Term, g.Kill, safety.SessionTimeout, roundDuration(safety.Steady), roundDuration(most))
	}
	return g, nil
}

func roundDuration(d time.Duration) time.Duration { return d.Truncate(10 * time.Millisecond) }

// rejoiningClient is a client that tries to get into a line again and again until its caller's context ends.
func (u *holdCommand) rejoiningClient() *framework.Client {
	return u.client.UsingRetry(retry.RetryForever{Sleep: time.Second})
}

// runCommand runs the command under the hold, keeps the hold for at least --min-hold, and returns the outcome as the end of
// the program. It does not release.
func (u *holdCommand) runCommand(h commandHold) (run.Outcome, error) {
	grace, err := u.fitGrace()
	if err != nil {
		return run.Outcome{}, err
	}
	began := time.Now()
	outcome, err := run.Under(h.Hold, run.Command{
		Path: u.program, Args: u.command, Env: u.environment(h), Grace: grace, Signals: u.signals,
		NoInput: u.stdinIsScript(), Every: min(max(grace.Sum()/8, 5*time.Millisecond), 250*time.Millisecond),
	})
	if errors.Is(err, run.ErrNotRunnable) {
		return outcome, programExit{exitNotRunnable, err}
	}
	if err != nil && !outcome.Told {
		return outcome, programExit{exitFailure, err}
	}
	if outcome.Told {
		why := context.Cause(h.Context())
		if why == nil {
			why = errors.New("no server has replied for too long")
		}
		return outcome, programExit{exitLost, fmt.Errorf("%s was terminated: the hold of %s was lost or about to be "+
			"uncertain: %w", u.command[0], h.node, why)}
	}
	if outcome.Passed == nil {
		outcome.Passed = u.keepHold(h, u.minHold-time.Since(began))
	}
	return outcome, programExit{code: outcome.Status}
}

// stdinIsScript reports whether standard input has the lines of a prompt, which are not for the command.
func (u *holdCommand) stdinIsScript() bool {
	return u.shared != nil && !term.IsTerminal(int(os.Stdin.Fd()))
}

// keepHold keeps the hold for a while, until a signal asks to end, which it returns, or the hold is lost.
func (u *holdCommand) keepHold(h commandHold, d time.Duration) os.Signal {
	if d <= 0 {
		return nil
	}
	ctx, stop := u.untilSignal(h.Context())
	defer stop()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	var asked run.Asked
	errors.As(context.Cause(ctx), &asked)
	return asked.Signal
}

// environment returns the command's environment. It has no variables of an outer hold.
func (u *holdCommand) environment(h commandHold) []string {
	var env []string
	own := []string{"CURATOR_PATH=", "CURATOR_NODE=", "CURATOR_TOKEN=", "CURATOR_DEADLINE=", "CURATOR_SLOT="}
next:
	for _, v := range os.Environ() {
		for _, name := range own {
			if strings.HasPrefix(v, name) {
				continue next
			}
		}
		env = append(env, v)
	}
	until := time.Now().Add(h.Remaining()).UTC().Format("2006-01-02T15:04:05.000Z")
	env = append(env, "CURATOR_PATH="+u.path, "CURATOR_NODE="+h.node, "CURATOR_DEADLINE="+until)
	if h.token != 0 {
		env = append(env, "CURATOR_TOKEN="+strconv.FormatInt(h.token, 10))
	}
	if h.slot != "" {
		env = append(env, "CURATOR_SLOT="+h.slot)
	}
	return env
}
