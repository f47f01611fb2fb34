package framework_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// One service may change its configuration, every client may read it.
func ExampleWithAuth() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	acl := append(framework.ReadACL(), framework.DigestACL(framework.PermAll, "orders", "long and secret"))

	owner, err := framework.New(server.Addr(), framework.WithDialer(server.Dial),
		framework.WithAuth("digest", []byte("orders:long and secret")))
	if err != nil {
		log.Fatal(err)
	}
	defer owner.Close()
	if _, err := owner.Create().WithACL(acl...).ForPath(ctx, "/config", []byte("v1")); err != nil {
		log.Fatal(err)
	}
	_, err = owner.SetData().ForPath(ctx, "/config", []byte("v2"))
	fmt.Println("the owner sets it:", err)

	stranger, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer stranger.Close()
	data, err := stranger.GetData().ForPath(ctx, "/config")
	fmt.Printf("a stranger reads %s: %v\n", data, err)
	_, err = stranger.SetData().ForPath(ctx, "/config", []byte("v3"))
	fmt.Println("and sets it:", err, errors.Is(err, framework.ErrNoAuth))
	// Output:
	// the owner sets it: <nil>
	// a stranger reads v2: <nil>
	// and sets it: setData /config: no permission true
}

// Certificates from files, for a server that asks for one, too.
func ExampleWithTLSFiles() {
	pair, err := certificate()
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(pair))
	addr, stop, err := serveTLS(pair)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	// The files are read again for each connection: renewed certificates need no restart.
	client, err := framework.New(addr,
		framework.WithTLSFiles(framework.TLSFiles{CA: pair, Cert: pair, Key: pair}))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_, err = client.Create().ForPath(context.Background(), "/a", nil)
	fmt.Println("with certificates:", err)

	_, err = framework.New(addr, framework.WithTLSFiles(framework.TLSFiles{CA: "/no/such/ca.pem"}))
	fmt.Println(err)
	// Output:
	// with certificates: <nil>
	// invalid option WithTLSFiles: open /no/such/ca.pem: no such file or directory
}

// certificate makes a file with a key and a certificate for this machine that signs itself.
func certificate() (file string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "pair.pem")
	return file, os.WriteFile(file, append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...), 0o600)
}

// serveTLS stands for a ZooKeeper with a secureClientPort and ssl.clientAuth=need.
func serveTLS(pair string) (addr string, stop func(), err error) {
	cert, err := tls.LoadX509KeyPair(pair, pair)
	if err != nil {
		return "", nil, err
	}
	clients := x509.NewCertPool()
	clients.AddCert(cert.Leaf)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert},
		ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert})
	if err != nil {
		return "", nil, err
	}
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		return "", nil, err
	}
	var all sync.WaitGroup
	join := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}
	all.Go(func() {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return // it was stopped
			}
			inside, err := server.Dial(context.Background(), "tcp", "")
			if err != nil {
				_ = outside.Close()
				continue
			}
			all.Go(func() { join(outside, inside) })
			all.Go(func() { join(inside, outside) })
		}
	})
	return listener.Addr().String(), func() {
		_ = listener.Close()
		server.Close()
		all.Wait()
	}, nil
}
