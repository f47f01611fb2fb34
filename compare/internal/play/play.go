package play

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-curator/curator/compare/internal/contender"
	"github.com/go-curator/curator/compare/internal/judge"
	"github.com/go-curator/curator/compare/internal/ledger"
	"github.com/go-curator/curator/compare/internal/ways"
	"github.com/go-curator/curator/compare/servers"
)

// Result is the result of one play.
type Result struct {
	Way, Fault string
	judge.Verdict
	// ForEver is set if the lock was not granted for as long as Patience after the last fault was over.
	ForEver bool
	// Locked are the times that others had to wait for the lock, of killed-asking.
	Locked []time.Duration
	Lease  time.Duration
	Took   time.Duration
}

// Patience is the time without a grant, after the last fault, that is called for ever. go-zookeeper waits for ten
// timeouts' two thirds, 27 s with a lease of 4 s, for a server that accepts and does not reply.
const Patience = 45 * time.Second

// begins is the time that the contenders have until they take turns; a machine may be busy.
const begins = 90 * time.Second

// errMissed means that the hold ended before the fault struck.
var errMissed = errors.New("the hold was over before the fault began")

type play struct {
	kind    ways.Kind
	fault   Fault
	lease   time.Duration
	dir     string
	program string

	server     servers.Server
	stores     servers.Server // where the way's acts write to; nil for most
	store      string         // its address
	contenders []*party
	writer     *ledger.Writer
	reader     *ledger.Reader
	lines      []ledger.Line
	victim     *party
	victimHold int
	down       int // server
	locked     []time.Duration
	forever    bool
}

// Run plays a fault with a way. Its files stay in dir.
func Run(program, dir string, kind ways.Kind, fault Fault, lease time.Duration) (r Result, err error) {
	for range 3 {
		if err = os.RemoveAll(dir); err != nil {
			return r, err
		}
		r, err = once(program, dir, kind, fault, lease)
		if !errors.Is(err, errMissed) {
			break
		}
	}
	return r, err
}

func once(program, dir string, kind ways.Kind, fault Fault, lease time.Duration) (r Result, err error) {
	began := time.Now()
	p := &play{kind: kind, fault: fault, lease: lease, dir: dir, program: program}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return r, err
	}
	path := filepath.Join(dir, "ledger")
	if p.writer, err = ledger.Append(path); err != nil {
		return r, err
	}
	if p.reader, err = ledger.Open(path); err != nil {
		return r, err
	}
	if p.server, err = servers.Start(kind.Server, dir, fault.servers); err != nil {
		return r, err
	}
	if kind.Store != "" {
		if p.stores, err = servers.Start(kind.Store, filepath.Join(dir, "store"), servers.Options{}); err != nil {
			return r, err
		}
		p.store = p.stores.Addrs()[0]
	}
	act := p.act
	if fault.other != nil {
		act = func() error { return fault.other(p) }
	}
	if err := act(); err != nil {
		return r, err
	}
	if err := p.read(); err != nil {
		return r, err
	}
	return Result{Way: kind.ID, Fault: fault.ID, Verdict: judge.Judge(p.lines), ForEver: p.forever, Locked: p.locked,
		Lease: lease, Took: time.Since(began)}, nil
}

func (p *play) close() (err error) {
	for _, c := range p.contenders {
		if c.stopped {
			_ = c.kill()
		}
		c.quit()
	}
	for _, s := range []servers.Server{p.server, p.stores} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	for _, f := range []interface{ Close() error }{p.writer, p.reader} {
		err = errors.Join(err, f.Close())
	}
	return err
}

// act is the usual play: contenders take turns, the fault strikes a holder, and is over.
func (p *play) act() error {
	for i := range 3 {
		c, err := start(p.program, p.dir, fmt.Sprint("c", i+1), p.kind, p.server.Addrs(), p.store, p.lease, 0, false)
		if err != nil {
			return err
		}
		p.contenders = append(p.contenders, c)
		for j, link := range c.links {
			if p.fault.spread && j != i {
				link.Cut() // until it has found the other
			}
		}
	}
	if err := p.must(begins, "they take turns", func() bool {
		who := map[string]bool{}
		for _, l := range p.lines {
			if l.Event == ledger.End {
				who[l.Who] = true
			}
		}
		return len(who) == 3 || !p.fault.spread && (len(who) == 2 || p.count(ledger.End, 0) >= 10)
	}); err != nil {
		return err
	}
	if pair, ok := p.server.(*servers.Pair); ok && p.fault.ID == "promoted" {
		pair.Lag()
		time.Sleep(p.lease + p.lease/4) // the locks that the replica knows of have expired
	}
	for _, c := range p.contenders {
		if p.fault.spread {
			c.heal()
		}
	}
	hold, staying := p.length(p.fault.hold)
	if err := p.each(p.contenders, "next %v", hold); err != nil {
		return err
	}
	if err := p.must(begins, "a hold begins", p.someoneHolds); err != nil {
		return err
	}
	others := p.others()
	next := 50 * time.Millisecond // for a moment, as usual
	if p.fault.next != nil {
		next = p.fault.next(p.lease)
	}
	if err := p.each(others, "next %v", next); err != nil {
		return err
	}
	struck := ledger.Now()
	if err := p.note(ledger.Fault); err != nil {
		return err
	}
	if p.fault.begin != nil {
		if err := p.fault.begin(p); err != nil {
			return err
		}
	}
	if err := p.read(); err != nil {
		return err
	}
	for _, l := range p.lines {
		if l.Who == p.victim.id && l.Hold == p.victimHold && l.Event == ledger.End && l.At <= struck {
			return errMissed
		}
	}
	lasts := p.fault.lasts(p.lease)
	if p.fault.fixed {
		time.Sleep(lasts)
	} else {
		begun, err := p.await(lasts, func() bool { return p.grants(struck, others) > 0 })
		if err != nil {
			return err
		}
		if begun && p.fault.linger != nil {
			time.Sleep(p.fault.linger(p.lease))
		}
	}
	if p.fault.end != nil {
		if err := p.fault.end(p); err != nil {
			return err
		}
	}
	healed := ledger.Now()
	if err := p.note(ledger.Heal); err != nil {
		return err
	}
	// Let conflicts between the victim and the later holders appear.
	time.Sleep(time.Second)
	if staying && p.fault.ID != "killed" {
		if err := p.victim.say("leave"); err != nil {
			return err
		}
	}
	back, err := p.await(Patience, func() bool { return p.grants(healed, others) >= 3 })
	p.forever = !back && p.grants(healed, others) == 0
	return err
}

// length returns the length of a hold, by default until it is told to end if its lease is renewed.
func (p *play) length(said func(time.Duration) time.Duration) (d time.Duration, stays bool) {
	switch {
	case said != nil:
		return said(p.lease), false
	case p.kind.Lasts:
		return time.Hour, true
	}
	return p.lease * 3 / 8, false
}

// killAsking is the play of killed-asking.
func (p *play) killAsking() error {
	probe, err := start(p.program, p.dir, "probe", p.kind, p.server.Addrs(), p.store, p.lease, 0, true)
	if err != nil {
		return err
	}
	p.contenders = append(p.contenders, probe)
	for i, after := range []time.Duration{10, 30, 50, 90, 130, 210} {
		victim, err := start(p.program, p.dir, fmt.Sprint("v", i+1), p.kind, p.server.Addrs(), p.store, p.lease, 20*time.Millisecond, false)
		if err != nil {
			return err
		}
		p.contenders = append(p.contenders, victim)
		if err := p.must(begins, "it asks", func() bool {
			for _, l := range p.lines {
				if l.Who == victim.id && l.Event == ledger.Want {
					return true
				}
			}
			return false
		}); err != nil {
			return err
		}
		time.Sleep(after * time.Millisecond)
		asked := ledger.Now()
		if err := errors.Join(p.note(ledger.Fault), victim.kill(), probe.say("on")); err != nil {
			return err
		}
		ok, err := p.await(Patience, func() bool { return p.grants(asked, []*party{probe}) > 0 })
		if err != nil {
			return err
		}
		p.locked = append(p.locked, ledger.Now()-asked)
		if !ok {
			p.forever = true
			break
		}
		freed := ledger.Now()
		if err := probe.say("off"); err != nil {
			return err
		}
		if err := p.must(begins, "the probe rests", func() bool { return p.rests(probe, freed) }); err != nil {
			return err
		}
	}
	return nil
}

// rests reports whether a contender that was switched off has released.
func (p *play) rests(c *party, since time.Duration) bool {
	last := ledger.Line{}
	for _, l := range p.lines {
		if l.Who == c.id {
			last = l
		}
	}
	return (last.Event == ledger.Freed || last.Event == ledger.Refused) && ledger.Now()-max(last.At, since) > 300*time.Millisecond
}

func (p *play) note(e ledger.Event) error {
	return p.writer.Write(ledger.Line{At: ledger.Now(), Who: "runner", Event: e, Note: p.fault.ID})
}

func (p *play) each(contenders []*party, format string, args ...any) (err error) {
	for _, c := range contenders {
		err = errors.Join(err, c.say(format, args...))
	}
	return err
}

// someoneHolds finds the victim: a contender in a long hold.
func (p *play) someoneHolds() bool {
	for _, l := range p.lines {
		if l.Event != ledger.Begin || l.Note != contender.Long {
			continue
		}
		for _, c := range p.contenders {
			if c.id == l.Who {
				p.victim, p.victimHold = c, l.Hold
				return true
			}
		}
	}
	return false
}

func (p *play) others() (others []*party) {
	for _, c := range p.contenders {
		if c != p.victim {
			others = append(others, c)
		}
	}
	return others
}

func (p *play) count(e ledger.Event, since time.Duration) (n int) {
	for _, l := range p.lines {
		if l.Event == e && l.At > since {
			n++
		}
	}
	return n
}

// grants counts those to contenders since a time.
func (p *play) grants(since time.Duration, contenders []*party) (n int) {
	for _, l := range p.lines {
		for _, c := range contenders {
			if l.Event == ledger.Begin && l.At > since && l.Who == c.id {
				n++
			}
		}
	}
	return n
}

func (p *play) read() error {
	lines, err := p.reader.More()
	p.lines = append(p.lines, lines...)
	return err
}

// await reads the ledger until it is so, or for a while. Contenders that have ended by themselves are an error.
func (p *play) await(limit time.Duration, so func() bool) (bool, error) {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if err := p.read(); err != nil {
			return false, err
		}
		if so() {
			return true, nil
		}
		if time.Since(began) > limit {
			return false, nil
		}
		for _, c := range p.contenders {
			killed := c == p.victim && p.fault.ID == "killed" || p.fault.other != nil && c.id != "probe"
			if err := c.died(); err != nil && !killed {
				return false, err
			}
		}
	}
}

// must is await, and fails if the event does not come.
func (p *play) must(limit time.Duration, what string, so func() bool) error {
	ok, err := p.await(limit, so)
	if err == nil && !ok {
		var notes string
		for _, l := range p.lines {
			if l.Event == ledger.Trouble {
				notes = ": " + l.Note
			}
		}
		err = fmt.Errorf("%s with %s: not after %v that %s%s", p.kind.ID, p.fault.ID, limit, what, notes)
	}
	return err
}
