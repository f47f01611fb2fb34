package node

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// working is a machine in session 1, with nothing under way.
func working(change func(*machine)) machine {
	m := machine{named: true, connected: true, heard: 1, joined: true, epoch: 1, made: true}
	if change != nil {
		change(&m)
	}
	return m
}

// standing is one whose node is there, with czxid 7.
func standing(m *machine) {
	m.known, m.watched, m.mine, m.certain = ours, true, 7, 7
}

func TestMachine(t *testing.T) {
	for _, c := range []struct {
		name  string
		from  machine
		event event
		then  action
		known known
		state State
	}{
		{"no connection yet", machine{named: true}, event{kind: stirred}, rest, blank, Unknown},
		{"connected", machine{named: true}, event{kind: connected, epoch: 1}, join, blank, Unknown},
		{"a session", machine{named: true, connected: true, heard: 1, busy: join}, event{kind: joined, epoch: 1},
			create, blank, Unknown},
		{"made", working(func(m *machine) { m.busy = create }),
			event{kind: created, epoch: 1, czxid: 7, latest: true}, look, ours, Unknown},
		{"seen", working(func(m *machine) { m.busy, m.known, m.mine = look, ours, 7 }),
			event{kind: seen, epoch: 1, whose: own, czxid: 7}, rest, ours, There},
		{"deleted before the look", working(func(m *machine) { m.busy, m.known, m.mine = look, ours, 7 }),
			event{kind: absent, epoch: 1}, create, gone, Missing},
		{"deleted", working(standing), event{kind: deleted}, create, gone, Missing},
		{"taken over, and the deletion of the other's is heard after that",
			working(func(m *machine) { m.busy, m.known, m.mine = look, ours, 7 }), event{kind: deleted}, rest, doubt, Unknown},
		{"changed", working(standing), event{kind: stirred}, look, ours, There},
		{"other data", working(standing), event{kind: asked}, set, ours, There},
		{"changed while they are written", working(func(m *machine) { standing(m); m.busy = set }),
			event{kind: stirred}, rest, ours, There},
		{"written, and deleted before that was told", working(func(m *machine) { m.busy, m.known = set, gone }),
			event{kind: written, epoch: 1, latest: true}, create, gone, Missing},
		{"suspended", working(standing), event{kind: suspended, epoch: 1}, rest, doubt, Unknown},
		{"back", working(func(m *machine) { m.connected, m.known, m.mine = false, doubt, 7 }),
			event{kind: connected, epoch: 1}, join, doubt, Unknown},
		{"back in the session", working(func(m *machine) { m.busy, m.joined, m.known = join, false, doubt }),
			event{kind: joined, epoch: 1}, look, doubt, Unknown},
		{"in the next session", working(func(m *machine) { m.busy, m.joined, m.known = join, false, doubt }),
			event{kind: joined, epoch: 2}, create, blank, Unknown},
		{"lost", working(standing), event{kind: lost, epoch: 1}, rest, blank, Unknown},
		{"news of an earlier session", working(func(m *machine) { standing(m); m.epoch, m.heard = 2, 2 }),
			event{kind: lost, epoch: 1}, rest, ours, There},
		{"an operation's session is over, and the next one known",
			working(func(m *machine) { m.busy, m.heard, m.joined = create, 2, false }),
			event{kind: orphaned, epoch: 1}, join, blank, Unknown},
		{"made in a session that is over", working(func(m *machine) { m.busy, m.epoch = create, 2 }),
			event{kind: created, epoch: 1, czxid: 7}, create, blank, Unknown},
		{"another's", working(func(m *machine) { m.busy = look }), event{kind: seen, epoch: 1, czxid: 9},
			rest, foreign, Missing},
		{"an earlier session's", working(func(m *machine) { m.busy, m.mine = look, 7 }),
			event{kind: seen, epoch: 1, whose: former, czxid: 7}, rest, foreign, Missing},
		{"another's, to be taken over", working(func(m *machine) { m.busy, m.grasp = look, true }),
			event{kind: seen, epoch: 1, czxid: 9}, replace, foreign, Missing},
		{"nobody's is not", working(func(m *machine) { m.busy, m.grasp = look, true }),
			event{kind: seen, epoch: 1, whose: nobody, czxid: 9}, rest, foreign, Missing},
		{"the same as before a take-over of unknown outcome",
			working(func(m *machine) { m.busy, m.grasp, m.target = look, true, 9 }),
			event{kind: seen, epoch: 1, czxid: 9}, replace, foreign, Missing},
		{"a new one after a take-over of unknown outcome",
			working(func(m *machine) { m.busy, m.grasp, m.target = look, true, 9 }),
			event{kind: seen, epoch: 1, czxid: 11}, rest, foreign, Missing},
		{"made, after a lost reply", working(func(m *machine) { m.busy, m.unsure = look, true }),
			event{kind: seen, epoch: 1, whose: own, czxid: 9}, rest, ours, There},
		{"of our session, and made by somebody else", working(func(m *machine) { m.busy = look }),
			event{kind: seen, epoch: 1, whose: own, czxid: 9}, set, ours, There},
		{"it fails", working(func(m *machine) { m.busy = create }), event{kind: failed, epoch: 1, perhaps: true},
			pause, doubt, Unknown},
		{"it is refused", working(func(m *machine) { m.busy = create }), event{kind: rejected, epoch: 1},
			pause, blank, Missing},
		{"closed before anything was made", machine{named: true}, event{kind: closing}, stop, blank, Unknown},
		{"closed while it waits", working(func(m *machine) { m.known, m.waiting = gone, true }),
			event{kind: closing}, stop, gone, Missing},
		{"closed", working(standing), event{kind: closing}, remove, ours, There},
		{"closed while it is made", working(func(m *machine) { m.busy = create }), event{kind: closing},
			rest, blank, Unknown},
		{"closed, and made then", working(func(m *machine) { m.busy, m.closing = create, true }),
			event{kind: created, epoch: 1, czxid: 7}, remove, ours, Unknown},
		{"closed in the next session, which looks", working(func(m *machine) { m.busy, m.closing = join, true }),
			event{kind: joined, epoch: 2}, look, doubt, Unknown},
		{"closed, and another's is there", working(func(m *machine) { m.busy, m.closing = look, true }),
			event{kind: seen, epoch: 1, czxid: 9}, stop, foreign, Missing},
		{"closed, and our last session's is there", working(func(m *machine) { m.busy, m.closing = look, true }),
			event{kind: seen, epoch: 1, whose: former, czxid: 9}, rest, foreign, Missing},
		{"and then is gone",
			working(func(m *machine) { m.known, m.old, m.closing, m.watched = foreign, true, true, true }),
			event{kind: deleted}, stop, gone, Missing},
		{"a create that has failed after its connection, when the node was known to be gone",
			working(func(m *machine) { m.busy, m.connected, m.joined, m.known = create, false, false, gone }),
			event{kind: failed, epoch: 1, perhaps: true}, rest, doubt, Unknown},
		{"removed", working(func(m *machine) { standing(m); m.busy, m.closing = remove, true }),
			event{kind: removed, epoch: 1}, stop, gone, Missing},
		{"not allowed to remove", working(func(m *machine) { standing(m); m.busy, m.closing = remove, true }),
			event{kind: rejected, epoch: 1}, stop, ours, There},
		{"the client is closed", working(standing), event{kind: stirred, final: true}, stop, ours, There},
		{"the client is closed meanwhile", working(func(m *machine) { m.busy = create }),
			event{kind: stirred, final: true}, rest, blank, Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, then := c.from.next(c.event)
			assert.Equal(t, c.then, then, then.String())
			assert.Equal(t, c.known, m.known)
			assert.Equal(t, c.state, m.state())
		})
	}
}

// pretend is a tree with one path, a session, and a machine that works on it. What is under way ends when the
// test says so.
type pretend struct {
	m       machine
	epoch   int64 // of the session
	away    bool
	zxid    int64
	node    bool
	owner   int64 // epoch; 0: no session; negative: another's
	czxid   int64
	version int32
	data    int // number
	want    int
	watch   bool
	events  []event // not yet delivered
	doing   action
	with    machine // when doing began
	sent    int     // data
	ended   bool
}

func (p *pretend) give(t testing.TB, e event) {
	if p.ended {
		return
	}
	var a action
	p.m, a = p.m.next(e)
	switch a {
	case rest:
	case stop:
		require.Equal(t, rest, p.doing, "nothing is under way at the end")
		p.ended = true
	case pause:
		p.events = append(p.events, event{kind: due})
	default:
		require.Equal(t, rest, p.doing, "one thing at a time")
		p.doing, p.with, p.sent = a, p.m, p.want
	}
}

func (p *pretend) changed(k eventKind) {
	if p.watch {
		p.watch = false
		p.events = append(p.events, event{kind: k})
	}
}

func (p *pretend) drop() {
	p.node = false
	p.changed(deleted)
}

func (p *pretend) put(owner int64, data int) {
	p.zxid++
	p.node, p.owner, p.czxid, p.version, p.data = true, owner, p.zxid, 0, data
	p.changed(stirred)
}

// execute does what is under way, and returns how it ends.
func (p *pretend) execute() event {
	e := event{epoch: p.with.epoch, latest: p.sent == p.want}
	if p.doing == join {
		return event{kind: joined, epoch: p.epoch}
	}
	if p.with.epoch != p.epoch {
		return event{kind: orphaned, epoch: p.with.epoch}
	}
	mine := p.epoch
	if p.with.persistent {
		mine = 0
	}
	switch p.doing {
	case create:
		if p.node {
			e.kind = met
			return e
		}
		p.put(mine, p.sent)
		e.kind, e.czxid = created, p.czxid
	case look:
		p.events = slices.DeleteFunc(p.events, func(e event) bool { // of the watch that this one replaces
			return e.kind == deleted || e.kind == stirred
		})
		if p.watch = true; !p.node {
			e.kind = absent
			return e
		}
		e.kind, e.czxid, e.version, e.whose = seen, p.czxid, p.version, another
		switch {
		case p.owner == mine:
			e.whose = own
		case p.owner == 0:
			e.whose = nobody
		case p.owner > 0:
			e.whose = former
		}
	case set, remove, replace:
		if !p.node || p.version != p.with.version {
			e.kind = met
			return e
		}
		switch p.doing {
		case set:
			p.version++
			p.data = p.sent
			p.changed(stirred)
			e.kind, e.version = written, p.version
		case remove:
			p.drop()
			e.kind = removed
		case replace:
			p.drop()
			p.put(mine, p.sent)
			e.kind = created
		}
	}
	return e
}

// step lets something happen.
func (p *pretend) step(t testing.TB, what byte) {
	switch what % 16 {
	case 0, 1, 2: // what is under way ends
		p.finish(t)
	case 3, 4, 5:
		p.deliver(t)
	case 6: // the reply is lost, with the connection, and perhaps the request before it
		if p.doing != rest && p.doing != join {
			if what < 128 {
				p.execute()
			}
			if p.disconnect(); what%32 < 16 { // it hears of the connection first
				for len(p.events) > 0 {
					p.deliver(t)
				}
			}
			p.doing = rest
			p.give(t, event{kind: failed, epoch: p.with.epoch, perhaps: true})
		}
	case 7:
		p.disconnect()
	case 8:
		if p.away {
			p.away = false
			p.events = append(p.events, event{kind: connected, epoch: p.epoch})
		}
	case 9: // the session ends; its node goes now, or later
		p.away = true
		p.watch = false
		p.events = append(p.events, event{kind: lost, epoch: p.epoch})
		p.epoch++
		if what < 128 {
			p.expire()
		}
	case 10:
		p.expire()
	case 11:
		p.drop()
	case 12:
		if !p.node {
			p.put(-1, 0)
		}
	case 13:
		if p.node {
			p.version++
			p.changed(stirred)
		}
	case 14:
		p.want++
		p.give(t, event{kind: asked})
	case 15:
		p.give(t, event{kind: stirred})
	}
}

func (p *pretend) disconnect() {
	if !p.away {
		p.away = true
		p.events = append(p.events, event{kind: suspended, epoch: p.epoch})
	}
}

// expire takes the nodes of sessions that are over away.
func (p *pretend) expire() {
	if p.node && p.owner > 0 && p.owner != p.epoch {
		p.drop()
	}
}

func (p *pretend) finish(t testing.TB) {
	if p.doing == rest || p.away && p.doing != join && p.with.epoch == p.epoch {
		return
	}
	e := p.execute()
	p.doing = rest
	p.give(t, e)
}

func (p *pretend) deliver(t testing.TB) {
	if len(p.events) > 0 {
		e := p.events[0]
		p.events = p.events[1:]
		p.give(t, e)
	}
}

// settles lets nothing but the machine's own work go on, and reports whether that comes to an end.
func (p *pretend) settles(t testing.TB) {
	if p.away {
		p.step(t, 8)
	}
	p.expire()
	for range 300 {
		if p.doing == rest && len(p.events) == 0 || p.ended {
			return
		}
		p.finish(t)
		p.deliver(t)
	}
	require.Fail(t, "it never comes to rest")
}

// lives lets things happen, and then the machine must come to rest with the node as it should be; closed,
// with nothing left of it.
func lives(t testing.TB, p *pretend, steps []byte) {
	p.step(t, 8)
	for _, s := range steps {
		p.step(t, s)
	}
	p.settles(t)
	foreigner := p.node && (p.owner < 0 || p.owner == 0 && !p.m.persistent)
	if foreigner {
		require.Equal(t, Missing, p.m.state())
		require.True(t, p.watch, "it waits for that to go")
		p.drop()
		p.settles(t)
	}
	mine := p.epoch
	if p.m.persistent {
		mine = 0
	}
	require.True(t, p.node)
	require.Equal(t, mine, p.owner)
	require.Equal(t, p.want, p.data)
	require.Equal(t, There, p.m.state())
	require.True(t, p.watch)
	p.give(t, event{kind: closing})
	p.settles(t)
	require.True(t, p.ended)
	require.False(t, p.node)
}

// dies closes it at some moment, among whatever happens: nothing of it is left.
func dies(t testing.TB, p *pretend, steps []byte) {
	p.step(t, 8)
	for i, s := range steps {
		if i == len(steps)/2 {
			p.give(t, event{kind: closing})
		}
		p.step(t, s)
	}
	p.give(t, event{kind: closing})
	p.settles(t)
	require.True(t, p.ended)
	require.False(t, p.node && p.owner == p.epoch)
	require.False(t, p.node && p.owner == 0 && p.m.persistent)
}

func newPretend(persistent, grasp, theirs bool) *pretend {
	p := &pretend{m: machine{named: true, persistent: persistent, grasp: grasp}, epoch: 1, away: true, zxid: 1}
	if theirs {
		p.put(-1, 0)
	}
	return p
}

func TestMachineComesToRest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 20_000 {
		steps := make([]byte, random.IntN(60))
		for i := range steps {
			steps[i] = byte(random.UintN(256))
		}
		lives(t, newPretend(n%3 == 1, n%2 == 0, n%5 == 0), steps)
		dies(t, newPretend(n%3 == 1, n%2 == 0, n%5 == 0), steps)
	}
}

func FuzzMachine(f *testing.F) {
	f.Add(byte(0), []byte{0, 3, 0, 11, 3, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, kind byte, steps []byte) {
		if len(steps) > 200 {
			return
		}
		lives(t, newPretend(kind&1 != 0, kind&2 != 0, kind&4 != 0), steps)
		dies(t, newPretend(kind&1 != 0, kind&2 != 0, kind&4 != 0), steps)
	})
}
