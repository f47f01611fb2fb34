package recipes

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/child"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/recipes/leader"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
)

// With it the test program is a process that holds one of everything, and nothing else.
const (
	holderServer  = "CURATOR_TEST_RECIPES_SERVER"
	holderTimeout = 2 * time.Second
)

// holdEverything holds one of everything below /killed and says so, until its input ends.
func holdEverything(server string) error {
	client, err := framework.New(server, framework.WithSessionTimeout(holderTimeout))
	if err != nil {
		return err
	}
	ctx := context.Background()
	latch, err := leader.NewLatch(client, "/killed/latch", leader.WithID("dying"))
	if err != nil {
		return err
	}
	if _, err = latch.Await(ctx); err != nil {
		return err
	}
	selected := make(chan struct{})
	selector := leader.NewSelector(client, "/killed/selector", func(ctx context.Context) error {
		close(selected)
		<-ctx.Done()
		return nil
	}, leader.WithID("dying"))
	go func() { _ = selector.Run(ctx) }()
	<-selected
	if _, err = rwlock.New(client, "/killed/rwlock").WriteLock().Acquire(ctx); err != nil {
		return err
	}
	if _, err = semaphore.New(client, "/killed/leases", 2).Acquire(ctx, 2); err != nil {
		return err
	}
	multi := mutex.NewMulti(mutex.Of(mutex.New(client, "/killed/multi-1")),
		mutex.Of(mutex.New(client, "/killed/multi-2")))
	if _, err = multi.Acquire(ctx); err != nil {
		return err
	}
	go func() { _, _ = barrier.NewDouble(client, "/killed/double", 3).Enter(ctx) }()
	for {
		if stat, err := client.CheckExists().ForPath(ctx, "/killed/double"); err != nil || stat != nil &&
			stat.NumChildren == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("held")
	bufio.NewScanner(os.Stdin).Scan()
	return nil
}

// A process of ours is killed with SIGKILL while it holds one of everything. Java has it all when the session
// has expired: within its timeout and a second.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "leader latch", kit.GoToJava)
	kit.Interop(t, "leader selector", kit.GoToJava)
	kit.Interop(t, "read-write lock", kit.GoToJava)
	kit.Interop(t, "semaphore", kit.GoToJava)
	kit.Interop(t, "multi-lock", kit.GoToJava)
	kit.Interop(t, "double barrier", kit.GoToJava)
	w := newWorld(t)
	ctx := kit.Context(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderServer+"="+w.node.ConnectString())
	stdin, in, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	out, stdout, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stdout
	process, err := child.Start(cmd)
	stdin.Close()
	stdout.Close()
	require.NoError(t, err)
	defer process.Kill()
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", said)

	latch, err := w.peer.Latch(ctx, "latch", "/killed/latch", "heir")
	require.NoError(t, err)
	selector, err := w.peer.Selector(ctx, "selector", "/killed/selector", "heir")
	require.NoError(t, err)
	_, write, err := w.peer.ReadWrite(ctx, "rw", "/killed/rwlock")
	require.NoError(t, err)
	leases, err := w.peer.Semaphore(ctx, "leases", "/killed/leases", 2)
	require.NoError(t, err)
	multi, err := w.peer.MultiLock(ctx, "multi", "/killed/multi-1", "/killed/multi-2")
	require.NoError(t, err)
	heirs := map[string]func(ctx context.Context) (time.Time, error){
		"latch":    latch.AwaitLeader,
		"selector": selector.AwaitLeader,
		"rwlock": func(ctx context.Context) (time.Time, error) {
			_, err := write.Acquire(ctx, javapeer.Forever)
			return time.Now(), err
		},
		"leases": func(ctx context.Context) (time.Time, error) {
			_, err := leases.Acquire(ctx, "both", 2, kit.Patience)
			return time.Now(), err
		},
		"multi-1": func(ctx context.Context) (time.Time, error) {
			_, err := multi.Acquire(ctx, javapeer.Forever)
			return time.Now(), err
		},
	}
	type taken struct {
		what string
		at   time.Time
	}
	took := make(chan taken, len(heirs))
	var waiting sync.WaitGroup
	for what, heir := range heirs {
		waiting.Go(func() {
			at, err := heir(ctx)
			assert.NoError(t, err, what)
			took <- taken{what, at}
		})
	}
	for _, dir := range []string{"latch", "selector", "rwlock", "multi-1"} {
		w.count(t, "/killed/"+dir, 2)
	}
	w.count(t, "/killed/leases/leases", 3) // Java's node is there while it waits
	assert.Empty(t, took)
	require.NoError(t, process.Signal(syscall.SIGKILL))
	died := time.Now()
	for range heirs {
		heir := kit.Receive(t, "somebody's turn", took)
		kit.Figure(t, "%s: Java's %v after our process was killed, session timeout %v, tick %v", heir.what,
			heir.at.Sub(died).Round(time.Millisecond), holderTimeout, tick)
		assert.Greater(t, heir.at.Sub(died), holderTimeout/2, heir.what)
		assert.Less(t, heir.at.Sub(died), holderTimeout+kit.Slack(), heir.what)
	}
	waiting.Wait()
	w.count(t, "/killed/double", 0)

	require.NoError(t, latch.Close(ctx))
	require.NoError(t, selector.Close(ctx))
	require.NoError(t, write.Release(ctx))
	require.NoError(t, leases.Return(ctx, "both"))
	require.NoError(t, multi.Release(ctx))
	w.gone(t, "/killed")
}
