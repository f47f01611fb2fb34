package snippets

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// The snippets of docs/from-go-zookeeper.md, each between a line with its name and an end, and the code with
// go-zookeeper that each replaces.

func connectTheirs(servers []string) error {
	conn, events, err := zk.Connect(servers, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	for event := range events { // until there is a session, or for ever
		if event.State == zk.StateHasSession {
			break
		}
	}
	_, _, err = conn.Get("/")
	return err
}

func connectOurs(ctx context.Context, servers string) error {
	// [connect, here]
	// servers is, for example, "zk1:2181,zk2:2181/chroot"
	client, err := framework.New(servers, framework.WithSessionTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.WaitConnected(ctx); err != nil { // the error names the servers and their failures
		return err
	}
	// [end]
	_, err = client.GetData().ForPath(ctx, "/")
	return err
}

func TestConnect(t *testing.T) {
	ctx, server, _ := serve(t)
	require.NoError(t, connectTheirs([]string{server.Addr()}))
	require.NoError(t, connectOurs(ctx, server.Addr()))
}

func stateTheirs(events <-chan zk.Event, pause, resume, begin func()) {
	for event := range events { // six slots: what does not fit in is dropped
		switch event.State {
		case zk.StateDisconnected:
			pause()
		case zk.StateExpired: // only when a server reports it: never while none is reachable
			begin()
		case zk.StateHasSession:
			resume()
		}
	}
}

func stateOurs(ctx context.Context, client *framework.Client, pause, resume, begin func()) {
	// [states, here]
	for change := range client.StateChanges(ctx) { // complete and in order, also for a slow loop
		switch change.State {
		case framework.Suspended:
			pause()
		case framework.Lost: // by the client's own clock, also when no server is reachable
			begin()
		case framework.Connected, framework.Reconnected: // change.Epoch numbers the sessions
			resume()
		}
	}
	// [end]
}

func TestStates(t *testing.T) {
	ctx, server, client := serve(t)
	ctx, cancel := context.WithCancel(ctx)
	var said []string
	stateOurs(ctx, client, func() { said = append(said, "pause") }, func() {
		switch said = append(said, "resume"); len(said) {
		case 1:
			session, err := client.Session(ctx)
			require.NoError(t, err)
			server.Expire(session.ID())
		default:
			cancel()
		}
	}, func() { said = append(said, "begin") })
	assert.Equal(t, []string{"resume", "pause", "begin", "resume"}, said)

	events := make(chan zk.Event, 3)
	for _, s := range []zk.State{zk.StateDisconnected, zk.StateExpired, zk.StateHasSession} {
		events <- zk.Event{State: s}
	}
	close(events)
	said = nil
	say := func(s string) func() { return func() { said = append(said, s) } }
	stateTheirs(events, say("pause"), say("resume"), say("begin"))
	assert.Equal(t, []string{"pause", "begin", "resume"}, said)
}

func createTheirs(conn *zk.Conn) error {
	for _, parent := range []string{"/services", "/services/search"} {
		_, err := conn.Create(parent, nil, 0, zk.WorldACL(zk.PermAll))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	path, err := conn.Create("/services/search/a", []byte("10.0.0.7"),
		zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	_ = path
	return err
}

func createOurs(ctx context.Context, client *framework.Client) error {
	// [create, here]
	path, err := client.Create().CreatingParentsIfNeeded().WithMode(framework.Ephemeral).
		ForPath(ctx, "/services/search/a", []byte("10.0.0.7"))
	// [end]
	_ = path
	return err
}

func protectedOurs(ctx context.Context, client *framework.Client) (string, error) {
	// [protected, here]
	path, err := client.Create().WithProtection().WithMode(framework.EphemeralSequential).
		ForPath(ctx, "/services/search/job-", nil) // /services/search/_c_<UUID>-job-0000000001
	// [end]
	return path, err
}

func readWriteTheirs(conn *zk.Conn) error {
	data, stat, err := conn.Get("/config")
	if err != nil {
		return err
	}
	_, err = conn.Set("/config", append(data, '!'), stat.Version)
	if errors.Is(err, zk.ErrBadVersion) {
		return errors.New("another client was faster")
	}
	return err
}

func readWriteOurs(ctx context.Context, client *framework.Client) error {
	// [read and write, here]
	var stat framework.Stat
	data, err := client.GetData().StoringStatIn(&stat).ForPath(ctx, "/config")
	if err != nil {
		return err
	}
	_, err = client.SetData().WithVersion(stat.Version).ForPath(ctx, "/config", append(data, '!'))
	switch {
	case errors.Is(err, framework.ErrBadVersion): // zk.ErrBadVersion is found, too
		return errors.New("another client was faster")
	case errors.Is(err, framework.ErrOutcomeUnknown): // the reply was lost: it may be done, or not
		return err
	}
	// [end]
	return err
}

func existsTheirs(conn *zk.Conn) error {
	exists, _, err := conn.Exists("/old")
	if err != nil || !exists {
		return err
	}
	names, _, err := conn.Children("/old")
	if err != nil {
		return err
	}
	for _, name := range names { // and what is below them …
		if err := conn.Delete("/old/"+name, -1); err != nil {
			return err
		}
	}
	err = conn.Delete("/old", -1)
	return err
}

func existsOurs(ctx context.Context, client *framework.Client) error {
	stat, err := client.CheckExists().ForPath(ctx, "/old")
	if err != nil || stat == nil {
		return err
	}
	names, err := client.GetChildren().ForPath(ctx, "/old")
	if err != nil {
		return err
	}
	err = client.Delete().DeletingChildrenIfNeeded().ForPath(ctx, "/old")
	_ = names
	return err
}

func TestOperations(t *testing.T) {
	ctx, server, client := serve(t)
	conn := theirs(t, server)
	require.NoError(t, createTheirs(conn))
	require.NoError(t, server.DeleteAll("/services"))
	require.NoError(t, createOurs(ctx, client))
	path, err := protectedOurs(ctx, client)
	require.NoError(t, err)
	assert.Regexp(t, `^/services/search/_c_[0-9a-f-]{36}-job-\d{10}$`, path)

	require.NoError(t, server.Create("/config", []byte("v1")))
	require.NoError(t, readWriteTheirs(conn))
	require.NoError(t, readWriteOurs(ctx, client))
	assert.Empty(t, server.Diff(map[string]string{"/config": "v1!!"}, "/services"))

	for _, remove := range []func() error{
		func() error { return existsTheirs(conn) },
		func() error { return existsOurs(ctx, client) },
	} {
		require.NoError(t, server.Create("/old/a", nil))
		require.NoError(t, server.Create("/old/b", nil))
		require.NoError(t, remove())
		assert.False(t, server.Exists("/old"))
		require.NoError(t, remove())
	}
}

func watchTheirs(conn *zk.Conn, use func([]byte)) error {
	for {
		data, _, changed, err := conn.GetW("/config")
		if err != nil { // also when the connection is lost just now: begin again, after a pause
			return err
		}
		use(data)
		if event := <-changed; event.Err != nil { // the session has expired, or the connection was closed
			return event.Err
		}
	}
}

func watchOurs(ctx context.Context, client *framework.Client, use func([]byte)) error {
	// [watch, here]
	for {
		data, watch, err := client.GetData().WithWatch().ForPath(ctx, "/config")
		if err != nil { // the retry policy has given up, or ctx has ended
			return err
		}
		use(data)
		select {
		case event := <-watch.C: // also after a reconnect, if it changed meanwhile
			lost := errors.Is(event.Err, framework.ErrSessionLost) // read again, in the next session
			if event.Err != nil && !lost {
				return event.Err
			}
		case <-ctx.Done():
			watch.Stop() // leaves nothing behind, here and on the server
			return ctx.Err()
		}
	}
	// [end]
}

func cacheOurs(ctx context.Context, client *framework.Client, use func([]byte)) error {
	// [watch with a cache, here]
	config, err := cache.NewNode(client, "/config") // NewPathChildren, NewTree and New for more than one node
	if err != nil {
		return err
	}
	defer config.Close()
	for event, err := range config.Events(ctx) { // through every disconnect and expiry
		if err != nil {
			return err
		}
		if event.Type == cache.Created || event.Type == cache.Changed {
			use(event.New.Data)
		}
	}
	// [end]
	return nil
}

func TestWatch(t *testing.T) {
	ctx, server, client := serve(t)
	conn := theirs(t, server)
	type user = func([]byte)
	for name, watch := range map[string]func(context.Context, user) error{
		"go-zookeeper": func(_ context.Context, use user) error { return watchTheirs(conn, use) },
		"here":         func(ctx context.Context, use user) error { return watchOurs(ctx, client, use) },
		"cache":        func(ctx context.Context, use user) error { return cacheOurs(ctx, client, use) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, server.Create("/config", []byte("v1")))
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			seen := make(chan string)
			var err error
			var wg sync.WaitGroup
			wg.Go(func() { err = watch(ctx, func(data []byte) { seen <- string(data) }) })
			assert.Equal(t, "v1", <-seen)
			require.NoError(t, server.Set("/config", []byte("v2")))
			assert.Equal(t, "v2", <-seen)
			require.NoError(t, server.Delete("/config")) // ends theirs: the next GetW fails
			if name == "cache" {
				cancel()
			}
			wg.Wait()
			switch name {
			case "go-zookeeper", "here":
				assert.ErrorIs(t, err, zk.ErrNoNode)
			default:
				assert.ErrorIs(t, err, context.Canceled)
			}
		})
	}
}

func lockTheirs(conn *zk.Conn, work func()) error {
	// [lock, go-zookeeper]
	lock := zk.NewLock(conn, "/locks/orders", zk.WorldACL(zk.PermAll))
	if err := lock.Lock(); err != nil { // cannot be cancelled
		return err
	}
	work() // a loss of the lock is not reported
	err := lock.Unlock()
	// [end]
	return err
}

func lockOurs(ctx context.Context, client *framework.Client, work func(context.Context) error) error {
	// [lock, here]
	orders := mutex.New(client, "/locks/orders")
	err := orders.Do(ctx, func(ctx context.Context) error {
		return work(ctx) // ctx ends when the lock is lost, before another process can have it
	})
	// [end]
	return err
}

func TestLock(t *testing.T) {
	ctx, server, client := serve(t)
	conn := theirs(t, server)
	inside, done := 0, make(chan error)
	var mu sync.Mutex
	enter := func() {
		mu.Lock()
		inside++
		assert.Equal(t, 1, inside)
		mu.Unlock()
		_, _, _ = conn.Get("/") // give the others a chance
		mu.Lock()
		inside--
		mu.Unlock()
	}
	go func() { // both kinds in one line
		for range 20 {
			if err := lockTheirs(conn, enter); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range 20 {
		require.NoError(t, lockOurs(ctx, client, func(context.Context) error { enter(); return nil }))
	}
	require.NoError(t, <-done)
}

func multiTheirs(conn *zk.Conn) error {
	results, err := conn.Multi(
		&zk.CheckVersionRequest{Path: "/config", Version: 3},
		&zk.CreateRequest{Path: "/config/next", Data: []byte("x"), Acl: zk.WorldACL(zk.PermAll)},
		&zk.DeleteRequest{Path: "/config/last", Version: -1},
	)
	if err != nil { // which of them was it? Look for results[i].Error
		return err
	}
	_ = results
	return nil
}

func multiOurs(ctx context.Context, client *framework.Client) error {
	// [transaction, here]
	ops := client.TransactionOp()
	results, err := client.Transaction(ctx,
		ops.Check().WithVersion(3).ForPath("/config"),
		ops.Create().ForPath("/config/next", []byte("x")),
		ops.Delete().ForPath("/config/last"),
	)
	var failed *framework.TransactionError
	if errors.As(err, &failed) { // failed.Index is that of the operation
		return err
	}
	// [end]
	_ = results
	return err
}

func TestTransaction(t *testing.T) {
	ctx, server, client := serve(t)
	conn := theirs(t, server)
	for _, multi := range []func() error{
		func() error { return multiTheirs(conn) },
		func() error { return multiOurs(ctx, client) },
	} {
		_ = server.DeleteAll("/config")
		require.NoError(t, server.Create("/config/last", nil))
		assert.ErrorIs(t, multi(), zk.ErrBadVersion)
		for range 3 {
			require.NoError(t, server.Set("/config", nil))
		}
		require.NoError(t, multi())
		assert.Empty(t, server.Diff(map[string]string{"/config/next": "x"}))
	}
}

func aclTheirs(conn *zk.Conn) error {
	if err := conn.AddAuth("digest", []byte("orders:secret")); err != nil {
		return err
	}
	_, err := conn.Create("/private", nil, 0, zk.AuthACL(zk.PermAll))
	return err
}

func aclOurs(ctx context.Context, servers string) error {
	client, err := framework.New(servers,
		framework.WithAuth("digest", []byte("orders:secret")), // on every connection, before anything else
		framework.WithDefaultACL(framework.CreatorACL()...),   // of all nodes that are given no other
	)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Create().ForPath(ctx, "/private", nil)
	return err
}

func TestACL(t *testing.T) {
	ctx, server, client := serve(t)
	for _, create := range []func() error{
		func() error { return aclTheirs(theirs(t, server)) },
		func() error { return aclOurs(ctx, server.Addr()) },
	} {
		require.NoError(t, create())
		_, err := client.GetData().ForPath(ctx, "/private")
		assert.ErrorIs(t, err, framework.ErrNoAuth)
		require.NoError(t, server.Delete("/private"))
	}
}

func tlsTheirs(servers []string, config *tls.Config) (*zk.Conn, <-chan zk.Event, error) {
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, config)
	}
	conn, events, err := zk.Connect(servers, 10*time.Second, zk.WithDialer(dial))
	return conn, events, err
}

func tlsOurs(servers, caFile, certFile, keyFile string) (*framework.Client, error) {
	client, err := framework.New(servers,
		// The files are read again for each connection.
		framework.WithTLSFiles(framework.TLSFiles{CA: caFile, Cert: certFile, Key: keyFile}),
		// Or framework.WithTLS(config), or framework.WithDialer(dial) for any other way.
	)
	return client, err
}

func TestTLS(t *testing.T) {
	ctx, server, _ := serve(t)
	web := httptest.NewUnstartedServer(nil) // for its certificate
	web.StartTLS()
	defer web.Close()
	address := encrypted(t, server, web.TLS.Certificates[0])

	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, block, 0o600))
	client, err := tlsOurs(address, ca, "", "")
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.WaitConnected(ctx))

	config := web.Client().Transport.(*http.Transport).TLSClientConfig
	conn, events, err := tlsTheirs([]string{address}, config)
	require.NoError(t, err)
	_, _, err = conn.Get("/")
	require.NoError(t, err)
	conn.Close()
	for range events {
	}
}

// encrypted is the address of a relay with TLS in front of the server.
func encrypted(t *testing.T, server *zktest.Server, certificate tls.Certificate) string {
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return
			}
			inside, err := server.Dial(context.Background(), "tcp", server.Addr())
			if err != nil {
				outside.Close()
				return
			}
			for _, way := range [][2]net.Conn{{inside, outside}, {outside, inside}} {
				wg.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					inside.Close()
					outside.Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		listener.Close()
		wg.Wait()
	})
	return listener.Addr().String()
}

func share(client *framework.Client, legacy func(*zk.Conn) error) error {
	// [share, here]
	err := legacy(client.Conn()) // ask for it each time: it belongs to one session
	ended := errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrConnectionClosed)
	if ended || errors.Is(err, zk.ErrClosing) {
		err = legacy(client.Conn()) // the next session's, if what legacy does may be repeated
	}
	// [end]
	return err
}

// The document's statements about the shared connection.
func TestSharedConnection(t *testing.T) {
	ctx, server, client := serve(t)
	app := client.UsingNamespace("app")
	require.NoError(t, app.Ensure(ctx, "/x"))
	session, err := client.Session(ctx)
	require.NoError(t, err)
	conn := app.Conn()
	exists, _, err := conn.Exists("/app/x")
	require.NoError(t, err)
	assert.True(t, exists, "its paths are the servers': without namespace and chroot")
	assert.Equal(t, session.ID(), conn.SessionID(), "one session") // it knows so by its first answer
	exists, _, err = conn.Exists("/x")
	require.NoError(t, err)
	assert.False(t, exists)

	held, err := mutex.New(client, "/locks/orders").Acquire(ctx)
	require.NoError(t, err)
	_, err = conn.Set(held.Path(), []byte("by the other library"), -1)
	require.NoError(t, err)
	assert.True(t, held.Valid())

	connections := session.Connections()
	_, err = conn.Set("/app/x", make([]byte, 1_200_000), -1)
	require.Error(t, err)
	assert.True(t, held.Valid())
	require.NoError(t, client.Sync().ForPath(ctx, "/"))
	assert.Equal(t, connections, session.Connections(), "what is too large does not cost the connection")

	_, _, events, err := conn.GetW("/app/x")
	require.NoError(t, err)
	server.Expire(session.ID())
	<-held.Context().Done()
	event := <-events
	assert.Equal(t, zk.EventNotWatching, event.Type, "watches end with the session")
	<-session.Done()
	_, err = client.Session(ctx)
	require.NoError(t, err)
	_, _, err = conn.Get("/")
	require.Error(t, err, "the connection is dead after its session's end")
	first := true
	require.NoError(t, share(client, func(c *zk.Conn) error {
		if first {
			first, c = false, conn
		}
		_, _, err := c.Get("/")
		return err
	}))

	held, err = mutex.New(client, "/locks/orders").Acquire(ctx)
	require.NoError(t, err)
	client.Conn().Close() // never
	<-held.Context().Done()
	cause := context.Cause(held.Context())
	assert.ErrorIs(t, cause, framework.ErrSessionLost, "it ends the session of everybody")
	require.NoError(t, client.Sync().ForPath(ctx, "/"), "there is another one")
}
