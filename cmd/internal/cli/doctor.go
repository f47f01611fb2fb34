package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/cmd/internal/shell"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/internal/plain"
)

func newDoctor(c clientConnection) *cobra.Command {
	s := readCommand{clientConnection: c}
	var probe string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine the servers, and report problems",
		Long: `Examine the servers, and report problems, with advice: roles, latency, the granted session timeout, the
rule that keeps holds safe and its effect, tickTime, syncLimit, maxClientCnxns, rights, quotas. It exits
with 1 if there is advice.

It also works when they accept no sessions: then it prints, after --connect-timeout at the latest, the
ROLE of each server, and that there is no quorum, or which servers cannot be reached, and why. One with the role
"no quorum" runs, and is not in an ensemble with a leader; "refused" does not run; "silent" has not replied
for 3 s; "unreachable" is anything else, such as TLS that fails. ZXID is the last transaction of a server:
it shows how new its data are.

It only reads, unless --probe names a directory: then it creates an ephemeral node there and deletes it, to
measure a write and the servers' clock. Values that the servers do not report (they report srvr only,
unless 4lw.commands.whitelist has conf and cons) are shown as "?".`,
		Example: `  curator doctor
  curator doctor --probe /locks`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.runDoctor(cmd, probe) },
	}
	cmd.Flags().StringVar(&probe, "probe", "", "`directory` in which a node is created and deleted, to measure that")
	s.flags(cmd.Flags())
	return cmd
}

func (s *readCommand) runDoctor(cmd *cobra.Command, probe string) error {
	return s.withClientBy(s.reachServers, cmd, false, func(ctx context.Context) error {
		var opts []inspect.Option
		if probe != "" {
			opts = append(opts, inspect.WithProbe(probe))
		}
		report, err := s.doctorReport(ctx, opts...)
		if err != nil {
			return err
		}
		show := func() error { return s.printJSON(jsonReportOf(report), jsonReportOf(report)) }
		if s.output == "table" {
			show = func() error { return s.writeTable(func(to io.Writer) { s.reportTable(to, report) }) }
		}
		if err := show(); err != nil {
			return err
		}
		if len(report.Advice) > 0 {
			return shell.ErrFound
		}
		return nil
	})
}

// doctorReport returns the result of doctor, or the one that reach has made.
func (s *readCommand) doctorReport(ctx context.Context, opts ...inspect.Option) (inspect.Report, error) {
	if s.without != nil {
		return *s.without, nil
	}
	return inspect.Doctor(ctx, s.client, opts...)
}

// reachServers is open for a client that need not be connected. It waits for --connect-timeout at most, and less if no
// server can be expected to accept it. If the servers do not serve it, the report is made of the facts collected by
// then: asking for more would mean to wait again for a server that hangs.
func (s *readCommand) reachServers(ctx context.Context, cmd *cobra.Command) (*framework.Client, error) {
	if s.shared != nil {
		return s.shared, nil
	}
	client, err := s.newClient(cmd)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, s.connectTimeout)
	defer cancel()
	over := make(chan struct{})
	var asked sync.WaitGroup
	var told []inspect.Server
	asked.Go(func() { told = pollServers(waiting, cancel, over, client) })
	if err = awaitServed(waiting, client); err == nil {
		cancel()
	}
	close(over)
	asked.Wait()
	switch end := programExitOf(err); {
	case err == nil:
		return client, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case end.code == exitNotConnected, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		report := inspect.Conclude(client, told, err)
		s.without = &report
		return client, nil
	}
	s.closeClient(client)
	return nil, fmt.Errorf("cannot connect: %w", err)
}

// pollServers asks the servers for their states repeatedly, until ctx ends, over is closed, or no server may serve:
// then it calls noUse. It returns their last reports; reports cut short by the end of ctx count only if there are no
// others.
func pollServers(ctx context.Context, noUse func(), over <-chan struct{}, client *framework.Client) (told []inspect.Server) {
	for { // a leader may need a moment to notice that it has lost the others
		all, err := inspect.Servers(ctx, client)
		if err == nil || told == nil {
			told = all
		}
		if err == nil && !slices.ContainsFunc(told, inspect.Server.MayServe) {
			noUse()
			return told
		}
		select {
		case <-time.After(time.Second):
		case <-over:
			return told
		case <-ctx.Done():
			return told
		}
	}
}

func (s *readCommand) reportTable(to io.Writer, r inspect.Report) {
	rows := [][]string{{"SERVER", "ROLE", "ZXID", "REPLIED IN", "AVERAGE", "MOST", "CLIENTS", "TICK", "SYNC LIMIT",
		"PER ADDRESS", "SESSIONS", "VERSION"}}
	for _, told := range r.Told {
		rows = append(rows, serverRow(told))
	}
	writeColumns(to, rows)
	if r.Health.Server != "" {
		s.clientFacts(to, r)
	}
	fmt.Fprintln(to)
	for _, advice := range r.Advice {
		fmt.Fprintf(to, "advice: %s\n", plain.Text(advice))
	}
	if len(r.Advice) == 0 {
		fmt.Fprintln(to, "no problems found")
	}
}

// clientFacts lists the facts about a connected client.
func (s *readCommand) clientFacts(to io.Writer, r inspect.Report) {
	safety := r.Health.Safety
	facts := [][]string{
		{"connected to", plain.Text(r.Health.Server)},
		{"reads", describeTrips(r.Reads)},
		{"leader", describeTrips(r.Syncs)},
		{"session timeout", fmt.Sprintf("%v granted, %v asked for", safety.SessionTimeout, s.sessionTimeout)},
		{"rule", r.Rule},
		{"remaining hold", fmt.Sprintf("%v at least, while the servers reply", roundDuration(safety.Steady))},
		{"rights at /", describeACL(r.ACL)},
		{"quotas", describeQuotas(r)},
	}
	if r.Probe == nil {
		facts = append(facts, []string{"writes, clock", "not measured: that needs --probe"})
	} else {
		facts = append(facts, []string{"a write", roundShort(r.Probe.Write)}, []string{"servers' clock",
			fmt.Sprintf("%v ahead, ± %v", roundShort(r.Probe.Ahead), roundShort(r.Probe.Within))})
	}
	fmt.Fprintln(to)
	writeColumns(to, facts)
}

func serverRow(s inspect.Server) []string {
	if s.Err != nil {
		return []string{s.Address, s.Role(), "", "", "", "", "", "", "", "", "", ""}
	}
	tick, limit, most, sessions := "?", "?", "?", "?"
	if c := s.Config; c != nil {
		tick, limit, most = c.TickTime.String(), strconv.Itoa(c.SyncLimit), strconv.Itoa(c.MaxClientConnections)
		if c.SyncLimit == 0 {
			limit = "-"
		}
		if c.MaxClientConnections == 0 {
			most = "unlimited"
		}
		sessions = fmt.Sprintf("%v to %v", c.MinSessionTimeout, c.MaxSessionTimeout)
	}
	return []string{s.Address, plain.Text(s.Role()), fmt.Sprintf("%#x", uint64(s.Zxid)), roundShort(s.Took), roundShort(s.Average), roundShort(s.Most),
		strconv.Itoa(s.Clients), tick, limit, most, sessions, plain.Text(s.Version)}
}

// roundShort rounds a time to a useful precision.
func roundShort(d time.Duration) string {
	if d > -time.Second && d < time.Second {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

func describeTrips(t inspect.RoundTrips) string {
	if t == (inspect.RoundTrips{}) {
		return "no reply"
	}
	return fmt.Sprintf("%v to %v, half within %v", roundShort(t.Least), roundShort(t.Most), roundShort(t.Median))
}

// describeACL describes an ACL, and explains an entry that permits everything to everyone.
func describeACL(acl []framework.ACL) string {
	if acl == nil {
		return "?"
	}
	var all []string
	for _, a := range acl {
		text := plain.Text(aclText(a))
		if a.Scheme == "world" && a.Perms == framework.OpenACL()[0].Perms {
			text += " (all clients have all permissions)"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// aclText is an entry as zkCli writes it: world:anyone:cdrwa.
func aclText(a framework.ACL) string {
	perms := ""
	for _, p := range []struct {
		perm   framework.Perm
		letter string
	}{
		{framework.PermCreate, "c"}, {framework.PermDelete, "d"}, {framework.PermRead, "r"},
		{framework.PermWrite, "w"}, {framework.PermAdmin, "a"},
	} {
		if a.Perms&p.perm != 0 {
			perms += p.letter
		}
	}
	return a.Scheme + ":" + a.ID + ":" + perms
}

func describeQuotas(r inspect.Report) string {
	switch {
	case !r.QuotasKnown:
		return "? (a client with a chroot does not see them)"
	case len(r.Quotas) == 0:
		return "none"
	}
	var all []string
	for _, q := range r.Quotas {
		all = append(all, fmt.Sprintf("%s: %d nodes of %s, %d bytes of %s", plain.Text(q.Path), q.Nodes,
			describeLimit(q.MaxNodes, q.HardNodes), q.Bytes, describeLimit(q.MaxBytes, q.HardBytes)))
	}
	return strings.Join(all, "; ")
}

func describeLimit(soft, hard int64) string {
	switch {
	case hard >= 0:
		return strconv.FormatInt(hard, 10)
	case soft >= 0:
		return strconv.FormatInt(soft, 10)
	}
	return "any number"
}

type jsonReport struct {
	Server    string       `json:"server"`
	Servers   []jsonServer `json:"servers"`
	Members   []string     `json:"members"` // of the ensemble, as its configuration names them
	Rule      string       `json:"rule"`
	Timeout   int64        `json:"sessionTimeoutMs"`
	Steady    int64        `json:"holdLeastMs"`
	Reads     *jsonTrips   `json:"reads,omitempty"`
	Syncs     *jsonTrips   `json:"syncs,omitempty"`
	Write     float64      `json:"writeMs,omitempty"`
	Clock     *float64     `json:"clockAheadMs,omitempty"`
	ClockWide float64      `json:"clockWithinMs,omitempty"`
	ACL       []string     `json:"acl,omitempty"`
	Quotas    []jsonQuota  `json:"quotas,omitempty"`
	Advice    []string     `json:"advice"`
}

type jsonServer struct {
	Address     string  `json:"address"`
	Role        string  `json:"role,omitempty"` // also why it does not say more: "no quorum", "refused", "silent" …
	Zxid        string  `json:"zxid,omitempty"` // the last transaction that it knows
	Version     string  `json:"version,omitempty"`
	Error       string  `json:"error,omitempty"`
	Took        float64 `json:"answeredInMs,omitempty"`
	Average     float64 `json:"averageLatencyMs,omitempty"`
	Most        float64 `json:"maxLatencyMs,omitempty"`
	Clients     int     `json:"clients"`
	Outstanding int     `json:"outstanding"`
	Tick        int64   `json:"tickTimeMs,omitempty"`
	SyncLimit   int     `json:"syncLimit,omitempty"`
	InitLimit   int     `json:"initLimit,omitempty"`
	MinTimeout  int64   `json:"minSessionTimeoutMs,omitempty"`
	MaxTimeout  int64   `json:"maxSessionTimeoutMs,omitempty"`
	PerAddress  *int    `json:"maxClientCnxns,omitempty"`
}

type jsonTrips struct {
	Least  float64 `json:"leastMs"`
	Median float64 `json:"medianMs"`
	Most   float64 `json:"mostMs"`
}

type jsonQuota struct {
	Path      string `json:"path"`
	Nodes     int64  `json:"nodes"`
	Bytes     int64  `json:"bytes"`
	MaxNodes  int64  `json:"maxNodes"`
	MaxBytes  int64  `json:"maxBytes"`
	HardNodes int64  `json:"hardNodes"`
	HardBytes int64  `json:"hardBytes"`
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func jsonTripsOf(t inspect.RoundTrips) *jsonTrips {
	if t == (inspect.RoundTrips{}) {
		return nil
	}
	return &jsonTrips{milliseconds(t.Least), milliseconds(t.Median), milliseconds(t.Most)}
}

func jsonReportOf(r inspect.Report) jsonReport {
	j := jsonReport{Server: r.Health.Server, Servers: []jsonServer{}, Members: []string{}, Rule: r.Rule,
		Timeout: r.Health.Safety.SessionTimeout.Milliseconds(), Steady: r.Health.Safety.Steady.Milliseconds(),
		Reads: jsonTripsOf(r.Reads), Syncs: jsonTripsOf(r.Syncs), Advice: append([]string{}, r.Advice...)}
	for _, s := range r.Told {
		told := jsonServer{Address: s.Address, Role: s.Role(), Version: s.Version, Took: milliseconds(s.Took),
			Average: milliseconds(s.Average), Most: milliseconds(s.Most), Clients: s.Clients, Outstanding: s.Outstanding}
		if told.Zxid = sessionText(s.Zxid); s.Err != nil {
			told.Error = s.Err.Error()
		}
		if c := s.Config; c != nil {
			told.Tick, told.SyncLimit, told.InitLimit = c.TickTime.Milliseconds(), c.SyncLimit, c.InitLimit
			told.MinTimeout, told.MaxTimeout = c.MinSessionTimeout.Milliseconds(), c.MaxSessionTimeout.Milliseconds()
			told.PerAddress = &c.MaxClientConnections
		}
		j.Servers = append(j.Servers, told)
	}
	for _, m := range r.Members {
		j.Members = append(j.Members, m.Spec)
	}
	for _, a := range r.ACL {
		j.ACL = append(j.ACL, aclText(a))
	}
	for _, q := range r.Quotas {
		j.Quotas = append(j.Quotas, jsonQuota(q))
	}
	if p := r.Probe; p != nil {
		ahead := milliseconds(p.Ahead)
		j.Write, j.Clock, j.ClockWide = milliseconds(p.Write), &ahead, milliseconds(p.Within)
	}
	return j
}
