package kvstore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvtools/valkeyrie"
	"github.com/kvtools/valkeyrie/store"
	"github.com/kvtools/valkeyrie/testsuite"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// suite runs the tests that valkeyrie has for its stores.
func suite(t *testing.T, open func() store.Store) {
	kv, backup, ttl := open(), open(), open()
	testsuite.RunTestCommon(t, kv)
	testsuite.RunTestListLock(t, kv)
	testsuite.RunTestAtomic(t, kv)
	testsuite.RunTestWatch(t, kv)
	testsuite.RunTestLock(t, kv)
	testsuite.RunTestLockTTL(t, kv, backup)
	testsuite.RunTestTTL(t, kv, ttl)
	testsuite.RunCleanup(t, kv)
	require.NoError(t, kv.Close())
}

func opener(t *testing.T, server *zktest.Server) func() store.Store {
	return func() store.Store {
		t.Helper()
		kv, err := valkeyrie.NewStore(t.Context(), Name, []string{server.Addr()}, &Config{
			Options: []framework.Option{
				framework.WithDialer(server.Dial), framework.WithSessionTimeout(4 * time.Second),
			},
		})
		require.NoError(t, err)
		t.Cleanup(func() { kv.Close() }) // also if the test has failed
		return kv
	}
}

func TestConformance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { suite(t, opener(t, zktest.RunT(t))) })
}

// Every connection is cut every 50 ms, and the server restarts every second.
func TestConformanceUnderCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.RunT(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		defer func() { stop(); <-ended }()
		go func() {
			defer close(ended)
			for i := 1; ; i++ {
				select {
				case <-ctx.Done():
					return
				case <-time.After(50 * time.Millisecond):
				}
				if i%20 == 0 {
					if err := server.Restart(); err != nil {
						t.Error(err)
						return
					}
				}
				server.Cut(0)
			}
		}()
		suite(t, opener(t, server))
	})
}

func Example() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	ctx := context.Background()
	kv, err := valkeyrie.NewStore(ctx, Name, []string{server.Addr()}, &Config{
		Root: "apps/orders", Options: []framework.Option{framework.WithDialer(server.Dial)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer kv.Close()

	_, first, err := kv.AtomicPut(ctx, "limits/max", []byte("10"), nil, nil)
	fmt.Println(string(first.Value), err)
	_, _, err = kv.AtomicPut(ctx, "limits/max", []byte("20"), first, nil)
	fmt.Println(err)
	_, _, err = kv.AtomicPut(ctx, "limits/max", []byte("30"), first, nil)
	fmt.Println(err)
	// Output:
	// 10 <nil>
	// <nil>
	// unable to complete atomic operation, key modified
}
