package framework

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/go-curator/curator/internal/apart"
)

// Servers returns the servers to which the client connects, as host:port: the list given to [New] or
// [Client.SetServers] or, with [WithEnsembleTracking], the ensemble's list. It returns nil for a nil or zero client.
func (c *Client) Servers() []string {
	if c.isZeroValue() {
		return nil
	}
	return slices.Clone(c.core.serverList())
}

// SetServers changes the list of servers of a running client. It takes the same string as [New]:
// "host1:2181,host2:2181". The chroot may be left out, but must not be another one (ErrInvalidConnectString). If the
// connected server is not on the new list, the client closes that connection and connects to a server on the list, as
// after a lost connection: the states are Suspended and Reconnected, the session continues, and so do its holds except
// those with [SuspendedIsLoss]. SetServers does not block. After Close it returns ErrClosed.
//
// The servers must belong to the same ensemble. Call SetServers when the source of the list changes, such as a file or
// a discovery service. With [WithEnsembleTracking] the ensemble's own list replaces the given one at the ensemble's
// next change. Corresponds to Curator's EnsembleProvider.setConnectionString.
func (c *Client) SetServers(connect string) error {
	if c.isZeroValue() {
		return ErrNoClient
	}
	list, chroot, err := parseConnectString(connect)
	if err != nil {
		return err
	}
	if chroot != "" && chroot != c.view.chroot {
		return fmt.Errorf("%w %q: the client's chroot is %q and cannot change", ErrInvalidConnectString,
			redactConnectString(connect), c.view.chroot)
	}
	warnOfDoubles(c.core.log, connect, list)
	return c.core.changeServers(func(s *serverLists) { s.given, s.tracked = list, nil })
}

// changeServers calls change, and gives the changed lists to the current session.
func (c *clientCore) changeServers(change func(*serverLists)) error {
	if c.currentEpoch() == nil {
		return ErrClosed
	}
	c.servers.mu.Lock()
	change(&c.servers)
	c.servers.mu.Unlock()
	e := c.latestEpoch() // openEpoch reads the lists again after it has set the current epoch, so no epoch misses the change
	list, further := c.servers.currentServers()
	e.wire.SetServers(list, further)
	c.log.Info("the list of servers changed", "list", joinServers(list, ","))
	return nil
}

// WithEnsembleTracking makes the client use the ensemble's own list of members ([Client.GetConfig]), now and
// whenever it changes. The list given to [New] or [Client.SetServers] then only serves to find a first member. The
// client connects to each member's client address or, if that is a wildcard, to the host that the other members use. So
// the members must list addresses that clients can reach; behind a proxy, a load balancer or a container's network they
// often do not.
//
// When no member of the ensemble's list can be reached, the client also tries the given list, as long as there is no
// connection. (Of a long ensemble list 16 random members are tried first.) The client ignores a list without any
// address, such as a standalone server's. It also ignores an invalid list ([EnsembleConfig.Validate]), keeps its present
// list and logs a warning.
//
// Every client that may write /zookeeper/config can decide where this client connects, with its session and its
// credentials. So, without [WithEnsembleHosts], the client connects only to members whose host is in the given list,
// spelt the same, on any port. It connects to all members if each has to prove by TLS that it belongs to the ensemble:
// with a certificate of an authority that [WithTLSFiles] or the RootCAs of [WithTLS] name, or for the one ServerName
// that is set there. The system's authorities are not enough, because they certify names of any owner. The client logs
// the members that it leaves out as a warning, once for each change.
//
// Default: off. (Curator's ensembleTracker is on, and connects to any address in the node.)
func WithEnsembleTracking() Option { return func(o *options) error { o.tracking = true; return nil } }

// WithEnsembleHosts allows the client to connect to hosts that [WithEnsembleTracking] finds in the ensemble's
// configuration although they are not in the list given to [New] or [Client.SetServers]: those for which allow returns
// true. So new servers can join without a restart of the clients, if their names or addresses show that you own them.
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

// trackPause is the least time between two reads of the configuration, however often it changes.
const trackPause = time.Second

// trackEnsemble reads the ensemble's configuration, and again after each change, until the client is closed.
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
	client := newClient(c, clientView{}) // without chroot, since the configuration is outside every chroot
	var logged configFault
	for {
		s, err := client.Session(ctx)
		if err != nil {
			return // closed
		}
		config, watch, err := s.Client().WatchConfig(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, ErrSessionLost) {
				if !Retryable(err) { // else the loss of the connection is logged
					c.log.Warn("cannot read the ensemble's configuration; retrying", "err", err)
				}
				c.pauseFor(ctx, c.cfg.connectTimeout)
			}
			continue
		}
		if fault := c.followConfig(config); fault != logged {
			logged = fault
			c.logConfigFault(fault)
		}
		c.pauseFor(ctx, trackPause)
		select {
		case <-watch.C: // the configuration has changed, or the session has ended
		case <-ctx.Done():
		}
		watch.Stop()
	}
}

// configFault describes the fault of a configuration: it is invalid, or it names untrusted hosts. The zero value means
// no fault.
type configFault struct {
	version   int64
	invalid   string // the reason; "" if the configuration is valid
	untrusted string // the hosts to which the client may not connect
}

func (c *clientCore) logConfigFault(fault configFault) {
	switch {
	case fault.invalid != "":
		c.log.Warn("ignoring an invalid ensemble configuration; keeping the list of servers",
			"version", fmt.Sprintf("%x", fault.version), "err", fault.invalid)
	case fault.untrusted != "":
		c.log.Warn("ignoring hosts of the ensemble's configuration that this client may not connect to; "+
			"see WithEnsembleHosts",
			"version", fmt.Sprintf("%x", fault.version), "hosts", fault.untrusted)
	}
}

// followConfig makes the trusted addresses of a configuration the list of servers. If there are none, the list does not
// change.
func (c *clientCore) followConfig(config EnsembleConfig) configFault {
	if err := config.Validate(); err != nil {
		return configFault{config.Version, err.Error(), ""}
	}
	trusted := c.trustedHosts()
	var list, untrusted []string
	for _, server := range config.ClientAddresses() {
		if host, _, _ := net.SplitHostPort(server); trusted(host) {
			list = append(list, server)
		} else if !slices.Contains(untrusted, host) {
			untrusted = append(untrusted, host)
		}
	}
	if len(list) > 0 && !slices.Equal(slices.Sorted(slices.Values(c.serverList())), list) {
		_ = c.changeServers(func(s *serverLists) { s.tracked = list }) // ErrClosed: trackEnsemble ends, too
	}
	if len(untrusted) > 0 {
		return configFault{config.Version, "", joinServers(untrusted, ",")}
	}
	return configFault{}
}

// trustedHosts returns a function that reports whether the client is allowed to connect to a host of the
// ensemble's list.
func (c *clientCore) trustedHosts() func(host string) bool {
	c.servers.mu.Lock()
	given := c.servers.given
	c.servers.mu.Unlock()
	givenHosts := map[string]bool{}
	for _, server := range given {
		host, _, _ := net.SplitHostPort(server)
		host, _ = parseHostName(host)
		givenHosts[host] = true
	}
	return func(host string) (ok bool) {
		switch {
		case givenHosts[host]:
			return true
		case c.cfg.joinable == nil:
			return c.cfg.authenticatesServers()
		}
		apart.Call(func() { ok = c.cfg.joinable(host) })
		return ok
	}
}

// authenticatesServers reports whether a server has to prove by TLS that it belongs to the user. A certificate of a
// public authority does not prove it: an attacker can get one for a name that he owns, and write that name into the
// configuration.
func (o *options) authenticatesServers() bool {
	private := o.tls != nil && (o.tls.RootCAs != nil || o.tls.ServerName != "") ||
		o.tlsFiles != nil && (o.tlsFiles.CA != "" || o.tlsFiles.ServerName != "")
	return private && (o.tls == nil || !o.tls.InsecureSkipVerify)
}
