package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Servers returns the servers that the client may connect to, as host:port.
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
// a file or a discovery service. [WithEnsembleTracking] calls it with what the ensemble says.
func (c *Client) SetServers(connect string) error {
	if c.none() {
		return ErrNoClient
	}
	servers, chroot, err := parseConnectString(connect)
	if err != nil {
		return err
	}
	if chroot != "" && chroot != c.view.chroot {
		return fmt.Errorf("%w %q: the client's chroot is %q and cannot change", ErrInvalidConnectString, connect, c.view.chroot)
	}
	return c.core.setServers(servers)
}

func (c *core) serverList() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers
}

func (c *core) setServers(servers []string) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return ErrClosed
	}
	c.servers = servers
	e := c.current
	c.mu.Unlock()
	e.wire.SetServers(servers)
	c.log.Info("servers", "list", strings.Join(servers, ","))
	return nil
}

// track follows the ensemble's own list until the client is closed.
func (c *core) track() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.spawn(func() {
		select {
		case <-c.closed:
			cancel()
		case <-ctx.Done():
		}
	})
	client := &Client{core: c} // the ensemble's node is above every chroot
	for {
		s, err := client.Session(ctx)
		if err != nil {
			return // closed
		}
		config, watch, err := s.Client().GetConfig().WithWatch().ForEnsemble(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, ErrSessionLost) {
				if !transient(err) { // of the connection there are lines enough
					c.log.Warn("cannot read the ensemble's configuration", "err", err)
				}
				sleep(ctx, c.cfg.connectTimeout)
			}
			continue
		}
		c.follow(config)
		select {
		case <-watch.C: // it has changed, or the session has ended
		case <-ctx.Done():
		}
		watch.Stop()
	}
}

// follow takes the list of a configuration.
func (c *core) follow(config EnsembleConfig) {
	servers := config.ClientAddresses()
	now := slices.Sorted(slices.Values(c.serverList()))
	if len(servers) > 0 && !slices.Equal(now, servers) {
		_ = c.setServers(servers) // ErrClosed: nobody is left to be told
	}
}
