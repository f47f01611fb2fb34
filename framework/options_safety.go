package framework

import "time"

// WithRule chooses how holds are kept safe, see [Rule]. Default [RuleAuto].
func WithRule(r Rule) Option {
	return checked(r >= RuleAuto && r <= RuleHeartbeat, func(o *options) { o.rule = r },
		"WithRule", "there is no %v; choose RuleAuto, RuleBound or RuleHeartbeat", r)
}

// WithStaleServerBound is D: how long a member of an ensemble may go on answering its clients after it has
// lost its leader, or the leader its quorum. It is (syncLimit + 1.5) × tickTime of the servers, and half a
// tick more for each observer in between. A standalone server is recognised and needs no bound. 0 is a
// bound of zero. Default 13 s, for syncLimit=5 and tickTime=2000; for the Docker image (syncLimit=2) 7 s is
// enough.
func WithStaleServerBound(d time.Duration) Option {
	return checked(d >= 0, func(o *options) { o.bound = d },
		"WithStaleServerBound", "%v; give (syncLimit + 1.5) × tickTime of the servers", d)
}

// WithServerTick is the servers' tickTime, used by [RuleHeartbeat]. Default 2 s, ZooKeeper's default, for
// which session timeouts from 2.9 s are long enough; more if the server grants a longer timeout than it was
// asked for. Shorter timeouts need this option, because a client cannot find out that the tick is shorter.
// Never give less than the servers' tick.
func WithServerTick(d time.Duration) Option {
	return positive(d, "WithServerTick", func(o *options) *time.Duration { return &o.tick })
}

// WithSafetyMargin is taken off the time for which a hold is valid: for the scheduling of this process, for
// the difference between two clocks' rates, and as time for the work under the hold to stop before the
// servers can give it to somebody else. See [WithFenceGrace] for what the client itself does then. 0 is no
// margin. Default: a tenth of the session timeout, at least 10 ms and at most 1 s; under [RuleHeartbeat] a
// fortieth, at most 250 ms, since that rule takes off another eighth, all of which a leader's pause may use
// up.
func WithSafetyMargin(d time.Duration) Option {
	return checked(d >= 0, func(o *options) { o.margin = d }, "WithSafetyMargin",
		"%v; give the time that a goroutine may have to wait for a processor, or leave the option out", d)
}

// WithFenceGrace is a pause between the loss of a session and the beginning of the next one. With the next
// one the client closes what may be left of the old session at the server, over a second connection. That
// hands its locks over sooner. The pause gives those who held them time to stop, so that the client itself
// lets nobody else have a lock earlier. Until it is over there is no connection. 0 is no pause.
//
// Default: a tenth of the session timeout, at least 10 ms and at most 1 s; a quarter of that after a
// session that a server has called expired, when others have had the locks for a while. How much time there
// is if the servers expire the session first is [WithSafetyMargin].
func WithFenceGrace(d time.Duration) Option {
	return checked(d >= 0, func(o *options) { o.fenceGrace = d }, "WithFenceGrace", "%v; give 0 or more", d)
}
