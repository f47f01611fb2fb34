package framework

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// servers is where the client is to be connected. Lists are replaced, never changed.
type servers struct {
	mu      sync.Mutex
	given   []string // by the user; guarded by mu
	tracked []string // by the ensemble, nil unless it is followed; guarded by mu
}

// now returns the servers to connect to, and those that are asked as well when none of them can be reached.
func (s *servers) now() (list, further []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracked != nil {
		return s.tracked, s.given
	}
	return s.given, nil
}

// Servers returns the servers that the client is to be connected to, as host:port: those that it was given,
// or, with [WithEnsembleTracking], those of the ensemble that it follows. When none of the latter can be
// reached it asks the given ones as well.
func (c *Client) Servers() []string {
	if c.none() {
		return nil
	}
	return slices.Clone(c.core.serverList())
}

// SetServers changes the list of servers of a running client. It takes what [New] takes:
// "host1:2181,host2:2181". A chroot may be left out, but not be another one (ErrInvalidConnectString). If
// the client is connected to a server that is not on the new list it moves to one that is, as after a lost
// connection: the states are Suspended and Reconnected, and the session and its holds go on. ErrClosed
// after Close. It does not block.
//
// The servers must belong to the same ensemble. Call it from whatever knows the list, such as a file or a
// discovery service. With [WithEnsembleTracking] the ensemble's own list replaces it with the next change
// of the ensemble. Corresponds to Curator's EnsembleProvider.setConnectionString.
func (c *Client) SetServers(connect string) error {
	if c.none() {
		return ErrNoClient
	}
	list, chroot, err := parseConnectString(connect)
	if err != nil {
		return err
	}
	if chroot != "" && chroot != c.view.chroot {
		return fmt.Errorf("%w %q: the client's chroot is %q and cannot change", ErrInvalidConnectString,
			shown(connect), c.view.chroot)
	}
	return c.core.changeServers(func(s *servers) { s.given, s.tracked = list, nil })
}

// serverList is where the client is to be connected.
func (c *core) serverList() []string {
	list, _ := c.servers.now()
	return list
}

// changeServers changes the lists and tells the session.
func (c *core) changeServers(change func(*servers)) error {
	if c.epochNow() == nil {
		return ErrClosed
	}
	c.servers.mu.Lock()
	change(&c.servers)
	c.servers.mu.Unlock()
	// An epoch that begins after this look takes the lists as they are now.
	e := c.epochLast()
	list, further := c.servers.now()
	e.wire.SetServers(list, further)
	c.log.Info("servers", "list", listed(list, ","))
	return nil
}

// maxListed is how many servers a log line or an error names.
const maxListed = 16

// listed returns a list in words.
func listed(servers []string, separator string) string {
	if more := len(servers) - maxListed; more > 0 {
		return fmt.Sprintf("%s%sand %d more", strings.Join(servers[:maxListed], separator), separator, more)
	}
	return strings.Join(servers, separator)
}
