package inspect_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/inspect"
	"github.com/go-curator/curator/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var background = context.Background()

func newClient(t *testing.T, s *zktest.Server, opts ...framework.Option) *framework.Client {
	t.Helper()
	c, err := framework.New(s.Addr(), append([]framework.Option{framework.WithDialer(s.Dial)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.WaitConnected(t.Context()))
	synctest.Wait() // the client's own requests have been sent
	return c
}

func session(t *testing.T, c *framework.Client) int64 {
	t.Helper()
	s, err := c.Session(t.Context())
	require.NoError(t, err)
	return s.ID()
}

// stand creates the ephemeral nodes of another library's participants, in this order, a second apart.
func stand(t *testing.T, c *framework.Client, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		create := c.Create().CreatingParentContainersIfNeeded().WithMode(framework.Ephemeral)
		_, err := create.ForPath(background, dir+"/"+name, []byte("of "+name[:1]))
		require.NoError(t, err)
		time.Sleep(time.Second)
	}
}

func who(t *testing.T, c *framework.Client, path string, opts ...inspect.Option) inspect.Line {
	t.Helper()
	line, err := inspect.Who(background, c, path, opts...)
	require.NoError(t, err)
	return line
}

func names(all []inspect.Participant) (names []string) {
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

// wait calls f on another goroutine, and returns when f waits; f ends with the test.
func wait(t *testing.T, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	time.Sleep(time.Second)
	synctest.Wait()
}

const (
	java1 = "_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8cf-"
	java2 = "_c_0a4b9f10-3c7a-4e57-8d0f-6a2f3b8c9d1e-"
	ours  = "_c_bf05a1bb-68d2-8301-9f17-3a9d3bb3ea85-"
	gozk  = "_c_a93543d469521474a43b550766a4711f-"
	kaz1  = "5d41402abc4b2a76b9719d911017c592"
	kaz2  = "0cc175b9c0f1b6a831c399e269772661"
	uuid1 = "d93c3b7d-b92f-47f8-97dd-71e653f1e8cf"
	uuid2 = "bf05a1bb-68d2-8301-9f17-3a9d3bb3ea85"
)

func numbered(prefix string, n int) string { return fmt.Sprintf("%s%010d", prefix, n) }
