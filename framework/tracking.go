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
				if !transient(err) { // of the connection there are lines enough
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

// trackPause is the least time between two looks at the configuration, however often it changes, or a server says that it does.
const trackPause = time.Second

// complaint is what is wrong with a configuration, for the log: the same is not told twice.
type complaint struct {
	version          int64
	refused, leftOut string
}

func (c *core) complain(of complaint) {
	switch {
	case of.refused != "":
		c.log.Warn("the ensemble's configuration is not followed", "version", fmt.Sprintf("%x", of.version), "err", of.refused)
	case of.leftOut != "":
		c.log.Warn("hosts of the ensemble's configuration are left out: this client was not given them, see WithEnsembleHosts",
			"version", fmt.Sprintf("%x", of.version), "hosts", of.leftOut)
	}
}

// follow takes the list of a configuration: all of it that the client may be connected to. Where nothing is left the list stays as it is.
func (c *core) follow(config EnsembleConfig) complaint {
	if err := config.Validate(); err != nil {
		return complaint{config.Version, err.Error(), ""}
	}
	trusted := c.trusted()
	var servers, strangers []string
	for _, server := range config.ClientAddresses() {
		if host, _, _ := net.SplitHostPort(server); trusted(host) {
			servers = append(servers, server)
		} else if !slices.Contains(strangers, host) {
			strangers = append(strangers, host)
		}
	}
	if len(servers) > 0 && !slices.Equal(slices.Sorted(slices.Values(c.serverList())), servers) {
		_ = c.changeServers(func() { c.tracked = servers }) // ErrClosed: nobody is left to be told
	}
	if len(strangers) > 0 {
		return complaint{config.Version, "", listed(strangers, ",")}
	}
	return complaint{}
}

// trusted tells the hosts to which the client may be connected because the ensemble names them: those that the user has named, too, and those that he
// allows; else the others only where each has to prove that it is a server of his.
func (c *core) trusted() func(host string) bool {
	c.mu.Lock()
	given := c.given
	c.mu.Unlock()
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

// provesServers says whether whoever the client is connected to has proved to be a server of the user's before it is told anything. A certificate of an
// authority that serves the public proves no more than its holder's own name, which is the name that he has put into the configuration.
func (o *options) provesServers() bool {
	private := o.tls != nil && (o.tls.RootCAs != nil || o.tls.ServerName != "") ||
		o.tlsFiles != nil && (o.tlsFiles.CA != "" || o.tlsFiles.ServerName != "")
	return private && (o.tls == nil || !o.tls.InsecureSkipVerify)
}

// WithEnsembleTracking has the client follow the servers' own list of members ([Client.GetConfig]), now and whenever it changes, instead of the list given to
// [New] or [Client.SetServers], which serves to find the first of them. A member counts with its client address; where that is a wildcard, with the host by
// which the members know it. So the members must list addresses that clients can reach: behind a proxy, a load balancer or a container's network they often do
// not. When no member of the ensemble's list can be reached, the given list is asked as well, for as long as there is no connection. (Of a long list 16
// members, chosen at random, are asked before that.) A list without any address is ignored, and so is that of a standalone server, which has none. One
// that cannot be right ([EnsembleConfig.Validate]) is not followed: the client keeps the list that it has and logs a warning.
//
// Who may write /zookeeper/config says where the client goes, with its session and its credentials. So, unless [WithEnsembleHosts] says otherwise, only
// members are followed whose host, in the same words, is in the given list, on any port, or all if each has to prove by TLS that it belongs to it: by a
// certificate of an authority that [WithTLSFiles] or the RootCAs of [WithTLS] name, or for the one ServerName that is set there. The system's authorities are not
// enough: anybody can have a certificate of theirs for a name of his own. What is left out is logged as a warning, once for each change.
//
// Default: off. (Curator's ensembleTracker is on, and connects to whatever the node says.)
func WithEnsembleTracking() Option {
	return func(o *options) error { o.tracking = true; return nil }
}

// WithEnsembleHosts says to which hosts that are not in the list given to [New] or [Client.SetServers] the client may be connected when [WithEnsembleTracking]
// finds them in the ensemble's configuration: new servers join without a restart of the clients if their names, or addresses, tell that they are yours.
//
//	framework.WithEnsembleHosts(func(host string) bool { return strings.HasSuffix(host, ".zk.internal") })
//
// It is asked with or without TLS, with a name in lower case or an IP address in its usual form, without brackets and port. It is called on a goroutine of its
// own, should not block, and may be called again for the same host. It has no effect without WithEnsembleTracking. Default: see there.
func WithEnsembleHosts(allow func(host string) bool) Option {
	return func(o *options) error {
		if allow == nil {
			return invalid("WithEnsembleHosts", "the function is nil; leave the option out for the hosts that New is given")
		}
		o.joinable = allow
		return nil
	}
}
