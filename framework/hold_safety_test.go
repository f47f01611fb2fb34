package framework

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

func TestDecide(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name       string
		opts       []Option
		timeout    time.Duration
		standalone bool
		rule       Rule
		bound      time.Duration
		heartbeat  time.Duration
		refused    string
	}{
		{"standalone", nil, 4 * s, true, RuleBound, 0, 0, ""},
		{"ensemble, long timeout", nil, 30 * s, false, RuleBound, 13 * s, 0, ""},
		{"ensemble, exactly twice the bound", nil, 26 * s, false, RuleBound, 13 * s, 0, ""},
		{"ensemble, short timeout", nil, 25 * s, false, RuleHeartbeat, 13 * s, 25 * s / 6, ""},
		{"ensemble, the shortest with the usual tick", nil, 4 * s, false, RuleHeartbeat, 13 * s, 4 * s / 6, ""},
		{"ensemble, three seconds", nil, 3 * s, false, RuleHeartbeat, 13 * s, 3 * s / 6, ""},
		{"ensemble, two seconds", nil, 2 * s, false, RuleHeartbeat, 13 * s, 2 * s / 6, ""},
		{"ensemble, too short", nil, 1800 * time.Millisecond, false, RuleHeartbeat, 13 * s, 300 * time.Millisecond, "WithServerTick(1.89s)"},
		{
			"a tick that is told is believed", []Option{WithServerTick(3 * s)}, 2 * s, false, RuleHeartbeat, 13 * s,
			2 * s / 6, "2.86s or more",
		},
		{
			"exactly enough", []Option{WithSafetyMargin(s / 2)}, 2400 * time.Millisecond, false, RuleHeartbeat, 13 * s,
			400 * time.Millisecond, "",
		},
		{
			"the same with a faster tick", []Option{WithServerTick(500 * time.Millisecond)}, 3 * s, false,
			RuleHeartbeat, 13 * s, 3 * s / 6, "",
		},
		{"smaller bound", []Option{WithStaleServerBound(7 * s)}, 14 * s, false, RuleBound, 7 * s, 0, ""},
		{"bound by choice", []Option{WithRule(RuleBound)}, 16 * s, false, RuleBound, 13 * s, 0, ""},
		{
			"bound by choice without room", []Option{WithRule(RuleBound)}, 10 * s, false, RuleBound, 13 * s, 0,
			"RuleHeartbeat",
		},
		{
			"bound by choice with room for the margin only", []Option{WithRule(RuleBound)}, 14 * s, false, RuleBound, 13 * s,
			0, "to 15s or more",
		},
		{"bound by choice, exactly enough", []Option{WithRule(RuleBound)}, 15 * s, false, RuleBound, 13 * s, 0, ""},
		{
			"no margin, and only the bound", []Option{WithRule(RuleBound), WithSafetyMargin(0)}, 13 * s, false, RuleBound,
			13 * s, 0, "RuleHeartbeat",
		},
		{"bound by choice, standalone", []Option{WithRule(RuleBound)}, 4 * s, true, RuleBound, 0, 0, ""},
		{"heartbeat by choice", []Option{WithRule(RuleHeartbeat)}, 40 * s, true, RuleHeartbeat, 0, 40 * s / 6, ""},
		{"margin eats it up", []Option{WithSafetyMargin(3 * s)}, 4 * s, true, RuleBound, 0, 0, "WithSafetyMargin"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := defaultOptions()
			for _, opt := range tt.opts {
				assert.NoError(t, opt(&o))
			}
			p := o.planFor(tt.timeout, tt.standalone)
			assert.Equal(t, tt.rule, p.ruleInForce())
			assert.Equal(t, tt.bound, p.bound)
			assert.Equal(t, tt.heartbeat, p.heartbeat)
			if tt.refused == "" {
				assert.NoError(t, p.refused)
				return
			}
			assert.ErrorIs(t, p.refused, ErrTimeoutTooShort)
			assert.ErrorContains(t, p.refused, tt.refused)
			assert.ErrorContains(t, p.refused, "WithSessionTimeout")
		})
	}
}

// The timeout that the message of a too short one recommends is enough, and not much more than enough.
func TestTooShortSaysWhatIsEnough(t *testing.T) {
	refused := func(timeout time.Duration, opts ...Option) error {
		o := defaultOptions()
		for _, opt := range opts {
			assert.NoError(t, opt(&o))
		}
		return o.planFor(timeout, false).refused
	}
	numbers := regexp.MustCompile(`to (\S+) or more; or give WithServerTick\((\S+)\)`)
	for _, tick := range []time.Duration{
		20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second, 10 * time.Second,
	} {
		for _, margin := range []Option{WithServerTick(tick), WithSafetyMargin(0), WithSafetyMargin(tick / 4)} {
			err := refused(tick/2, WithServerTick(tick), margin)
			require.ErrorIs(t, err, ErrTimeoutTooShort)
			o := defaultOptions()
			assert.NoError(t, margin(&o))
			assert.Equal(t, o.margin > 0, strings.Contains(err.Error(), "WithSafetyMargin"), "only what helps")
			said := numbers.FindStringSubmatch(err.Error())
			require.Len(t, said, 3, err.Error())
			enough, err := time.ParseDuration(said[1])
			require.NoError(t, err)
			assert.NoError(t, refused(enough, WithServerTick(tick), margin), "tick %v", tick)
			assert.Error(t, refused(enough*9/10-10*time.Millisecond, WithServerTick(tick), margin), "tick %v", tick)
			if shorter, err := time.ParseDuration(said[2]); assert.NoError(t, err) && shorter > 0 {
				assert.NoError(t, refused(tick/2, margin, WithServerTick(shorter)), "tick %v", tick)
				assert.Error(t, refused(tick/2, margin, WithServerTick(shorter+3*time.Millisecond)), "tick %v", tick)
			}
		}
	}
}

// A short timeout allows for a shorter pause of a leader, but never for less than the tick or than a heartbeat needs.
func TestWhatAHeartbeatCovers(t *testing.T) {
	o := defaultOptions()
	for timeout := 100 * time.Millisecond; timeout < 26*time.Second; timeout += 10 * time.Millisecond {
		p := o.planFor(timeout, false)
		jitter := p.servers.Report - usualTick/2
		assert.LessOrEqual(t, jitter, min(timeout/8, usualTick))
		if p.refused == nil {
			assert.GreaterOrEqual(t, jitter, timeout/24)
			assert.GreaterOrEqual(t, p.servers.Steady(timeout), timeout/heartbeatsPerTimeout/2, "an answer may take half an interval")
		}
	}
}

// If a server grants more than the client asked for, that reveals something about its tick; the client believes it when it
// is longer than the usual one.
func TestALongerTickIsFoundOut(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		opts    []Option
		granted time.Duration
		tick    time.Duration
	}{
		{[]Option{WithSessionTimeout(6 * s)}, 6 * s, 2 * s},
		{[]Option{WithSessionTimeout(3 * s)}, 4 * s, 2 * s},
		{[]Option{WithSessionTimeout(4 * s)}, 6 * s, 3 * s},
		// two ticks of one second, or a shortest timeout of one tick
		{[]Option{WithSessionTimeout(s)}, 2 * s, 2 * s},
		{[]Option{WithSessionTimeout(60 * s)}, 20 * s, 2 * s},
		{[]Option{WithSessionTimeout(4 * s), WithServerTick(s)}, 6 * s, s},
	} {
		o := defaultOptions()
		for _, opt := range tt.opts {
			assert.NoError(t, opt(&o))
		}
		assert.Equal(t, tt.tick, o.serverTick(tt.granted))
	}
}

// The time in which a holder has to stop its work: a tenth of the session timeout or a second, whichever is less, under
// every rule, whether the servers expire the session or the client closes it.
func TestTheTimeToStopIn(t *testing.T) {
	for _, tt := range []struct{ timeout, margin, late time.Duration }{
		{50 * time.Millisecond, 10 * time.Millisecond, 2500 * time.Microsecond},
		{4 * time.Second, 400 * time.Millisecond, 100 * time.Millisecond},
		{10 * time.Second, time.Second, 250 * time.Millisecond},
		{time.Minute, time.Second, 250 * time.Millisecond},
	} {
		o := defaultOptions()
		assert.Equal(t, tt.margin, o.planFor(tt.timeout, true).servers.Margin)
		assert.Equal(t, tt.margin, o.planFor(tt.timeout, false).servers.Margin)
		assert.Equal(t, tt.margin, o.graceAfterLoss(tt.timeout, wire.ErrLapsed))
		assert.Equal(t, tt.late, o.graceAfterLoss(tt.timeout, wire.ErrExpired), "others have the locks already")
		o.margin, o.fenceGrace = 3*time.Millisecond, 7*time.Millisecond
		assert.Equal(t, 3*time.Millisecond, o.planFor(tt.timeout, true).servers.Margin)
		assert.Equal(t, 7*time.Millisecond, o.graceAfterLoss(tt.timeout, nil))
		o.fenceGrace = 0
		assert.Zero(t, o.graceAfterLoss(tt.timeout, wire.ErrLapsed))
		o.margin, o.fenceGrace = 0, -1
		assert.Zero(t, o.graceAfterLoss(tt.timeout, wire.ErrExpired))
	}
}

func TestStandsAlone(t *testing.T) {
	reply := func(data string) wire.Reply {
		return wire.Reply{Body: jute.Marshal(&jute.GetDataResponse{Data: []byte(data)})}
	}
	for _, tt := range []struct {
		r    wire.Reply
		want wire.Verdict
	}{
		{reply(""), wire.Standalone},
		{reply("version=0"), wire.Standalone},
		{reply("server.1=a:2888:3888:participant;0.0.0.0:2181\nversion=100000000"), wire.Member},
		{reply("version=0\n server.5=x"), wire.Member},
		{wire.Reply{Code: jute.CodeNoAuth}, wire.Member},
		{wire.Reply{Code: jute.CodeNoNode}, wire.Member},
		{wire.Reply{Code: jute.CodeUnimplemented}, wire.Member},
		{wire.Reply{Body: []byte{1}}, wire.Member},
		{wire.Reply{Code: jute.CodeThrottledOp}, wire.Later},
		{wire.Reply{Code: jute.CodeRequestTimeout}, wire.Later},
		{wire.Reply{Code: jute.CodeOperationTimeout}, wire.Later},
		{wire.Reply{Code: jute.CodeConnectionLoss}, wire.Later},
		{wire.Reply{Code: jute.CodeSessionMoved}, wire.Later},
		{wire.Reply{Err: wire.ErrConnectionLost}, wire.Later},
	} {
		assert.Equal(t, tt.want, standaloneVerdict(tt.r), "%+v", tt.r)
	}
}

func TestFailure(t *testing.T) {
	one := func(op, err int32) jute.MultiResult { return jute.MultiResult{Op: op, Err: err} }
	reply := func(code int32, res ...jute.MultiResult) wire.Reply {
		return wire.Reply{Code: code, Body: jute.Marshal(&jute.MultiResponse{Results: res})}
	}
	for _, tt := range []struct {
		r     wire.Reply
		index int
		code  int32
	}{
		{reply(0, one(jute.OpCheck, 0)), -1, 0},
		{reply(-101, one(-1, 0), one(-1, -101), one(-1, -2)), 1, -101},
		{reply(0, one(-1, -101), one(-1, -2)), 0, -101}, // however the server fills the header
		{wire.Reply{Code: -127}, -1, -127},
		{wire.Reply{Code: -6, Body: []byte{1, 2}}, -1, -6},
		{wire.Reply{Err: wire.ErrNotSent}, 0, 0},
	} {
		index, code := failedCheck(tt.r)
		assert.Equal(t, tt.index, index)
		assert.Equal(t, tt.code, code)
	}
}

func TestBatches(t *testing.T) {
	var holds []*Hold
	for range 2*batchMaxNodes + 1 {
		holds = append(holds, &Hold{fullPath: "/a"})
	}
	assert.Len(t, batchHolds(holds), 3)
	assert.Empty(t, batchHolds(nil))

	holds[0].uncheckable = true
	assert.Equal(t, [][]*Hold{nil}, batchHolds(holds[:1]), "the root instead")
	assert.Equal(t, [][]*Hold{{holds[1]}}, batchHolds(holds[:2]))

	e := &sessionEpoch{holds: map[*Hold]struct{}{}}
	for range 3*heartbeatMaxNodes + 10 {
		e.holds[&Hold{fullPath: "/a"}] = struct{}{}
	}
	m, checked := &holdRequests{}, map[*Hold]bool{}
	for range 4 {
		for _, h := range m.nextHoldsToCheck(e) {
			checked[h] = true
		}
	}
	assert.Equal(t, len(e.holds), len(checked), "each hold has its turn before the first one has another")

	long := string(make([]byte, batchMaxBytes/2))
	assert.Len(t, batchHolds([]*Hold{{fullPath: long}, {fullPath: long}, {fullPath: long}}), 3)
	short := []*Hold{{fullPath: "/a"}, {fullPath: "/b"}, {fullPath: "/c"}}
	assert.Len(t, batchHolds(append([]*Hold{{fullPath: long}, {fullPath: long}}, short...)), 2, "each batch has its whole room")
}
