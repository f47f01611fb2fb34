package framework

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
)

// ErrTLS says that no encrypted connection could be made: one side does not trust, or does not understand,
// the other. It is found in the errors of callers that wait for a connection. So is, by errors.As, the
// reason from package crypto/x509, or, for what the server objected to, a *net.OpError whose Op is "remote
// error".
var ErrTLS = named("no encrypted connection")

// tlsTrouble returns TLS errors as ErrTLS, with a hint at what to look at, and other errors as they are.
func tlsTrouble(err error) error {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		alert     *net.OpError
	)
	hint := ""
	switch {
	case err == nil || errors.Is(err, ErrTLS):
		return err
	case errors.As(err, &authority):
		hint = "the CA given here has not signed the server's certificate"
	case errors.As(err, &host):
		hint = "the server's certificate is for another name: connect by that, or set ServerName"
	case errors.As(err, &invalid):
		if hint = "the server's certificate, or the CA's, cannot be used"; invalid.Reason == x509.Expired {
			hint = "the server's certificate has expired or is not valid yet"
		}
	case errors.As(err, &record):
		hint = "that is no TLS: is it the server's secureClientPort?"
	case errors.As(err, &alert) && alert.Op == "remote error":
		hint = "the server refuses: it wants a certificate of the client's own, that its trust store accepts, " +
			"or other versions or ciphers of TLS"
	case errors.Is(err, errHandshake) && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, context.Canceled):
		if hint = "is it the server's secureClientPort?"; errors.Is(err, io.EOF) {
			hint = "the server closes the connection: is it its secureClientPort?"
		}
	default:
		return err
	}
	return fmt.Errorf("%w: %w (%s)", ErrTLS, err, hint)
}

// errHandshake marks errors of the handshake.
var errHandshake = errors.New("TLS handshake")
