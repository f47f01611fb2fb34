package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
)

// Report is the result of [Doctor]: the state of a client and its servers.
type Report struct {
	// Health is the client's: state, granted session timeout, and the rule that keeps holds safe.
	Health framework.Health
	// Servers are the addresses that the client tries. Members are the members of the ensemble's configuration, if it
	// may be read: a standalone server has none.
	Servers []string
	Members []framework.EnsembleMember
	// Told has the servers' own reports, in the order of Servers; see [Servers].
	Told []Server
	// Reads are the round trips to the connected server, Syncs those to the leader.
	Reads, Syncs RoundTrips
	// ACL is the ACL of "/", below the client's chroot and namespace: who may do what there; nil if it cannot be
	// read.
	ACL []framework.ACL
	// Quotas are the tree's quotas; see [Quota]. QuotasKnown is false if they cannot be read: a client with a chroot
	// or a namespace does not see them.
	Quotas      []Quota
	QuotasKnown bool
	// Probe has the measurements of [WithProbe]; nil without it.
	Probe *Probe
	// Rule explains in a sentence the rule in force.
	Rule string
	// Advice are sentences about problems and their remedies, the most urgent first. It is empty if the client sees
	// no problem.
	Advice []string

	readErr error // of the reads that measureEnsemble, or Conclude's caller, has sent
}

// RoundTrips are the times that some requests took, one after the other. They are zero if none was answered.
type RoundTrips struct{ Least, Median, Most time.Duration }

// measuredRounds is the number of round trips of each kind that are measured.
const measuredRounds = 5

// Doctor examines a client and its servers, and reports the problems that a client can see: not the servers' disks,
// for example. It compares the servers' configuration, if they report it (see [Servers]), with the configuration that
// was given to the client (framework.WithStaleServerBound).
//
// It sends 5 exists, 5 syncs, a getData of the ensemble's configuration, a getACL and, for the quotas, a walk, one
// after the other; none of these without a connection. Then it asks all servers at the same time, as Servers does.
// Failures are in Advice. Options: [WithProbe], [WithMostNodes]. Errors: the errors of ctx, ErrClosed, ErrNoClient,
// ErrNilContext, ErrInvalidPath.
func Doctor(ctx context.Context, client *framework.Client, opts ...Option) (Report, error) {
	reading, err := newServerReader(ctx, client, opts)
	if err != nil {
		return Report{}, fmt.Errorf("inspect: doctor: %w", err)
	}
	r := newReport(client)
	switch {
	case client.Err() != nil:
		return Report{}, fmt.Errorf("inspect: doctor: %w", client.Err())
	case r.Health.Server != "":
		r.measureEnsemble(ctx, client, reading)
		r.Health = client.Health() // by now the server has reported whether it stands alone
	}
	if r.Told, err = Servers(ctx, client); err != nil {
		return Report{}, fmt.Errorf("inspect: doctor: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("inspect: doctor: %w", client.WaitError(ctx, nil))
	}
	r.addConclusions()
	return r, nil
}

// Conclude returns the report of [Doctor] for a client that the servers do not serve, from three facts: the client's
// state; the servers' reports in told, see [Servers]; and failed, the error of a request of the client, nil if none has
// failed. Conclude sends no request and does not block.
func Conclude(client *framework.Client, told []Server, failed error) Report {
	r := newReport(client)
	r.Told, r.readErr = told, failed
	r.addConclusions()
	return r
}

func newReport(client *framework.Client) Report {
	return Report{Health: client.Health(), Servers: client.Servers()}
}

// measureEnsemble sends Doctor's requests to the connected server, and adds advice about failures.
func (r *Report) measureEnsemble(ctx context.Context, client *framework.Client, reading *treeReader) {
	r.Reads, r.readErr = measureRequest(func() error {
		_, err := client.CheckExists().ForPath(ctx, "/")
		if errors.Is(err, framework.ErrNoAuth) {
			return nil // a reply: another client may own "/"
		}
		return err
	})
	if r.readErr != nil {
		return
	}
	var err error
	if r.Syncs, err = measureRequest(func() error { return client.Sync().ForPath(ctx, "/") }); err != nil {
		r.addAdvice("the leader does not reply: %v", err)
	}
	config, err := client.GetConfig(ctx)
	if err != nil {
		r.addAdvice("the ensemble's configuration cannot be read: %v", err)
	}
	r.Members = config.Members
	switch r.ACL, err = client.GetACL().ForPath(ctx, "/"); {
	case errors.Is(err, framework.ErrNoChroot):
		r.addAdvice("%v", err)
	case err != nil && !isNodeError(err):
		r.addAdvice("the ACL of / cannot be read: %v", err)
	}
	r.readQuotas(ctx, client, reading.nodesLeft)
	if reading.probe != "" {
		if r.Probe, err = createProbe(ctx, client, reading.probe); err != nil {
			r.addAdvice("a node in %s cannot be created and deleted: %v", plain.Text(reading.probe), err)
		}
	}
}

func measureRequest(ask func() error) (RoundTrips, error) {
	var took []time.Duration
	for range measuredRounds {
		began := time.Now()
		if err := ask(); err != nil {
			return RoundTrips{}, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return RoundTrips{took[0], took[measuredRounds/2], took[measuredRounds-1]}, nil
}

func (r *Report) addAdvice(format string, args ...any) {
	r.Advice = append(r.Advice, fmt.Sprintf(format, args...))
}

// explainRule returns [Report].Rule.
func explainRule(s framework.Safety) string {
	switch {
	case s.Refused != nil:
		return "no hold can be granted"
	case s.Rule == framework.RuleHeartbeat:
		return fmt.Sprintf("heartbeat: while the client holds something, it writes every %v, and loses its "+
			"holds unless the ensemble replies in time", s.Heartbeat)
	case s.Standalone:
		return fmt.Sprintf("bound: standalone server; holds are lost %v after the last request that got a reply",
			s.SessionTimeout-s.Margin)
	}
	return fmt.Sprintf("bound: holds are lost %v after the last request that got a reply, since a member may "+
		"reply for %v (WithStaleServerBound) after it has lost its leader",
		s.SessionTimeout-s.Bound-s.Margin, s.Bound)
}

// addConclusions sets Rule, and adds the conclusions to Advice: those about the connection first.
func (r *Report) addConclusions() {
	h, s := r.Health, r.Health.Safety
	r.Rule = explainRule(s)
	measured := r.Advice
	r.Advice = nil
	switch err := h.Err(); {
	case err == nil && r.readErr == nil:
	case len(r.Told) > 0 && !slices.ContainsFunc(r.Told, Server.MayServe):
		r.adviseOfReach()
	case err != nil:
		r.addAdvice("the client is not connected to a quorum: %v", err)
	default:
		r.addAdvice("the server does not reply to reads: %v", r.readErr)
	}
	r.Advice = append(r.Advice, measured...)
	if s.Refused != nil {
		r.addAdvice("no hold can be granted: %v", s.Refused)
	}
	for _, t := range []struct {
		what  string
		trips RoundTrips
	}{{"the server", r.Reads}, {"the leader", r.Syncs}} {
		if most := s.SessionTimeout / 6; t.trips.Most > most && most > 0 {
			r.addAdvice("%s took %v to reply, more than a sixth of the session timeout (%v): sessions will be "+
				"lost; ask for a longer timeout, or check the servers' disks and load",
				t.what, t.trips.Most, s.SessionTimeout)
		}
	}
	if s.Standalone {
		r.addAdvice("the server is standalone: while it is down no lock can be acquired, and its disk has the " +
			"only copy")
	}
	voters := 0
	for _, m := range r.Members {
		if !m.Observer {
			voters++
		}
	}
	if voters > 0 && voters%2 == 0 {
		r.addAdvice("%d voting members tolerate no more failures than one fewer", voters)
	}
	if len(r.Members) > 1 && len(r.Servers) == 1 {
		r.addAdvice("the client knows one server of %d: while that is down it cannot connect; name more in the "+
			"connect string (%s)", len(r.Members), strings.Join(r.Servers, ","))
	}
	r.adviseOfServers()
	for _, q := range r.Quotas {
		if what := q.describeUsage(); what != "" {
			r.addAdvice("the quota of %s is nearly used up: %s", plain.Text(q.Path), what)
		}
	}
	if p := r.Probe; p != nil && max(p.Ahead, -p.Ahead) > 5*time.Second+p.Within {
		r.addAdvice("the servers' clock is %v ahead of this machine's: times such as \"since\" and the end of nodes "+
			"with a TTL are wrong by that, holds are not; check their time synchronisation",
			p.Ahead.Round(100*time.Millisecond))
	}
	if h.Cleanups > 0 {
		r.addAdvice("%s not deleted yet", formatCount(h.Cleanups, "node that callers no longer need is", "nodes that callers no longer need are"))
	}
}
