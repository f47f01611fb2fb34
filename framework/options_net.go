package framework

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"slices"
	"time"

	"github.com/go-curator/curator/internal/wire"
)

// Dialer opens a network connection. It must end when ctx does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// WithDialer says how a network connection is opened. TLS, if asked for, is
// put on top. Default: TCP with keepalive; the name is resolved anew for each attempt.
func WithDialer(dial Dialer) Option {
	return checked(dial != nil, func(o *options) { o.dial = dial },
		"WithDialer", "the dialer is nil; leave the option out for TCP")
}

// WithTLS encrypts every connection. Client certificates go in here. An empty ServerName becomes the host
// of the server dialed. Default: no TLS.
func WithTLS(cfg *tls.Config) Option {
	return checked(cfg != nil, func(o *options) { o.tls = cfg.Clone() },
		"WithTLS", "the configuration is nil; give &tls.Config{} for the system's certificates, or leave the "+
			"option out")
}

// WithReadOnly lets the client use members that have lost their quorum. They serve reads, possibly old
// ones, but none older than what this client has seen. Writes fail with [ErrNotReadOnly] there, a recipe
// cannot join a line, and nothing can be held (see [Session.WaitQuorum]). The client keeps looking for a
// member with a quorum. See [ReadOnly]. Default: off.
//
// The servers must allow it, by readonlymode.enabled as a system property and, in 3.8, by
// localSessionsEnabled=true in their configuration, because a session that a member opens without a quorum
// is local to it. Without the latter the client stays unconnected there, with ErrNotReadOnly.
func WithReadOnly() Option {
	return func(o *options) error { o.readOnly = true; return nil }
}

// WithReconnectJitter bounds the random pause between the loss of the connection and the search for another
// server. It keeps the clients of a large fleet from arriving at the same instant when a server fails or
// the leader changes. There is no pause when the list has one server, and none that would cost the session.
// 0 is no pause. Default 100 ms.
//
// Each further round through the list waits longer, at random, too: from about 50 ms up to 1 s, half as
// much more or less, and up to 5 s after a round in which a server answered and refused or dropped the
// connection.
func WithReconnectJitter(longest time.Duration) Option {
	return checked(longest >= 0, func(o *options) { o.spread = longest }, "WithReconnectJitter",
		"%v; give 0 or more", longest)
}

// WithAuth adds a credential that every connection presents before anything else: WithAuth("digest",
// []byte("user:password")). It can be given several times. (In Curator the last call replaces the earlier
// ones.) Credentials are never logged. Without TLS they cross the network in clear, and the log says so
// once, at the first connection that leaves the machine.
func WithAuth(scheme string, auth []byte) Option {
	why := ""
	switch {
	case scheme == "":
		why = `the scheme is empty; the usual one is "digest", with []byte("user:password")`
	case scheme == "digest" && !bytes.ContainsRune(auth, ':'):
		why = `a digest credential is []byte("user:password"); there is no colon`
	}
	return checked(why == "", func(o *options) {
		o.credentials = append(o.credentials, &wire.Credential{Scheme: scheme, Auth: append([]byte{}, auth...)})
	}, "WithAuth", "%s", why)
}

// WithACLProvider says which ACL a new node gets unless the operation names one. The last of this,
// [WithDefaultACL] and [WithContenders] counts. Default: [OpenACL] for all.
func WithACLProvider(p ACLProvider) Option {
	return checked(p != nil, func(o *options) { o.aclProvider, o.directoryACL, o.aboveACL = p, nil, nil },
		"WithACLProvider", "the provider is nil; leave the option out for the open ACL")
}

// WithDefaultACL is [WithACLProvider] with one answer for all nodes.
func WithDefaultACL(acl ...ACL) Option {
	acl = slices.Clone(acl)
	return checked(len(acl) > 0, func(o *options) { _ = WithACLProvider(func(string) []ACL { return acl })(o) },
		"WithDefaultACL", "no ACL; leave the option out for the open one, or give CreatorACL()...")
}
