//go:build linux || darwin

package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-curator/curator/cmd/internal/clock"
	"github.com/go-curator/curator/cmd/internal/keeper"
)

// Under runs the command under the hold and returns when all processes of the command have ended, however long that
// takes. It returns an error if the command could not be started, or if its keeper was killed; then the remaining
// processes are killed, too.
func Under(hold Hold, c Command) (Outcome, error) {
	r := &commandRun{Command: c, hold: hold}
	keeper.Adopt() // the command, if the keeper is killed
	r.readDeadline()
	if err := r.startKeeper(); err != nil {
		return Outcome{}, fmt.Errorf("cannot start the command's keeper: %w", err)
	}
	err := r.followKeeper()
	r.words.Close()
	_ = r.keeper.Wait() // it has sent all reports, or was killed
	if err != nil && r.pid > 0 {
		killRemaining(r.pid)
	}
	return r.outcome, err
}

// commandRun is the state of Under's only loop.
type commandRun struct {
	Command
	hold    Hold
	keeper  *exec.Cmd
	words   *os.File
	reports <-chan keeper.Report
	until   time.Duration // the hold is certain until then, or was
	lost    bool          // it is not any more
	told    time.Duration // the time that the keeper was sent last
	pid     int           // of the command; 0 until it runs
	outcome Outcome
}

// readDeadline reads until when the hold is certain: the clock first, so that a pause in between only makes it less.
func (r *commandRun) readDeadline() {
	now := clock.Now()
	switch left := r.hold.Remaining(); {
	case left > 0:
		r.until = now + left
	case !r.lost:
		r.until, r.lost = now, true
	}
}

// startKeeper starts the keeper, with a pipe in either direction.
func (r *commandRun) startKeeper() error {
	self, err := programPath()
	if err != nil {
		return err
	}
	heard, words, err := os.Pipe()
	if err != nil {
		return err
	}
	defer heard.Close()
	reports, reported, err := os.Pipe()
	if err != nil {
		words.Close()
		return err
	}
	defer reported.Close()
	job := keeper.Job{Until: r.until, Grace: r.Grace, Path: r.Path, Command: r.Args}
	if job.Pipes, err = inheritPipes(heard, reported); err != nil {
		words.Close()
		reports.Close()
		return err
	}
	r.keeper = &exec.Cmd{
		Path: self, Args: append([]string{os.Args[0]}, job.Arguments()...),
		Env: r.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // no key pressed reaches it
	}
	if r.NoInput {
		r.keeper.Stdin = nil
	}
	if err := r.keeper.Start(); err != nil {
		words.Close()
		reports.Close()
		return err
	}
	r.words, r.told, r.reports = words, r.until, readReports(reports)
	return nil
}

// inheritPipes makes a keeper inherit its ends of the pipes under their present numbers: descriptors that this process
// was given for the command have others. No other process is started between this and the keeper.
func inheritPipes(heard, reported *os.File) (keeper.Pipes, error) {
	pipes := keeper.Pipes{Words: heard.Fd(), Reports: reported.Fd()}
	for _, fd := range []uintptr{pipes.Words, pipes.Reports} {
		if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
			return keeper.Pipes{}, err
		}
	}
	return pipes, nil
}

// readReports reads the keeper's reports until its end, which closes the channel.
func readReports(from io.ReadCloser) <-chan keeper.Report {
	reports := make(chan keeper.Report, 4)
	go func() { // it ends with the keeper
		defer close(reports)
		defer from.Close()
		for lines := bufio.NewScanner(from); lines.Scan(); {
			if report, err := keeper.ParseReport(lines.Text()); err == nil {
				reports <- report
			}
		}
	}()
	return reports
}

// errKeeper is returned if a command's keeper has ended before the command.
var errKeeper = errors.New("the command's keeper was killed, and the command with it")

func (r *commandRun) followKeeper() error {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	lost := r.hold.Context().Done()
	for {
		r.readDeadline()
		if r.until != r.told {
			r.sendMessage(keeper.Until(r.until))
			r.told = r.until
		}
		r.killIfOverdue()
		select {
		case <-tick.C:
		case <-lost:
			lost = nil
		case s := <-r.Signals:
			if slices.Contains(asks, s) {
				r.outcome.Passed = s
			}
			if number, ok := s.(syscall.Signal); ok {
				r.sendMessage(keeper.Pass(number))
			}
		case report, ok := <-r.reports:
			switch {
			case !ok:
				r.outcome.Told, r.outcome.Status = clock.Now() >= r.until-r.Grace.Sum(), 128+int(syscall.SIGKILL)
				return errKeeper
			case report.Failed != "":
				return fmt.Errorf("%s %w: %s", r.Args[0], ErrNotRunnable, report.Failed)
			case report.Ended:
				r.outcome.Status, r.outcome.Told = report.Status, report.Told
				return nil
			default:
				r.pid = report.Started
				defer foreground(r.pid)()
			}
		}
	}
}

// sendMessage sends the keeper a word. A stopped keeper does not read it, and is not waited for.
func (r *commandRun) sendMessage(word string) {
	_ = r.words.SetWriteDeadline(time.Now().Add(r.Every))
	_, _ = io.WriteString(r.words, word)
}

// killIfOverdue does the keeper's work if that is overdue: it kills the command when only half of Grace.Kill remains of the
// hold's time, and the keeper when that time ended Grace.Kill ago.
func (r *commandRun) killIfOverdue() {
	now := clock.Now()
	if r.pid > 0 && now >= r.until-r.Grace.Kill/2 {
		_ = syscall.Kill(-r.pid, syscall.SIGKILL)
	}
	if now >= r.until+r.Grace.Kill {
		_ = r.keeper.Process.Kill()
	}
}

// killRemaining kills the processes that a keeper has left, which this process has adopted, and waits for their end.
func killRemaining(group int) {
	reaped, alone := keeper.Reap(), false
	for !alone || !keeper.Gone(group) {
		keeper.Signal(group, syscall.SIGKILL)
		select {
		case _, ok := <-reaped:
			if !ok {
				reaped, alone = nil, true
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
}
