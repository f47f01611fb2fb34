package session

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/proxy"
	"github.com/go-curator/curator/integration/zkserver"
)

// authority issues certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, pool: x509.NewCertPool()}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = newKey(t)
	a.cert = a.sign(template, template, a.key)
	a.pool.AddCert(a.cert)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func (a *authority) sign(template, parent *x509.Certificate, of *ecdsa.PrivateKey) *x509.Certificate {
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &of.PublicKey, a.key)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return cert
}

func (a *authority) issue(name string, serial int64) (*x509.Certificate, *ecdsa.PrivateKey) {
	key := newKey(a.t)
	return a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
	}, a.cert, key), key
}

// client returns the configuration of a client with its own certificate.
func (a *authority) client(name string, serial int64) *tls.Config {
	cert, key := a.issue(name, serial)
	return &tls.Config{RootCAs: a.pool,
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
}

// server returns the configuration of a server: PEM files, which ZooKeeper accepts since 3.5.5.
func (a *authority) server(port int) []string {
	dir := a.t.TempDir()
	cert, key := a.issue("server", 2)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	keys, trust := filepath.Join(dir, "keys.pem"), filepath.Join(dir, "trust.pem")
	require.NoError(a.t, os.WriteFile(keys, append(block("PRIVATE KEY", der), block("CERTIFICATE", cert.Raw)...),
		0o600))
	require.NoError(a.t, os.WriteFile(trust, block("CERTIFICATE", a.cert.Raw), 0o600))
	return []string{
		fmt.Sprintf("secureClientPort=%d", port), "secureClientPortAddress=127.0.0.1",
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"ssl.keyStore.location=" + keys, "ssl.keyStore.type=PEM", "ssl.trustStore.location=" + trust,
		"ssl.trustStore.type=PEM",
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	port := zkserver.FreePort(t)
	secure := fmt.Sprintf("127.0.0.1:%d", port)
	server(t, zkserver.Options{Config: ca.server(port)})
	link := proxy.New(t, secure)
	actors := two(t, link.Addr(), calm, framework.WithTLS(ca.client("somebody", 3)))
	for _, a := range actors {
		path := a.ephemeral(t, "e")
		_, w, err := a.GetData().WithWatch().ForPath(kit.Context(t), path)
		require.NoError(t, err)
		link.Cut()
		a.states.Next(framework.Suspended, 1)
		link.Heal()
		a.states.Next(framework.Reconnected, 1)
		_, err = a.SetData().ForPath(kit.Context(t), path, make([]byte, 1<<19))
		require.NoError(t, err)
		assert.Equal(t, framework.EventNodeDataChanged, kit.Receive(t, "the event", w.C).Type)
		for _, other := range actors {
			if other != a {
				other.states.Next(framework.Suspended, 1)
				other.states.Next(framework.Reconnected, 1)
			}
		}
	}
	// The certificate is an identity for ACLs.
	path := "/mine"
	_, err := actors[0].Create().WithACL(framework.CreatorACL()...).ForPath(kit.Context(t), path, nil)
	require.NoError(t, err)
	acl, err := actors[1].GetACL().ForPath(kit.Context(t), path)
	require.NoError(t, err)
	assert.Equal(t, []framework.ACL{{Perms: framework.PermAll, Scheme: "x509", ID: "CN=somebody"}}, acl)

	// All of these are refused immediately, by one side or the other.
	stranger := ca.client("stranger", 4).Certificates
	for what, opts := range map[string][]framework.Option{
		"a client without a certificate":            {framework.WithTLS(&tls.Config{RootCAs: ca.pool})},
		"a client that does not know the authority": {framework.WithTLS(&tls.Config{Certificates: stranger})},
		"a client that expects somebody else": {framework.WithTLS(&tls.Config{
			RootCAs: ca.pool, Certificates: stranger, ServerName: "elsewhere",
		})},
		"a client in the clear": nil,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := kit.Dial(t, secure, opts...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := c.WaitConnected(ctx)
			assert.ErrorIs(t, err, framework.ErrNotConnected)
			t.Log(err)
		})
	}
}
