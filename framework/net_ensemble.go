package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/apart"
)

// ErrInvalidEnsembleConfig means that the ensemble's members cannot have written this configuration, so the client does
// not follow it. The message has the reason: more than 1000 members or 1 MiB, or a member whose client address is not
// an address. An address is an IP address without a zone or a name of letters, digits, "-", "_" and ".", at most 253
// bytes long, with a port from 1 to 65535.
var ErrInvalidEnsembleConfig = newSentinel("invalid ensemble configuration")

const (
	// maxMembers is the most members of a configuration. Ensembles have a handful, some dozens of observers.
	maxMembers = 1000
	// maxConfig is the largest size of a configuration in bytes. By default no more fits into a node.
	maxConfig = 1 << 20
)

// EnsembleConfig is the configuration of an ensemble, as agreed on by its members.
type EnsembleConfig struct {
	// Version identifies the configuration, for the FromConfig of admin.Reconfig.
	Version int64
	// Members are in the order of their ids, at most 1000. A standalone server has none.
	Members []EnsembleMember
	// Data is the configuration as the server keeps it: one line per member, weights and groups if any, and
	// the version.
	Data []byte

	fault error // see Validate
}

// Validate returns nil if a client can follow the configuration (see [WithEnsembleTracking]), otherwise
// ErrInvalidEnsembleConfig with the first reason. A member without a client address is valid.
func (c EnsembleConfig) Validate() error { return c.fault }

// recordFault records a mistake in the configuration. Only the first is kept.
func (c *EnsembleConfig) recordFault(format string, args ...any) {
	if c.fault == nil {
		c.fault = fmt.Errorf("%w: %s", ErrInvalidEnsembleConfig, fmt.Sprintf(format, args...))
	}
}

// EnsembleMember is a line "server.ID=…" of a configuration.
type EnsembleMember struct {
	ID int64
	// Host is this member's host as the other members know it, without the ports; the first if there are several. It is
	// empty if it is neither a name nor an IP address.
	Host string
	// Observer means that the member has no vote. Clients use it all the same.
	Observer bool
	// ClientAddress is the member's address for clients, as host:port. Host stands in for a wildcard. It is empty if
	// the line has no client address, or an invalid one.
	ClientAddress string
	// Spec is the text after the "=".
	Spec string
}

// ClientAddresses returns the client addresses of all members, observers included, sorted and without
// repetition.
func (c EnsembleConfig) ClientAddresses() []string {
	var addresses []string
	for _, m := range c.Members {
		if m.ClientAddress != "" {
			addresses = append(addresses, m.ClientAddress)
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// parseEnsembleConfig reads the lines that it understands, ignores others as members do with lines of later versions,
// and records the first reason why the configuration is invalid.
func parseEnsembleConfig(data []byte) EnsembleConfig {
	c := EnsembleConfig{Data: data}
	if len(data) > maxConfig {
		c.recordFault("it has %d bytes, and the limit is %d", len(data), maxConfig)
		return c
	}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !ok:
		case key == "version":
			c.Version, _ = strconv.ParseInt(value, 16, 64)
		case strings.HasPrefix(key, "server."):
			if id, err := strconv.ParseInt(key[len("server."):], 10, 64); err == nil {
				c.addMember(id, value)
			}
		}
	}
	slices.SortFunc(c.Members, func(a, b EnsembleMember) int { return cmp.Compare(a.ID, b.ID) })
	return c
}

func (c *EnsembleConfig) addMember(id int64, spec string) {
	if len(c.Members) == maxMembers {
		c.recordFault("it has more than %d members", maxMembers)
		return
	}
	m, why := parseMember(id, spec)
	if why != "" {
		c.recordFault("member %d: %s", id, why)
	}
	c.Members = append(c.Members, m)
}

// parseMember reads "host:port:port[:role][|host:port:port[:role]]…[;[address:]port]". why is the reason why a client
// address is invalid, "" if it is valid or missing.
func parseMember(id int64, spec string) (m EnsembleMember, why string) {
	m = EnsembleMember{ID: id, Spec: spec}
	peers, client, _ := strings.Cut(spec, ";")
	first, _, _ := strings.Cut(peers, "|")
	if end := strings.IndexByte(first, ']'); strings.HasPrefix(first, "[") && end > 0 {
		first = first[1:end]
	} else {
		first, _, _ = strings.Cut(first, ":")
	}
	if _, ok := parseHostName(first); ok {
		m.Host = first
	}
	m.Observer = strings.HasSuffix(strings.ToLower(peers), ":observer")
	if client = strings.TrimSpace(client); client == "" {
		return m, ""
	}
	host, port := "", client
	if i := strings.LastIndexByte(client, ':'); i >= 0 {
		host, port = client[:i], client[i+1:]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(host, ":") {
			return m, fmt.Sprintf("%q is not an address", shortenText(client))
		}
	}
	if host == "" || isWildcardHost(host) {
		if host = first; isWildcardHost(host) {
			return m, fmt.Sprintf("%q is a wildcard, not an address to connect to", shortenText(host))
		}
	}
	name, ok := parseHostName(host)
	if !ok {
		return m, fmt.Sprintf("%q is not a host name", shortenText(host))
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return m, fmt.Sprintf("%q is not a port from 1 to 65535", shortenText(port))
	}
	m.ClientAddress = net.JoinHostPort(name, strconv.FormatUint(n, 10))
	return m, ""
}

// isWildcardHost reports whether a host stands for all addresses of a machine. A client that connects to it
// reaches its own machine.
func isWildcardHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsUnspecified()
}

// parseHostName returns a host in the form used for connecting and comparing: an IP address in its usual form, a
// name in lower case. ok is false for anything else. An address with a zone is refused because a zone means
// something on one machine only.
func parseHostName(s string) (name string, ok bool) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap().String(), addr.Zone() == ""
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > maxLabel || strings.ContainsFunc(label, isForbiddenInHost) {
			return "", false
		}
	}
	return strings.ToLower(s), len(s) <= maxHost
}

const maxLabel = 63

func isForbiddenInHost(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

// WithEnsembleTracking makes the client follow the ensemble's own list of members ([Client.GetConfig]), now and
// whenever it changes. The list given to [New] or [Client.SetServers] then only serves to find a first member. The
// client connects to each member's client address or, if that is a wildcard, to the host that the other members use. So
// the members must list addresses that clients can reach; behind a proxy, a load balancer or a container's network they
// often do not.
//
// When no member of the ensemble's list can be reached, the client also tries the given list, as long as there is no
// connection. (Of a long ensemble list 16 random members are tried first.) A list without any address, such as a
// standalone server's, is ignored. An invalid list ([EnsembleConfig.Validate]) is not followed: the client keeps its
// present list and logs a warning.
//
// Every client that may write /zookeeper/config can decide where this client connects, with its session and its
// credentials. So, without [WithEnsembleHosts], the client follows only members whose host is in the given list, spelt
// the same, on any port. It follows all members if each has to prove by TLS that it belongs to the ensemble: with a
// certificate of an authority that [WithTLSFiles] or the RootCAs of [WithTLS] name, or for the one ServerName that is
// set there. The system's authorities are not enough, because they certify names of any owner. Members that are left
// out are logged as a warning, once for each change.
//
// Default: off. (Curator's ensembleTracker is on, and connects to any address in the node.)
func WithEnsembleTracking() Option { return func(o *options) error { o.tracking = true; return nil } }

// WithEnsembleHosts allows the client to connect to hosts that [WithEnsembleTracking] finds in the ensemble's
// configuration although they are not in the list given to [New] or [Client.SetServers]. So new servers can
// join without a restart of the clients, if their names or addresses show that they are yours.
//
//	framework.WithEnsembleHosts(func(host string) bool { return strings.HasSuffix(host, ".zk.internal") })
//
// allow is called with or without TLS, with a name in lower case or an IP address in its usual form, without brackets
// and port. It is called on a separate goroutine, should not block, and may be called again for the same host. It has
// no effect without WithEnsembleTracking, whose documentation describes the default.
func WithEnsembleHosts(allow func(host string) bool) Option {
	return checkedOption(allow != nil, func(o *options) { o.joinable = allow },
		"WithEnsembleHosts", "the function is nil; leave the option out to allow only the hosts given to New")
}

// trackPause is the least time between two reads of the configuration, however often a server reports a
// change.
const trackPause = time.Second

// trackEnsemble follows the ensemble's own list until the client is closed.
func (c *clientCore) trackEnsemble() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.spawn(func() {
		select {
		case <-c.closed:
			cancel()
		case <-ctx.Done():
		}
	})
	client := newClient(c, clientView{}) // the configuration node is above every chroot
	var told configComplaint
	for {
		s, err := client.Session(ctx)
		if err != nil {
			return // closed
		}
		config, watch, err := s.Client().WatchConfig(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, ErrSessionLost) {
				if !isTransient(err) { // else the log lines of the connection say it
					c.log.Warn("cannot read the ensemble's configuration; retrying", "err", err)
				}
				c.pauseFor(ctx, c.cfg.connectTimeout)
			}
			continue
		}
		if now := c.followConfig(config); now != told {
			told = now
			c.logComplaint(now)
		}
		c.pauseFor(ctx, trackPause)
		select {
		case <-watch.C: // it has changed, or the session has ended
		case <-ctx.Done():
		}
		watch.Stop()
	}
}

// configComplaint describes the faults of a configuration. The same complaint is logged only once.
type configComplaint struct {
	version          int64
	refused, leftOut string
}

func (c *clientCore) logComplaint(of configComplaint) {
	switch {
	case of.refused != "":
		c.log.Warn("ignoring an invalid ensemble configuration; keeping the list of servers",
			"version", fmt.Sprintf("%x", of.version), "err", of.refused)
	case of.leftOut != "":
		c.log.Warn("ignoring hosts of the ensemble's configuration that this client may not connect to; "+
			"see WithEnsembleHosts",
			"version", fmt.Sprintf("%x", of.version), "hosts", of.leftOut)
	}
}

// followConfig takes over the addresses of a configuration to which the client is allowed to connect. If there are
// none, the list does not change.
func (c *clientCore) followConfig(config EnsembleConfig) configComplaint {
	if err := config.Validate(); err != nil {
		return configComplaint{config.Version, err.Error(), ""}
	}
	trusted := c.trustedHosts()
	var list, strangers []string
	for _, server := range config.ClientAddresses() {
		if host, _, _ := net.SplitHostPort(server); trusted(host) {
			list = append(list, server)
		} else if !slices.Contains(strangers, host) {
			strangers = append(strangers, host)
		}
	}
	if len(list) > 0 && !slices.Equal(slices.Sorted(slices.Values(c.serverList())), list) {
		_ = c.changeServers(func(s *serverLists) { s.tracked = list }) // after ErrClosed there is nothing to do
	}
	if len(strangers) > 0 {
		return configComplaint{config.Version, "", joinServers(strangers, ",")}
	}
	return configComplaint{}
}

// trustedHosts returns a function that reports whether the client is allowed to connect to a host of the
// ensemble's list.
func (c *clientCore) trustedHosts() func(host string) bool {
	c.servers.mu.Lock()
	given := c.servers.given
	c.servers.mu.Unlock()
	named := map[string]bool{}
	for _, server := range given {
		host, _, _ := net.SplitHostPort(server)
		host, _ = parseHostName(host)
		named[host] = true
	}
	return func(host string) (ok bool) {
		switch {
		case named[host]:
			return true
		case c.cfg.joinable == nil:
			return c.cfg.authenticatesServers()
		}
		apart.Call(func() { ok = c.cfg.joinable(host) })
		return ok
	}
}

// authenticatesServers reports whether a server has to prove that it is the user's before the client sends it
// anything. A certificate of a public authority does not prove it: an attacker can get one for his own name, and
// write that name into the configuration.
func (o *options) authenticatesServers() bool {
	private := o.tls != nil && (o.tls.RootCAs != nil || o.tls.ServerName != "") ||
		o.tlsFiles != nil && (o.tlsFiles.CA != "" || o.tlsFiles.ServerName != "")
	return private && (o.tls == nil || !o.tls.InsecureSkipVerify)
}
