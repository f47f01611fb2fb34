package framework

import (
	"fmt"
	"slices"
	"strings"
)

// Servers returns the servers that the client is to be connected to, as host:port: those that it was given, or, with [WithEnsembleTracking], those of the
// ensemble that it follows. Of these, when none can be reached, it asks the given ones as well.
func (c *Client) Servers() []string {
	if c.none() {
		return nil
	}
	return slices.Clone(c.core.serverList())
}

// SetServers changes the list of servers while the client is running. It takes what [New] takes: "host1:2181,host2:2181". A chroot may be left out, but not
// be another one (ErrInvalidConnectString). If the client is connected to a server that is not on the new list, it moves to one that is, as after a lost
// connection: the states are Suspended and Reconnected, and the session and its holds live on. ErrClosed after Close. It does not block.
//
// The servers must belong to the same ensemble. Corresponds to Curator's EnsembleProvider.setConnectionString: call it from whatever knows the list, such as
// a file or a discovery service. With [WithEnsembleTracking] the list is what [New] was given, from then on: the ensemble's own replaces it with its next change.
func (c *Client) SetServers(connect string) error {
	if c.none() {
		return ErrNoClient
	}
	servers, chroot, err := parseConnectString(connect)
	if err != nil {
		return err
	}
	if chroot != "" && chroot != c.view.chroot {
		return fmt.Errorf("%w %q: the client's chroot is %q and cannot change", ErrInvalidConnectString, shown(connect), c.view.chroot)
	}
	return c.core.setServers(servers)
}

// serverList is where the client is to be connected.
func (c *core) serverList() []string {
	servers, _ := c.serverLists()
	return servers
}

// serverLists is that, and what is asked as well when none of them can be reached.
func (c *core) serverLists() (servers, further []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tracked != nil {
		return c.tracked, c.given
	}
	return c.given, nil
}

// setServers takes the list that the user gives.
func (c *core) setServers(servers []string) error {
	return c.changeServers(func() { c.given, c.tracked = servers, nil })
}

// changeServers has the session go by what change leaves, which is called with mu held.
func (c *core) changeServers(change func()) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return ErrClosed
	}
	change()
	e := c.current
	c.mu.Unlock()
	servers, further := c.serverLists()
	e.wire.SetServers(servers, further)
	c.log.Info("servers", "list", listed(servers, ","))
	return nil
}

// maxListed is how many servers a line of the log or an error names.
const maxListed = 16

// listed is a list in words.
func listed(servers []string, separator string) string {
	if more := len(servers) - maxListed; more > 0 {
		return fmt.Sprintf("%s%sand %d more", strings.Join(servers[:maxListed], separator), separator, more)
	}
	return strings.Join(servers, separator)
}
