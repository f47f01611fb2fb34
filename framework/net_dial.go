package framework

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
)

// Dialer opens a network connection. It must end when ctx does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

type dialOptions struct {
	tls      *tls.Config
	tlsFiles *tlsFileLoader // on top of tls
	dial     Dialer
}

// dialServer calls user functions: the dialer, and the callbacks of a TLS configuration.
func (o *dialOptions) dialServer(ctx context.Context, network, addr string, log *slog.Logger) (net.Conn, error) {
	cfg := o.currentTLSConfig(log)
	conn, err := o.dial(ctx, network, addr)
	switch {
	case err != nil:
		return nil, err
	case conn == nil:
		return nil, invalidOption("WithDialer", "the dialer has returned neither a connection nor an error")
	case cfg != nil:
		return handshakeTLS(ctx, conn, cfg, addr)
	}
	return conn, nil
}

// usesEncryption reports whether connections are made with TLS.
func (o *dialOptions) usesEncryption() bool { return o.tls != nil || o.tlsFiles != nil }

// currentTLSConfig returns the configuration for a new connection; nil for none.
func (o *dialOptions) currentTLSConfig(log *slog.Logger) *tls.Config {
	if o.tlsFiles != nil {
		return o.tlsFiles.currentConfig(o.tls, log)
	}
	return o.tls
}

// checkConflicts refuses options that contradict one another.
func (o *dialOptions) checkConflicts() error {
	insecure := o.tls != nil && o.tls.InsecureSkipVerify &&
		o.tls.VerifyConnection == nil && o.tls.VerifyPeerCertificate == nil
	if insecure && o.tlsFiles != nil && (o.tlsFiles.CA != "" || o.tlsFiles.ServerName != "") {
		return invalidOption("WithTLSFiles", "CA and ServerName have no effect, because InsecureSkipVerify of "+
			"WithTLS accepts every certificate; leave out one or the other, or set VerifyConnection")
	}
	return nil
}

// TLSFiles names PEM files for encrypted connections. The files are read again for each new connection, so renewed
// certificates need no restart. Existing connections keep their certificates.
type TLSFiles struct {
	// CA is the file with the certificates of the authorities that may have signed the servers' certificates.
	// Empty means the system's authorities.
	CA string
	// Cert and Key are the client's own certificate, followed by its intermediates, and its private key, for
	// servers that ask for them (ssl.clientAuth=need, the default of ZooKeeper's secureClientPort). Give both
	// or none. They may be the same file.
	Cert, Key string
	// ServerName is the name that the server's certificate must be for. Empty means the host in the connect
	// string.
	ServerName string
}

// tlsFileLoader has the names of the files and their contents as last read.
type tlsFileLoader struct {
	TLSFiles

	mu            sync.Mutex
	ca, cert, key []byte // as read
	last          *tlsContents
}

// tlsContents is the content of the files. It does not change.
type tlsContents struct {
	roots *x509.CertPool
	own   []tls.Certificate
}

// loadFiles reads the files, and parses them if they have changed. With an error it returns the last good
// content, if there is one.
func (f *tlsFileLoader) loadFiles() (*tlsContents, error) {
	ca, err1 := readTLSFile(f.CA)
	cert, err2 := readTLSFile(f.Cert)
	key, err3 := readTLSFile(f.Key)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := errors.Join(err1, err2, err3); err != nil {
		return f.last, err
	}
	if f.last != nil && bytes.Equal(ca, f.ca) && bytes.Equal(cert, f.cert) && bytes.Equal(key, f.key) {
		return f.last, nil
	}
	p, err := f.parseFiles(ca, cert, key)
	if err != nil {
		return f.last, err
	}
	f.ca, f.cert, f.key, f.last = ca, cert, key, p
	return p, nil
}

func readTLSFile(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	return os.ReadFile(file)
}

func (f *tlsFileLoader) parseFiles(ca, cert, key []byte) (*tlsContents, error) {
	p := &tlsContents{}
	if f.CA != "" {
		p.roots = x509.NewCertPool()
		if !p.roots.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("CA %s contains no certificate in PEM form", f.CA)
		}
	}
	switch {
	case f.Cert == "" && f.Key == "":
	case f.Key == "":
		return nil, fmt.Errorf("file Cert (%s) without a Key; give both or neither", f.Cert)
	case f.Cert == "":
		return nil, fmt.Errorf("file Key (%s) without a Cert; give both or neither", f.Key)
	default:
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cannot use certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
		p.own = []tls.Certificate{pair}
	}
	return p, nil
}

// currentConfig returns base with the certificates that are in the files now. It logs errors of the files.
func (f *tlsFileLoader) currentConfig(base *tls.Config, log *slog.Logger) *tls.Config {
	p, err := f.loadFiles()
	if err != nil {
		log.Warn("cannot load the TLS files; still using the certificates loaded before", "err", err)
	}
	cfg := &tls.Config{}
	if base != nil {
		cfg = base.Clone()
	}
	if p.roots != nil {
		cfg.RootCAs = p.roots
	}
	if p.own != nil {
		cfg.Certificates, cfg.GetClientCertificate = p.own, nil
	}
	if f.ServerName != "" {
		cfg.ServerName = f.ServerName
	}
	return cfg
}

// handshakeTLS makes the TLS handshake, and closes conn when that fails.
func handshakeTLS(ctx context.Context, conn net.Conn, cfg *tls.Config, addr string) (net.Conn, error) {
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		if host, _, err := net.SplitHostPort(addr); err == nil {
			cfg.ServerName = host
		}
	}
	secure, done := tls.Client(conn, cfg), false
	defer func() {
		if !done {
			conn.Close()
		}
	}()
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, wrapTLSError(fmt.Errorf("%w: %w", errHandshake, err))
	}
	done = true
	return secure, nil
}

// ErrTLS means that no encrypted connection could be made: one side does not trust, or does not understand, the other.
// It is found in the errors of callers that wait for a connection. So is, by errors.As, the reason from package
// crypto/x509, or, if the server refused, a *net.OpError whose Op is "remote error".
var ErrTLS = newSentinel("cannot make an encrypted connection")

// wrapTLSError returns TLS errors as ErrTLS, with a hint at what to look at, and other errors as they are.
func wrapTLSError(err error) error {
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
		hint = "the server's certificate is not signed by a CA that this client trusts"
	case errors.As(err, &host):
		hint = "the server's certificate is for another name: connect by that name, or set ServerName"
	case errors.As(err, &invalid):
		if hint = "the server's certificate, or the CA's, cannot be used"; invalid.Reason == x509.Expired {
			hint = "the server's certificate has expired or is not valid yet"
		}
	case errors.As(err, &record):
		hint = "the server's answer is not TLS: is this port its secureClientPort?"
	case errors.As(err, &alert) && alert.Op == "remote error":
		hint = "the server refused: it may require a client certificate that its trust store accepts, " +
			"or other TLS versions or ciphers"
	case errors.Is(err, errHandshake) && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, context.Canceled):
		if hint = "is this port the server's secureClientPort?"; errors.Is(err, io.EOF) {
			hint = "the server closed the connection: is this port its secureClientPort?"
		}
	default:
		return err
	}
	return fmt.Errorf("%w: %w (%s)", ErrTLS, err, hint)
}

// errHandshake marks errors of the handshake.
var errHandshake = errors.New("TLS handshake")
