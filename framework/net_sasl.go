package framework

import (
	"context"
	"fmt"
	"net"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/wire"
)

// SASLMechanism is a way to log in by SASL. DIGEST-MD5 is built in, see [WithSASLDigest]. Implement it for
// others, such as GSSAPI (Kerberos), and give it to [WithSASL]. Its methods may be called from several
// goroutines at once.
type SASLMechanism interface {
	// Name is the mechanism's registered name, for logs and errors. [New] asks for it, once. (The server's
	// configuration decides which mechanism is used, and the client must know.)
	Name() string
	// Start begins a login to the server on host, as the connect string names it. It may block, for a ticket
	// for example, but must end with ctx, which also ends when the time to make the connection is over.
	Start(ctx context.Context, host string) (SASLLogin, error)
}

// SASLLogin is one login under way. One goroutine uses it.
type SASLLogin interface {
	// Step answers the server's challenge. The first call has none (nil), because the client speaks first; its
	// response is empty (not nil) if the mechanism has nothing to say yet. A server without a last word sends
	// nil, too.
	//
	// done says that the mechanism is satisfied; a nil response then sends nothing more. An error refuses the
	// server. It is found with [ErrAuthFailed] in the errors of callers that wait for a connection, and must
	// not contain secrets.
	Step(challenge []byte) (response []byte, done bool, err error)
}

// WithSASL has every connection log in by SASL before anything else, also before the credentials of
// [WithAuth] are presented and watches are set again. A refused login ends the attempt. The next attempt
// follows after a pause that grows to 5 s on average; meanwhile the client is not connected, and callers
// that wait for a connection get [ErrAuthFailed]. The identity for ACLs has the scheme "sasl", see
// [SASLIdentity]. Default: no login.
func WithSASL(m SASLMechanism) Option {
	// Name is called here and not while a connection waits for it.
	return checked(m != nil, func(o *options) { o.sasl, o.saslName = m, m.Name() },
		"WithSASL", "the mechanism is nil; leave the option out, or use WithSASLDigest")
}

// WithSASLDigest has every connection log in by SASL's DIGEST-MD5 (RFC 2831) as a user of the section
// "Server" in the servers' JAAS configuration: the counterpart of a section "Client" with DigestLoginModule
// in Java. The password does not cross the network, and the server proves that it knows it, too. What
// follows the login is neither encrypted nor signed; for that there is [WithTLS]. See [WithSASL].
func WithSASLDigest(user, password string) Option {
	m := &digestMD5{user: user, password: secret(password)}
	return checked(user != "", func(o *options) {
		o.sasl, o.saslName = m, m.Name()
	}, "WithSASLDigest", "the user is empty")
}

// loginName says who logs in, for errors.
func (o *options) loginName() string {
	if d, ok := o.sasl.(*digestMD5); ok {
		return fmt.Sprintf("user %q by %s", d.user, o.saslName)
	}
	if o.sasl != nil {
		return "the client by " + o.saslName
	}
	return ""
}

// login is the mechanism as the wire calls it; nil if there is none.
func (o *options) login() func(context.Context, string) (wire.LoginStep, error) {
	if o.sasl == nil {
		return nil
	}
	return func(ctx context.Context, server string) (wire.LoginStep, error) {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			host = server
		}
		var login SASLLogin
		err = apart.ErrNoReturn
		apart.Call(func() { login, err = o.sasl.Start(ctx, host) })
		if err == nil && login == nil {
			err = fmt.Errorf("Start returned nothing")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.saslName, err)
		}
		return func(challenge []byte) (response []byte, done bool, err error) {
			err = apart.ErrNoReturn
			apart.Call(func() { response, done, err = login.Step(challenge) })
			if err != nil {
				err = fmt.Errorf("%s: %w", o.saslName, err)
			}
			return response, done, err
		}, nil
	}
}
