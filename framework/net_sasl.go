package framework

import (
	"context"
	"fmt"
	"net"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/wire"
)

// SASLMechanism is a way for connections to log in by SASL. DIGEST-MD5 is built in, see [WithSASLDigest];
// implement it for others, such as GSSAPI (Kerberos), and give it to [WithSASL]. Its methods may be called
// from several goroutines at once.
type SASLMechanism interface {
	// Name is the mechanism's registered name, for logs and errors; [New] asks for it, once. (In ZooKeeper the
	// server's configuration decides, and the client must know.)
	Name() string
	// Start begins a login to the server on host, as the connect string names it. It may block, for a ticket
	// say, but must end with ctx, which also ends with the time that the connection has to be made.
	Start(ctx context.Context, host string) (SASLLogin, error)
}

// SASLLogin is one login under way. It is used by one goroutine.
type SASLLogin interface {
	// Step answers the server's challenge. The first call has none (nil): the client speaks first, with an
	// empty response (not nil) if the mechanism has nothing to say yet. A server without a next word sends
	// none (nil) either.
	//
	// done says that all is said and that the mechanism is content; a nil response then sends nothing more. An
	// error refuses the server: it is found with [ErrAuthFailed] in the errors of those who wait for a
	// connection. It must not contain secrets.
	Step(challenge []byte) (response []byte, done bool, err error)
}

// WithSASL has every connection log in by SASL before anything else, before the credentials of [WithAuth]
// and before watches are armed again. A login that is refused ends the attempt; the next one follows after
// a pause that grows to 5 s on average, the client is not connected meanwhile, and those who wait for it
// find [ErrAuthFailed]. The identity for ACLs has the scheme "sasl", see [SASLIdentity]. Default: no login.
func WithSASL(m SASLMechanism) Option {
	return func(o *options) error {
		if m == nil {
			return invalid("WithSASL", "the mechanism is nil; leave the option out, or use WithSASLDigest")
		}
		o.sasl, o.saslName = m, m.Name() // here: nothing of the user's is called where the client could not do without its return
		return nil
	}
}

// WithSASLDigest has every connection log in by SASL's DIGEST-MD5 (RFC 2831) as the servers' JAAS section
// "Server" knows the user: the counterpart of a "Client" section with DigestLoginModule in Java. The
// password never crosses the network, and the server proves that it knows it, too. What comes behind the
// login is neither encrypted nor signed: for that there is [WithTLS]. See [WithSASL].
func WithSASLDigest(user, password string) Option {
	return func(o *options) error {
		if user == "" {
			return invalid("WithSASLDigest", "the user is empty")
		}
		m := &digestMD5{user: user, password: secret(password)}
		o.sasl, o.saslName = m, m.Name()
		return nil
	}
}

// loginName is who logs in, for errors.
func (o *options) loginName() string {
	if d, ok := o.sasl.(*digestMD5); ok {
		return fmt.Sprintf("user %q by %s", d.user, o.saslName)
	}
	if o.sasl != nil {
		return "the client by " + o.saslName
	}
	return ""
}

// login is the wire's view of the mechanism; nil if there is none.
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
