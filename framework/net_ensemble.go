package framework

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalidEnsembleConfig says that the ensemble's configuration cannot be what members write about
// themselves, so that no client follows it. The message says why: more than 1000 members or 1 MiB, or a
// member whose client address is none. An address is an IP address without a zone or a name of letters,
// digits, "-", "_" and ".", at most 253 bytes long, with a port from 1 to 65535.
var ErrInvalidEnsembleConfig = named("invalid ensemble configuration")

const (
	// maxMembers is the most members of a configuration. Ensembles have a handful, and some dozens of observers.
	maxMembers = 1000
	// maxConfig is its largest size in bytes. By default no more fits into a node.
	maxConfig = 1 << 20
)

// EnsembleConfig is what the members of an ensemble have agreed on about themselves.
type EnsembleConfig struct {
	// Version identifies the configuration, for [ReconfigBuilder.FromConfig].
	Version int64
	// Members are in the order of their ids, at most 1000. A standalone server has none.
	Members []EnsembleMember
	// Data is the configuration as the server keeps it: a line per member, weights and groups, if any, and the
	// version.
	Data []byte

	fault error // see Validate
}

// Validate returns why no client can follow the configuration, see [WithEnsembleTracking]:
// ErrInvalidEnsembleConfig with the first reason, or nil. A member without a client address is valid.
func (c EnsembleConfig) Validate() error { return c.fault }

// wrong notes what is wrong. The first reason counts.
func (c *EnsembleConfig) wrong(format string, args ...any) {
	if c.fault == nil {
		c.fault = fmt.Errorf("%w: %s", ErrInvalidEnsembleConfig, fmt.Sprintf(format, args...))
	}
}

// EnsembleMember is a line "server.ID=…" of a configuration.
type EnsembleMember struct {
	ID int64
	// Host is how the other members reach it, without the ports: the first address, if it has several. Empty
	// if it is neither a name nor an IP address.
	Host string
	// Observer says that it has no vote. Clients use it all the same.
	Observer bool
	// ClientAddress is where it serves clients, as host:port, with Host for a wildcard. Empty if the line has
	// none, or nothing that can be an address.
	ClientAddress string
	// Spec is what follows the "=".
	Spec string
}

// ClientAddresses returns where clients can connect, observers included, sorted and without repetition.
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

// parseEnsembleConfig reads what it understands, as members do with lines of later versions, and notes what
// cannot be right.
func parseEnsembleConfig(data []byte) EnsembleConfig {
	c := EnsembleConfig{Data: data}
	if len(data) > maxConfig {
		c.wrong("%d bytes; the most are %d", len(data), maxConfig)
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
				c.add(id, value)
			}
		}
	}
	slices.SortFunc(c.Members, func(a, b EnsembleMember) int { return cmp.Compare(a.ID, b.ID) })
	return c
}

func (c *EnsembleConfig) add(id int64, spec string) {
	if len(c.Members) == maxMembers {
		c.wrong("more than %d members", maxMembers)
		return
	}
	m, why := parseMember(id, spec)
	if why != "" {
		c.wrong("member %d: %s", id, why)
	}
	c.Members = append(c.Members, m)
}

// parseMember reads "host:port:port[:role][|host:port:port[:role]]…[;[address:]port]". why says why the
// client address is none, if there is one.
func parseMember(id int64, spec string) (m EnsembleMember, why string) {
	m = EnsembleMember{ID: id, Spec: spec}
	peers, client, _ := strings.Cut(spec, ";")
	first, _, _ := strings.Cut(peers, "|")
	if end := strings.IndexByte(first, ']'); strings.HasPrefix(first, "[") && end > 0 {
		first = first[1:end]
	} else {
		first, _, _ = strings.Cut(first, ":")
	}
	if _, ok := hostName(first); ok {
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
			return m, fmt.Sprintf("%q is not an address", shortened(client))
		}
	}
	if host == "" || isWildcard(host) {
		if host = first; isWildcard(host) {
			return m, fmt.Sprintf("%q is nobody's address", shortened(host))
		}
	}
	name, ok := hostName(host)
	if !ok {
		return m, fmt.Sprintf("%q is not a host", shortened(host))
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return m, fmt.Sprintf("%q is not a port from 1 to 65535", shortened(port))
	}
	m.ClientAddress = net.JoinHostPort(name, strconv.FormatUint(n, 10))
	return m, ""
}

// isWildcard says whether a host is the address that stands for all of a machine's. A client that connects to
// it connects to its own machine.
func isWildcard(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsUnspecified()
}

// hostName returns a host in the form in which it is connected to and compared: an IP address in its usual
// form, a name in lower case. ok is false for anything else, an address with a zone included, because a
// zone means something on one machine only.
func hostName(s string) (name string, ok bool) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap().String(), addr.Zone() == ""
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > maxLabel || strings.ContainsFunc(label, notInNames) {
			return "", false
		}
	}
	return strings.ToLower(s), len(s) <= maxHost
}

// maxLabel is the length of the longest parts of a host name.
const maxLabel = 63

func notInNames(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}
