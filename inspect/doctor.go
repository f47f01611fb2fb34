package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
)

// Report is what [Doctor] has found out about a client and its servers.
type Report struct {
	// Health is the client's: state, granted session timeout, and the rule that keeps holds safe.
	Health framework.Health
	// Servers are those that the client tries; Members those of the ensemble's configuration, if it may be
	// read: a standalone server has none.
	Servers []string
	Members []framework.EnsembleMember
	// Reads is how long the connected server took to answer, Syncs how long the leader took.
	Reads, Syncs RoundTrips
	// Rule says in a sentence what the rule in force means.
	Rule string
	// Advice are sentences about what is wrong, and what to do about it, the most urgent first. It is empty
	// if nothing is wrong that can be seen from here.
	Advice []string
}

// RoundTrips are the times that some requests took, one after the other. They are zero if none was answered.
type RoundTrips struct{ Least, Median, Most time.Duration }

// rounds is how many round trips of each kind are measured.
const rounds = 5

// Doctor looks at a client and its servers, and says what is wrong with them, as far as that can be seen
// through the client: not the servers' tickTime, syncLimit, disks and limits. Of an ensemble make sure that
// framework.WithStaleServerBound is at least (syncLimit + 1.5) × tickTime.
//
// It sends 5 exists, 5 syncs and a getData of the ensemble's configuration, one after the other; nothing if
// there is no connection. What does not work is in Advice. Errors: those of ctx, ErrClosed, ErrNoClient,
// ErrNilContext.
func Doctor(ctx context.Context, client *framework.Client) (Report, error) {
	if _, err := begin(ctx, client, nil); err != nil {
		return Report{}, fmt.Errorf("inspect: doctor: %w", err)
	}
	r := Report{Health: client.Health(), Servers: client.Servers()}
	switch {
	case client.Err() != nil:
		return Report{}, fmt.Errorf("inspect: doctor: %w", client.Err())
	case r.Health.Server != "":
		r.ask(ctx, client)
		r.Health = client.Health() // by now the server has said whether it stands alone
	}
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("inspect: doctor: %w", client.Left(ctx, nil))
	}
	r.Rule = ruleText(r.Health.Safety)
	r.advise()
	return r, nil
}

// ask measures, and reads the configuration.
func (r *Report) ask(ctx context.Context, client *framework.Client) {
	var failed error
	r.Reads, failed = measure(func() error {
		_, err := client.CheckExists().ForPath(ctx, "/")
		return err
	})
	if failed != nil {
		r.say("the server does not answer reads: %v", failed)
		return
	}
	if r.Syncs, failed = measure(func() error { return client.Sync().ForPath(ctx, "/") }); failed != nil {
		r.say("the leader does not answer: %v", failed)
	}
	config, err := client.GetConfig().ForEnsemble(ctx)
	if err != nil {
		r.say("the ensemble's configuration cannot be read: %v", err)
	}
	r.Members = config.Members
}

func measure(ask func() error) (RoundTrips, error) {
	var took []time.Duration
	for range rounds {
		began := time.Now()
		if err := ask(); err != nil {
			return RoundTrips{}, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return RoundTrips{took[0], took[rounds/2], took[rounds-1]}, nil
}

func (r *Report) say(format string, args ...any) {
	r.Advice = append(r.Advice, fmt.Sprintf(format, args...))
}

// ruleText says what a rule means.
func ruleText(s framework.Safety) string {
	switch {
	case s.Refused != nil:
		return "nothing can be held"
	case s.Rule == framework.RuleHeartbeat:
		return fmt.Sprintf("heartbeat: while something is held, the client writes every %v, and gives its "+
			"holds up if the ensemble does not confirm that in time", s.Heartbeat)
	case s.Standalone:
		return fmt.Sprintf("bound: one server alone; holds end %v after the last request that was answered",
			s.SessionTimeout-s.Margin)
	}
	return fmt.Sprintf("bound: holds end %v after the last request that was answered, since a member may "+
		"go on answering for %v (WithStaleServerBound) after it was cut off from the others",
		s.SessionTimeout-s.Bound-s.Margin, s.Bound)
}

// advise says what can be concluded.
func (r *Report) advise() {
	h, s := r.Health, r.Health.Safety
	asked := r.Advice
	r.Advice = nil
	if err := h.Err(); err != nil {
		r.say("the client is not connected to a quorum: %v", err)
	}
	r.Advice = append(r.Advice, asked...)
	if s.Refused != nil {
		r.say("nothing can be held: %v", s.Refused)
	}
	for _, t := range []struct {
		what  string
		trips RoundTrips
	}{{"the server", r.Reads}, {"the leader", r.Syncs}} {
		if most := s.SessionTimeout / 6; t.trips.Most > most && most > 0 {
			r.say("%s took %v to answer, more than a sixth of the session timeout (%v): sessions will be "+
				"lost; ask for a longer one, or look at the servers' disks and load",
				t.what, t.trips.Most, s.SessionTimeout)
		}
	}
	if s.Standalone {
		r.say("there is one server alone: while it is down nothing can be locked, and its disk has the " +
			"only copy")
	}
	voters := 0
	for _, m := range r.Members {
		if !m.Observer {
			voters++
		}
	}
	if voters > 0 && voters%2 == 0 {
		r.say("%d members vote: one fewer bears as many failures", voters)
	}
	if len(r.Members) > 1 && len(r.Servers) == 1 {
		r.say("the client knows one server of %d: when that is down it has no other; name more in the "+
			"connect string (%s)", len(r.Members), strings.Join(r.Servers, ","))
	}
	if h.Cleanups > 0 {
		r.say("%d nodes that callers no longer need are not deleted yet", h.Cleanups)
	}
}
