package framework

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"slices"

	"github.com/go-curator/curator/internal/wire"
)

// WithAuth adds a credential that every connection presents before anything else: WithAuth("digest",
// []byte("user:password")). It can be given several times. (In Curator the last call replaces the earlier ones.)
// Credentials are never logged. Without TLS they cross the network unencrypted; the first time that they leave the
// machine in this way, the client logs a warning.
func WithAuth(scheme string, auth []byte) Option {
	why := ""
	switch {
	case scheme == "":
		why = `the scheme is empty; the usual one is "digest", with []byte("user:password")`
	case scheme == "digest" && !bytes.ContainsRune(auth, ':'):
		why = `the credential has no colon; a digest credential is []byte("user:password")`
	}
	return checkedOption(why == "", func(o *options) {
		credential := &wire.Credential{Scheme: scheme, Auth: append([]byte{}, auth...)}
		o.credentials = append(o.credentials, credential)
	}, "WithAuth", "%s", why)
}

// WithSASL makes every connection log in by SASL before anything else, also before the client presents the credentials
// of [WithAuth] and sets watches again. A refused login ends the attempt to connect. The next attempt follows after a
// random pause, which from attempt to attempt grows to 5 s on average. Until then the client is not connected, and
// callers that wait for a connection get [ErrAuthFailed]. The identity for ACLs has the scheme "sasl", see
// [SASLIdentity]. Default: no login.
func WithSASL(m SASLMechanism) Option {
	// Name is the user's code, and may block: it is called here, and not during a login.
	return checkedOption(m != nil, func(o *options) { o.sasl, o.saslName = m, m.Name() },
		"WithSASL", "the mechanism is nil; leave the option out, or use WithSASLDigest")
}

// WithSASLDigest makes every connection log in by SASL's DIGEST-MD5 (RFC 2831), as a user of the section "Server" in
// the servers' JAAS configuration. It is the counterpart of a section "Client" with DigestLoginModule in Java. The
// password does not cross the network, and the server proves that it has the password, too. The traffic after the login
// is neither encrypted nor signed; use [WithTLS] for that. See [WithSASL].
func WithSASLDigest(user, password string) Option {
	m := &digestMD5{user: user, password: secretText(password)}
	return checkedOption(user != "", func(o *options) {
		o.sasl, o.saslName = m, m.Name()
	}, "WithSASLDigest", "the user is empty")
}

// WithTLS encrypts every connection. cfg also holds the client certificates. If its ServerName is empty, the
// host of the dialed server is used. Default: no TLS.
func WithTLS(cfg *tls.Config) Option {
	return checkedOption(cfg != nil, func(o *options) { o.tls = cfg.Clone() },
		"WithTLS", "the configuration is nil; give &tls.Config{} for the system's certificates, or leave the "+
			"option out")
}

// WithTLSFiles encrypts every connection with certificates from files. [New] reads the files, and fails with
// ErrInvalidOption and the reason (such as fs.ErrNotExist) if they cannot be used. They are read again for
// each connection. If they cannot be used then, because one is half written for example, the client logs a
// warning and uses the last good files.
//
// Other settings can be given with [WithTLS], in either order. The files replace its ServerName, RootCAs and
// Certificates. Its InsecureSkipVerify contradicts a CA or ServerName given here: New refuses that
// (ErrInvalidOption), unless VerifyConnection or VerifyPeerCertificate is set; then only that function
// verifies. Default: no TLS.
//
// When the client refuses a server's certificate, callers that wait for a connection get an error that matches [ErrTLS]
// and, with errors.As, x509.UnknownAuthorityError, x509.HostnameError or x509.CertificateInvalidError. When a server
// refuses the client, the error has only the few words that TLS has for the server's reason.
func WithTLSFiles(files TLSFiles) Option {
	return func(o *options) error {
		f := &tlsFileLoader{TLSFiles: files}
		if _, err := f.loadFiles(); err != nil {
			return fmt.Errorf("%w WithTLSFiles: %w", ErrInvalidOption, err)
		}
		o.tlsFiles = f
		return nil
	}
}

// WithACLProvider sets the function that returns a new node's ACL if the operation names none. [WithDefaultACL] and
// [WithContenders] also set this; the last of the three counts. Default: [OpenACL] for all nodes.
func WithACLProvider(p ACLProvider) Option {
	return checkedOption(p != nil, func(o *options) { o.aclProvider, o.parentACL, o.ancestorACL = p, nil, nil },
		"WithACLProvider", "the provider is nil; leave the option out for the open ACL")
}

// WithDefaultACL is [WithACLProvider] with the same ACL for all nodes.
func WithDefaultACL(acl ...ACL) Option {
	acl = slices.Clone(acl)
	return checkedOption(len(acl) > 0, func(o *options) { _ = WithACLProvider(func(string) []ACL { return acl })(o) },
		"WithDefaultACL", "the ACL is empty; leave the option out for the open ACL, or give CreatorACL()...")
}

// WithContenders sets the ACLs of the nodes that the client creates for a lock, latch, semaphore or barrier
// that several identities share. self is this client's identity, others are the identities that contend with
// it:
//
//	framework.WithContenders(framework.SASLIdentity("orders"), framework.SASLIdentity("billing"))
//
// Each kind of node has its own ACL, unless the operation names one:
//
//   - The requested node itself, such as a contender's node in the line: self has all permissions, and the others
//     have READ, to watch it. The others cannot write its data. So revocation, which writes into the holder's node,
//     works within one identity only, and so does setting a shared count, unless you create the count's node with an
//     ACL that has WRITE.
//   - The missing parent of that node ([Client.Ensure] and [Client.CreateContainers] create one, too): self and the
//     others have READ, CREATE and DELETE, to list the line, join it, and delete their nodes. The root of a namespace
//     has the same ACL.
//   - Missing parents further up: self and the others have READ and CREATE. Contenders cannot delete nodes directly
//     below these. So a recipe's path must not lead through another recipe's path, or through a node that a contender
//     has to delete, such as a barrier.
//
// No client has permission to change such a parent's ACL or to write its data, not even its creator. Nor may contenders
// delete it, as a rule: if it is a container the servers delete it, otherwise only the super user can. A parent that
// exists already keeps its ACL.
//
// self must be an identity that the client proves ([WithAuth], [WithSASL], a client certificate). No other client
// should have it, because it has all permissions on this client's nodes. Other identities that the client proves as
// well get none. If the client does not prove self, it has no access to the nodes that it creates: ErrNoAuth.
//
// ACLs cannot protect contenders from each other completely. The parent's ACL decides whether a node may be deleted: an
// identity that can delete its own node in the line can delete the nodes of all others. A hold is lost when the event
// of such a deletion arrives: its context ends with ErrNodeDeleted. Contenders that must not be able to do this to each
// other cannot share a lock.
//
// [WithDefaultACL] and [WithACLProvider] also set this; the last of the three counts.
func WithContenders(self Identity, others ...Identity) Option {
	all := []Identity{self}
	for _, o := range others {
		if !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return func(o *options) error {
		for _, i := range all {
			if i.Scheme == "" || i.Scheme == "auth" || i.ID == "" {
				return invalidOption("WithContenders",
					"%+v identifies nobody; use SASLIdentity, DigestIdentity or X509Identity", i)
			}
		}
		if self.Scheme == "world" {
			return invalidOption("WithContenders",
				"the first identity must be this client's own, not world:anyone, because it gets all "+
					"permissions")
		}
		node := append([]ACL{{PermAll, self.Scheme, self.ID}}, grantPermissions(PermRead, all[1:])...)
		o.aclProvider = func(string) []ACL { return node }
		o.parentACL = grantPermissions(PermRead|PermCreate|PermDelete, all)
		o.ancestorACL = grantPermissions(PermRead|PermCreate, all)
		return nil
	}
}
