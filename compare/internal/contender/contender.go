// Package contender is a process that repeatedly takes the lock and works under it, so that it can be killed and
// stopped as a whole. It executes the lines of its standard input:
//
//	next 1.5s   its next hold lasts so long (without a word, a hold lasts for a moment)
//	leave       its hold ends now
//	off         it stops taking the lock
//	on          it takes the lock again
//	clock       it records the time of its wall clock
//
// and ends with its input.
package contender

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-curator/curator/compare/internal/ledger"
	"github.com/go-curator/curator/compare/internal/ways"
)

const (
	moment = 50 * time.Millisecond // a hold's usual length
	pause  = 10 * time.Millisecond // between two acts
	limit  = 10 * time.Second      // for a release
)

// Long is the note of a hold whose length was given.
const Long = "long"

// Options are the arguments of a contender.
type Options struct {
	Kind   ways.Kind
	Config ways.Config
	Ledger string
	Off    bool // it waits for "on"
}

// contender is the state that commands change and the loop reads.
type contender struct {
	who    string
	ledger *ledger.Writer
	way    ways.Way
	ctx    context.Context

	mu    sync.Mutex
	off   bool
	next  time.Duration
	leave chan struct{} // closed by the command, replaced for each hold
	on    chan struct{} // closed when off ends
}

// Run contends until commands end.
func Run(o Options, commands io.Reader) error {
	l, err := ledger.Append(o.Ledger)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := &contender{who: o.Config.ID, ledger: l, ctx: ctx, off: o.Off, leave: make(chan struct{}), on: make(chan struct{})}
	opening, stop := context.WithTimeout(ctx, time.Minute)
	c.way, err = o.Kind.Open(opening, o.Config)
	stop()
	if err != nil {
		return fmt.Errorf("%s: %w", o.Kind.ID, err)
	}
	var loop sync.WaitGroup
	loop.Go(c.contend)
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		if err := c.command(lines.Text()); err != nil {
			return err
		}
	}
	cancel()
	c.mu.Lock()
	close(c.leave)
	c.leave = nil
	c.mu.Unlock()
	// A call that ignores ctx, as go-zookeeper's Lock does, ends with the process.
	ended := make(chan struct{})
	go func() {
		loop.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return errors.Join(c.way.Close(), lines.Err())
	case <-time.After(limit):
		return nil
	}
}

func (c *contender) command(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	switch word {
	case "next":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return err
		}
		c.next = d
	case "leave":
		close(c.leave)
		c.leave = make(chan struct{})
	case "off":
		c.off = true
	case "on":
		c.off = false
		close(c.on)
		c.on = make(chan struct{})
	case "clock":
		now, err := time.Now(), error(nil)
		if other, ok := c.way.(ways.Clocked); ok {
			ctx, cancel := context.WithTimeout(c.ctx, limit)
			defer cancel()
			now, err = other.Clock(ctx)
		}
		if err != nil {
			return err
		}
		c.note(0, ledger.Clock, 0, now.Format(time.RFC3339))
	default:
		return fmt.Errorf("there is no command %q", line)
	}
	return nil
}

func (c *contender) contend() {
	for n := 1; c.wanted(); {
		c.note(0, ledger.Want, 0, "")
		hold, err := c.way.Acquire(c.ctx)
		if err != nil {
			if c.ctx.Err() == nil {
				c.note(0, ledger.Trouble, 0, err.Error())
			}
			select {
			case <-c.ctx.Done():
			case <-time.After(2 * moment):
			}
			continue
		}
		c.hold(n, hold)
		n++
	}
}

// wanted waits until the lock is wanted. It returns false at the end.
func (c *contender) wanted() bool {
	for {
		c.mu.Lock()
		off, on := c.off, c.on
		c.mu.Unlock()
		if c.ctx.Err() != nil {
			return false
		}
		if !off {
			return true
		}
		select {
		case <-on:
		case <-c.ctx.Done():
			return false
		}
	}
}

// hold is the critical section.
func (c *contender) hold(n int, hold ways.Hold) {
	c.mu.Lock()
	length, note, leave := c.next, Long, c.leave
	c.next = 0
	c.mu.Unlock()
	if length == 0 {
		length, note = moment, ""
	}
	if leave == nil { // the process is to end
		length = 0
	}
	c.note(n, ledger.Begin, 0, note)
	// Work is a number of acts, not a time: a stopped process still has the rest of it to do.
	for left, away := int(length/pause), false; left > 0 && !away; left-- {
		order, err := c.act(hold)
		if err != nil {
			c.note(n, ledger.Told, 0, err.Error())
			break
		}
		c.note(n, ledger.Act, order, "")
		select {
		case <-leave:
			away = true
		case <-time.After(pause):
		}
	}
	c.note(n, ledger.End, 0, "")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), limit)
	defer cancel()
	if err := hold.Release(ctx); err != nil {
		c.note(n, ledger.Refused, 0, err.Error())
		return
	}
	c.note(n, ledger.Freed, 0, "")
}

// act executes an act before its line is written.
func (c *contender) act(hold ways.Hold) (order int64, err error) {
	if err := hold.Lost(); err != nil {
		return 0, err
	}
	if g, ok := hold.(ways.Guarded); ok {
		ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
		defer cancel()
		return g.Act(ctx)
	}
	return 0, nil
}

func (c *contender) note(hold int, event ledger.Event, order int64, note string) {
	err := c.ledger.Write(ledger.Line{At: ledger.Now(), Who: c.who, Hold: hold, Event: event, Order: order, Note: note})
	if err != nil {
		panic(err) // without its ledger a play is worth nothing
	}
}
