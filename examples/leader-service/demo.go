package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/go-curator/curator/zktest"
)

const copies = 3

// demo is a running demonstration.
type demo struct {
	timeout time.Duration // of the sessions
	out     io.Writer
	began   time.Time
	lines   chan line // the copies' output
	all     []*process
	leader  *process
}

// demonstrate shows three copies, a graceful hand-over and a fail-over, and checks how long they take.
func demonstrate(ctx context.Context, s settings, out io.Writer) error {
	// A quarter, since the server grants two ticks or more.
	server, err := zktest.NewServer(zktest.Config{Listen: "127.0.0.1:0", TickTime: s.timeout / 4})
	if err != nil {
		return fmt.Errorf("starting the in-process ZooKeeper: %w", err)
	}
	defer server.Close()
	fmt.Fprintf(out, "in-process ZooKeeper at %s ", server.Addr())
	fmt.Fprintf(out, "(give -servers to run one copy of the service with your own)\n\n")
	ctx, cancel := context.WithTimeout(ctx, time.Minute+2*s.timeout)
	defer cancel()
	d := &demo{timeout: s.timeout, out: out, began: time.Now(), lines: make(chan line, 100)}
	defer d.endAll()
	for i := range copies {
		p, err := start(fmt.Sprintf("copy %d", i+1), func(l line) {
			select {
			case d.lines <- l:
			case <-ctx.Done():
			}
		}, "-servers", server.Addr(), "-path", s.path, "-session-timeout", s.timeout.String(), "-until-eof")
		if err != nil {
			return err
		}
		d.all = append(d.all, p)
	}
	if err := d.play(ctx); err != nil {
		return err
	}
	left, err := server.Children(s.path + "/election")
	if err != nil || len(left) > 0 {
		return fmt.Errorf("nodes left behind: %v; error of the listing: %v", left, err)
	}
	fmt.Fprintf(out, "\nleader-service: %d copies led one after the other, and nothing is left behind\n",
		copies)
	return nil
}

func (d *demo) play(ctx context.Context) error {
	if _, err := d.next(ctx); err != nil {
		return err
	}
	for _, p := range d.all {
		answer, err := d.healthy(ctx, p)
		if err != nil {
			return err
		}
		d.say("%s is %s", p.name, answer)
	}
	for _, p := range d.all {
		if p != d.leader {
			answer, err := p.ask(ctx, "POST", "/work")
			if err != nil {
				return err
			}
			d.say("%s was asked to work: %s, where it redirects to", p.name, answer)
			if answer != "done by "+d.leader.address {
				return fmt.Errorf("the work was not done by the leader, %s at %s",
					d.leader.name, d.leader.address)
			}
		}
	}

	former := d.leader
	d.say("SIGTERM for %s", former.name)
	asked := time.Now()
	if err := former.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	at, err := d.next(ctx)
	if err != nil {
		return err
	}
	d.say("handed over in %v", at.Sub(asked).Round(time.Millisecond))
	if took := at.Sub(asked); took > d.timeout/2 {
		return fmt.Errorf("a graceful hand-over took too long: %v", took)
	}
	if former.end(); former.err != nil {
		return fmt.Errorf("%s: %w", former.name, former.err)
	}

	former = d.leader
	d.say("SIGKILL for %s, whose session lasts %v", former.name, d.timeout)
	asked = time.Now()
	if err := former.cmd.Process.Kill(); err != nil {
		return err
	}
	if at, err = d.next(ctx); err != nil {
		return err
	}
	d.say("replaced after %v", at.Sub(asked).Round(time.Millisecond))
	if took := at.Sub(asked); took > d.timeout*3/2 {
		return fmt.Errorf("the leader was killed and replaced only after %v", took)
	}
	answer, err := d.healthy(ctx, d.leader)
	if err != nil {
		return err
	}
	d.say("%s is %s", d.leader.name, answer)
	if err := d.leader.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	d.endAll()
	return d.leader.err
}

// next waits until another copy leads, and prints the output of all copies until then.
func (d *demo) next(ctx context.Context) (at time.Time, err error) {
	for {
		l, err := d.hear(ctx)
		if err != nil {
			return at, fmt.Errorf("no instance leads: %w", err)
		}
		if strings.HasPrefix(l.text, "leading") {
			d.leader = l.from
			return l.at, nil
		}
	}
}

// hear waits for the next line of any copy.
func (d *demo) hear(ctx context.Context) (line, error) {
	select {
	case l := <-d.lines:
		d.say("%s: %s", l.from.name, l.text)
		if address, ok := strings.CutPrefix(l.text, "serving "); ok {
			l.from.address = address
		}
		return l, nil
	case <-ctx.Done():
		return line{}, context.Cause(ctx)
	}
}

// healthy waits until a copy leads or follows.
func (d *demo) healthy(ctx context.Context, p *process) (string, error) {
	for p.address == "" {
		if _, err := d.hear(ctx); err != nil {
			return "", fmt.Errorf("%s does not serve: %w", p.name, err)
		}
	}
	for {
		answer, err := p.ask(ctx, "GET", "/healthz")
		if err == nil && (strings.HasPrefix(answer, "leading") || strings.HasPrefix(answer, "following")) {
			return answer, nil
		}
		if ctx.Err() != nil {
			return "", errors.Join(err, fmt.Errorf("%s: %s: %w", p.name, answer, context.Cause(ctx)))
		}
		sleep(ctx, 10*time.Millisecond)
	}
}

// endAll ends the copies that are left. Calling it again does nothing.
func (d *demo) endAll() {
	for _, p := range d.all {
		p.end()
	}
	for len(d.lines) > 0 {
		_, _ = d.hear(context.Background())
	}
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "%7.3fs  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}
