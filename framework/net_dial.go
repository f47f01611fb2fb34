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

// Dialer opens a network connection; net.Dialer's DialContext is one. It must return when ctx ends. The client may call
// it from several goroutines concurrently.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

type dialOptions struct {
	tls      *tls.Config
	tlsFiles *tlsFileLoader // its certificates replace those of tls
	dial     Dialer
}

// dialServer makes a connection, with TLS if configured. It calls functions of the user: the dialer, and the callbacks of
// a TLS configuration.
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

// currentTLSConfig returns the TLS configuration for a new connection; nil means no TLS.
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
	// Cert is the file with the client's own certificate, followed by its intermediates, and Key the file with its
	// private key, for servers that require a client certificate (ssl.clientAuth=need, the default of ZooKeeper's
	// secureClientPort). Give both or neither. They may be the same file.
	Cert, Key string
	// ServerName is the host name for which the server's certificate must be valid. Empty means the host in the connect
	// string.
	ServerName string
}

// tlsFileLoader reads the files for each new connection.
type tlsFileLoader struct {
	TLSFiles

	mu            sync.Mutex   // guards the fields below
	ca, cert, key []byte       // the texts from which lastGood was parsed
	lastGood      *tlsContents // the last content without an error; set by WithTLSFiles, and never nil later
}

// tlsContents is the parsed content of the files. It does not change.
type tlsContents struct {
	roots        *x509.CertPool
	certificates []tls.Certificate // the client's own
}

// loadFiles reads the files, and parses them if they have changed. With an error it returns lastGood.
func (f *tlsFileLoader) loadFiles() (*tlsContents, error) {
	ca, err1 := readTLSFile(f.CA)
	cert, err2 := readTLSFile(f.Cert)
	key, err3 := readTLSFile(f.Key)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := errors.Join(err1, err2, err3); err != nil {
		return f.lastGood, err
	}
	if f.lastGood != nil && bytes.Equal(ca, f.ca) && bytes.Equal(cert, f.cert) && bytes.Equal(key, f.key) {
		return f.lastGood, nil
	}
	parsed, err := f.parseFiles(ca, cert, key)
	if err != nil {
		return f.lastGood, err
	}
	f.ca, f.cert, f.key, f.lastGood = ca, cert, key, parsed
	return parsed, nil
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
		p.certificates = []tls.Certificate{pair}
	}
	return p, nil
}

// currentConfig returns base with the certificates that are in the files now. If they cannot be loaded, it logs that and
// uses the last ones that could be.
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
	if p.certificates != nil {
		cfg.Certificates, cfg.GetClientCertificate = p.certificates, nil
	}
	if f.ServerName != "" {
		cfg.ServerName = f.ServerName
	}
	return cfg
}

// handshakeTLS makes the TLS handshake. If that fails, or a callback in cfg ends the goroutine, it closes conn.
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
// The errors of callers that wait for a connection match it. In the same errors, errors.As finds the reason: an error of
// package crypto/x509 or, if the server refused, a *net.OpError whose Op is "remote error".
var ErrTLS = newSentinel("cannot make an encrypted connection")

// wrapTLSError wraps an error of TLS in ErrTLS and adds a hint for the operator. It returns other errors unchanged.
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

// errHandshake is matched by the errors of the TLS handshake, so that wrapTLSError recognizes those without a type.
var errHandshake = errors.New("TLS handshake")
