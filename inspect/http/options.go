package inspecthttp

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/go-curator/curator/framework"
)

// Option is an option of [New]. If one is given several times the last counts, unless it says otherwise.
type Option func(*Page) error

// WithDelete lets people delete the node of a participant: of a waiter that waits for ever, or of a holder that is
// dead as far as they know. The page asks for a confirmation. Only nodes that are in a line are deleted, and only as
// long as they are the same (by czxid and version). Each deletion is logged to the client's logger. Default: the page
// changes nothing.
func WithDelete() Option {
	return func(p *Page) error {
		p.mayDelete = true
		return nil
	}
}

// WithHosts refuses requests whose Host header names none of these hosts, with 421: host names or addresses
// without a port, such as "localhost" or "::1". Given several times, all hosts are served. Default: every host is
// served, see "Who may see it".
func WithHosts(names ...string) Option {
	return func(p *Page) error {
		for _, name := range names {
			if name == "" || strings.ContainsAny(name, "/ []") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
				return fmt.Errorf("%w WithHosts: %q is no host name or address without a port",
					framework.ErrInvalidOption, name)
			}
			p.hosts = append(p.hosts, canonicalHost(name))
		}
		return nil
	}
}

// canonicalHost returns a host in canonical form for comparisons: an IP address in its usual form, a name in lower case.
func canonicalHost(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return strings.ToLower(host)
}
