package zktest

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// membership is a configuration of an ensemble: its members, and which of them vote. It is immutable once it is in use.
// Member i of the Ensemble has the id i+1; members with other ids never run.
type membership struct {
	version int64
	members []memberLine // in the order of their ids
}

// memberLine is a line "server.ID=…" of a configuration.
type memberLine struct {
	id       int64
	spec     string // the text after the "=", as a server writes it
	observer bool
	client   bool     // it has an address for clients
	addrs    []string // no other member may have one of them
}

func (c *membership) String() string {
	var b strings.Builder
	for _, m := range c.members {
		fmt.Fprintf(&b, "server.%d=%s\n", m.id, m.spec)
	}
	fmt.Fprintf(&b, "version=%x", c.version)
	return b.String()
}

// lineOf returns the line of a member, nil if it is not in the configuration.
func (c *membership) lineOf(id int64) *memberLine {
	for i := range c.members {
		if c.members[i].id == id {
			return &c.members[i]
		}
	}
	return nil
}

func (c *membership) hasVoter(m *ensembleMember) bool {
	line := c.lineOf(m.serverID())
	return line != nil && !line.observer
}

// hasObserver reports whether the member is an observer. A removed member is not: it stays a follower that does not
// count.
func (c *membership) hasObserver(m *ensembleMember) bool {
	line := c.lineOf(m.serverID())
	return line != nil && line.observer
}

func (c *membership) voters() (n int) {
	for _, m := range c.members {
		if !m.observer {
			n++
		}
	}
	return n
}

// hasMajority reports whether a set of members has a majority of the voters.
func (c *membership) hasMajority(set uint) bool {
	n := 0
	for _, m := range c.members {
		if !m.observer && m.id >= 1 && m.id <= maxMembers && set&(1<<(m.id-1)) != 0 {
			n++
		}
	}
	return n > c.voters()/2
}

// withMember adds a member, and removes a member with the same id.
func (c *membership) withMember(line memberLine) {
	c.withoutMember(line.id)
	c.members = append(c.members, line)
	slices.SortFunc(c.members, func(a, b memberLine) int { return cmp.Compare(a.id, b.id) })
}

func (c *membership) withoutMember(id int64) {
	c.members = slices.DeleteFunc(slices.Clone(c.members), func(m memberLine) bool { return m.id == id })
}

// sharesAddress reports whether two members have an address in common. Java looks up names; here only IP addresses
// are compared. As in Java, loopback and wildcard addresses do not clash.
func (m memberLine) sharesAddress(other memberLine) bool {
	return slices.ContainsFunc(m.addrs, func(addr string) bool { return slices.Contains(other.addrs, addr) })
}

// parseMember reads "host:port:port[:role][;[host:]port]". Mistakes that Java checks for are refused with
// ErrBadArguments, mistakes that make it fail with ErrMarshalling.
func parseMember(id int64, spec string) (memberLine, Error) {
	m := memberLine{id: id}
	parts := javaSplit(spec, ";")
	if len(parts) == 0 || len(parts) > 2 {
		return m, ErrBadArguments
	}
	client := ""
	if len(parts) == 2 {
		words, err := hostAndPorts(parts[1])
		switch {
		case err != ok:
			return m, err
		case len(words) == 0:
			return m, ErrMarshalling
		case len(words) == 1:
			words = []string{"0.0.0.0", words[0]}
		case len(words) > 2:
			return m, ErrBadArguments
		}
		port, err := parsePort(words[1])
		if err != ok {
			return m, err
		}
		client, m.client = ";"+m.recordAddress(words[0], port)+":"+port, true
	}
	words, err := hostAndPorts(parts[0]) // several addresses with "|" are refused by default
	if err != ok {
		return m, err
	}
	if len(words) < 3 || len(words) > 4 || strings.Contains(parts[0], "|") {
		return m, ErrBadArguments
	}
	var ports [2]string
	for i := range ports {
		if ports[i], err = parsePort(words[1+i]); err != ok {
			return m, err
		}
	}
	if ports[0] == ports[1] {
		return m, ErrBadArguments
	}
	role := "participant"
	if len(words) == 4 {
		role = strings.ToLower(strings.TrimSpace(words[3]))
	}
	if m.observer = role == "observer"; !m.observer && role != "participant" {
		return m, ErrBadArguments
	}
	m.recordAddress(words[0], ports[1])
	m.spec = fmt.Sprintf("%s:%s:%s:%s%s", m.recordAddress(words[0], ports[0]), ports[0], ports[1], role, client)
	return m, ok
}

// recordAddress records an address, and returns the host as a server writes it.
func (m *memberLine) recordAddress(host, port string) string {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return cmp.Or(host, "localhost")
	}
	if !addr.IsLoopback() && !addr.IsUnspecified() {
		m.addrs = append(m.addrs, net.JoinHostPort(addr.String(), port))
	}
	if addr.Is4() {
		return addr.String()
	}
	groups := make([]string, 8) // Java leaves no zeros out
	bytes := addr.As16()
	for i := range groups {
		groups[i] = strconv.FormatUint(uint64(bytes[2*i])<<8|uint64(bytes[2*i+1]), 16)
	}
	return "[" + strings.Join(groups, ":") + "]"
}

// hostAndPorts splits "host:1:2" and "[::1]:1:2".
func hostAndPorts(s string) ([]string, Error) {
	if !strings.HasPrefix(s, "[") {
		return javaSplit(s, ":"), ok
	}
	host, rest, closed := strings.Cut(s[1:], "]")
	if !closed || len(rest) == 1 {
		return nil, ErrBadArguments
	}
	if rest == "" {
		return []string{host}, ok
	}
	return append([]string{host}, javaSplit(rest[1:], ":")...), ok
}

func parsePort(s string) (string, Error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return "", ErrBadArguments
	}
	if n < 0 || n > 65535 {
		return "", ErrMarshalling
	}
	return strconv.FormatInt(n, 10), ok
}

// javaSplit is Java's String.split, which drops empty parts at the end.
func javaSplit(s, separator string) []string {
	parts := strings.Split(s, separator)
	for len(parts) > 1 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	if s != "" && len(parts) == 1 && parts[0] == "" {
		return nil
	}
	return parts
}
