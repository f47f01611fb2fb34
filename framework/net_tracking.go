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

// WithEnsembleTracking has the client follow the servers' own list of members ([Client.GetConfig]), now and
// whenever it changes, instead of the list given to [New] or [Client.SetServers], which serves to find the
// first of them. Of each member the client address is used, or, if that is a wildcard, the host by which
// the members know it. So the members must list addresses that clients can reach; behind a proxy, a load
// balancer or a container's network they often do not.
//
// When no member of the ensemble's list can be reached the given list is asked as well, for as long as
// there is no connection. (Of a long list 16 random members are asked first.) A list without any address is
// ignored, as is that of a standalone server, which has none. A list that cannot be right
// ([EnsembleConfig.Validate]) is not followed: the client keeps the one it has and logs a warning.
//
// Whoever may write /zookeeper/config decides where the client goes, with its session and its credentials.
// So, unless [WithEnsembleHosts] says otherwise, only those members are followed whose host is in the given
// list, in the same words and on any port. All are followed if each has to prove by TLS that it belongs to
// the ensemble: by a certificate of an authority that [WithTLSFiles] or the RootCAs of [WithTLS] name, or
// for the one ServerName that is set there. The system's authorities are not enough, because they certify
// anybody's name. Members that are left out are logged as a warning, once for each change.
//
// Default: off. (Curator's ensembleTracker is on, and connects to whatever the node says.)
func WithEnsembleTracking() Option {
	return func(o *options) error { o.tracking = true; return nil }
}

// WithEnsembleHosts says to which hosts that are not in the list given to [New] or [Client.SetServers] the
// client may be connected when [WithEnsembleTracking] finds them in the ensemble's configuration. With it
// new servers join without a restart of the clients, if their names or addresses tell that they are yours.
//
//	framework.WithEnsembleHosts(func(host string) bool { return strings.HasSuffix(host, ".zk.internal") })
//
// The function is asked with or without TLS, with a name in lower case or an IP address in its usual form,
// without brackets and port. It is called on a goroutine of its own, should not block, and may be called
// again for the same host. It has no effect without WithEnsembleTracking. Default: see there.
func WithEnsembleHosts(allow func(host string) bool) Option {
	return checked(allow != nil, func(o *options) { o.joinable = allow },
		"WithEnsembleHosts", "the function is nil; leave the option out for the hosts that New is given")
}

// trackPause is the least time between two reads of the configuration, however often a server reports a
// change.
const trackPause = time.Second

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
	var told complaint
	for {
		s, err := client.Session(ctx)
		if err != nil {
			return // closed
		}
		config, watch, err := s.Client().GetConfig().WithWatch().ForEnsemble(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, ErrSessionLost) {
				if !transient(err) { // else the connection's own log lines say it
					c.log.Warn("cannot read the ensemble's configuration", "err", err)
				}
				c.pause(ctx, c.cfg.connectTimeout)
			}
			continue
		}
		if now := c.follow(config); now != told {
			told = now
			c.complain(now)
		}
		c.pause(ctx, trackPause)
		select {
		case <-watch.C: // it has changed, or the session has ended
		case <-ctx.Done():
		}
		watch.Stop()
	}
}

// complaint is what is wrong with a configuration. The same complaint is logged once.
type complaint struct {
	version          int64
	refused, leftOut string
}

func (c *core) complain(of complaint) {
	switch {
	case of.refused != "":
		c.log.Warn("the ensemble's configuration is not followed",
			"version", fmt.Sprintf("%x", of.version), "err", of.refused)
	case of.leftOut != "":
		c.log.Warn("hosts of the ensemble's configuration are left out: this client was not given them, see "+
			"WithEnsembleHosts",
			"version", fmt.Sprintf("%x", of.version), "hosts", of.leftOut)
	}
}

// follow takes the addresses of a configuration that the client may be connected to. If there are none the
// list stays as it is.
func (c *core) follow(config EnsembleConfig) complaint {
	if err := config.Validate(); err != nil {
		return complaint{config.Version, err.Error(), ""}
	}
	trusted := c.trusted()
	var list, strangers []string
	for _, server := range config.ClientAddresses() {
		if host, _, _ := net.SplitHostPort(server); trusted(host) {
			list = append(list, server)
		} else if !slices.Contains(strangers, host) {
			strangers = append(strangers, host)
		}
	}
	if len(list) > 0 && !slices.Equal(slices.Sorted(slices.Values(c.serverList())), list) {
		_ = c.changeServers(func(s *servers) { s.tracked = list }) // after ErrClosed nobody needs to know
	}
	if len(strangers) > 0 {
		return complaint{config.Version, "", listed(strangers, ",")}
	}
	return complaint{}
}

// trusted returns a function that says whether the client may be connected to a host of the ensemble's list.
func (c *core) trusted() func(host string) bool {
	c.servers.mu.Lock()
	given := c.servers.given
	c.servers.mu.Unlock()
	named := map[string]bool{}
	for _, server := range given {
		host, _, _ := net.SplitHostPort(server)
		host, _ = hostName(host)
		named[host] = true
	}
	return func(host string) (ok bool) {
		switch {
		case named[host]:
			return true
		case c.cfg.joinable == nil:
			return c.cfg.provesServers()
		}
		apart.Call(func() { ok = c.cfg.joinable(host) })
		return ok
	}
}

// provesServers says whether a server proves that it is the user's before the client tells it anything. A
// certificate of a public authority does not: it proves only that its holder owns the name that he has put
// into the configuration himself.
func (o *options) provesServers() bool {
	private := o.tls != nil && (o.tls.RootCAs != nil || o.tls.ServerName != "") ||
		o.tlsFiles != nil && (o.tlsFiles.CA != "" || o.tlsFiles.ServerName != "")
	return private && (o.tls == nil || !o.tls.InsecureSkipVerify)
}
