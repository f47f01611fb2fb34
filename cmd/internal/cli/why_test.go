//go:build linux || darwin

package cli_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// A ring that has other nodes some seconds later comes from processes that lock in several goroutines.
func TestWhyOfARingThatPasses(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.deadlock()
	p := b.start("why", "/locks/a")
	b.soon("it looks again", func() bool { return strings.Contains(p.stderr(), "checking again in 5s") })
	names, _ := b.srv.Children("/locks/a")
	require.Len(t, names, 2)
	for _, name := range names {
		require.NoError(t, b.srv.Delete("/locks/a/"+name)) // the waiter there creates its node again
	}
	assert.Zero(t, p.code(), p.stdout())
	assert.Contains(t, p.stdout(), "no problems found")
}

// For a line that is not there yet why reports that there is no node. A root that does not exist either is an error only if
// it is elsewhere.
func TestWhyOfAPathThatIsNotThere(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, root := range []string{"/", "/nope", "/nope/below"} {
		code, out, err := b.runs("why", "/nope", "--root", root)
		assert.Zero(t, code, "%s: %s", root, err)
		assert.Contains(t, out, "there is no node", root)
		assert.Empty(t, err, root)
	}
	code, out, err := b.runs("why", "/nope", "--root", "/nope", "-o", "json")
	assert.Zero(t, code, err)
	assert.Contains(t, out, `"lines": [],`)

	for _, root := range []string{"/nope2", "/nop"} {
		code, out, err = b.runs("why", "/nope", "--root", root)
		assert.Equal(t, 1, code, out)
		assert.Contains(t, err, "--root "+root+" does not exist")
		assert.NotContains(t, err, "/nope,", "the path does not exist either")
	}
}

// If the chroot does not exist, the error does not mention --root when that was not given.
func TestWhyBelowAChrootThatIsNotThere(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.env = append(b.env, "CURATOR_SERVERS="+b.srv.Addr()+"/app")
	code, out, err := b.runs("why", "/nope")
	assert.NotZero(t, code, out)
	assert.Contains(t, err, "the chroot of the connect string does not exist")
	assert.NotContains(t, err, "--root")
	for _, args := range [][]string{{"who", "/nope"}, {"doctor"}} {
		_, out, err := b.runs(args...)
		assert.Contains(t, out, "the chroot of the connect string does not exist: create /app", "%q: %s", args, err)
	}
}

// For a root that may not be listed the error suggests a path below it. If that is the path itself there is no suggestion.
func TestWhyBelowARootThatMayNotBeListed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c, err := framework.New(b.srv.Addr())
	require.NoError(t, err)
	defer c.Close()
	mayNotList := []framework.ACL{{Perms: framework.PermCreate, Scheme: "world", ID: "anyone"}}
	_, err = c.Create().WithACL(mayNotList...).ForPath(t.Context(), "/secret", nil)
	require.NoError(t, err)
	_, err = c.Create().ForPath(t.Context(), "/secret/lock", nil)
	require.NoError(t, err)
	code, _, why := b.runs("why", "/secret/lock", "--root", "/secret")
	assert.Equal(t, 1, code)
	assert.Contains(t, why, "give --root a path with permission to list, such as /secret/lock")
	code, _, why = b.runs("why", "/secret", "--root", "/secret")
	assert.Equal(t, 1, code)
	assert.NotEmpty(t, why)
	assert.NotContains(t, why, "give --root")
}

// why prints the result of its second look, even if the line is empty by then.
func TestWhyOfALineThatIsOver(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var sessions []int64
	for range 2 {
		c, err := framework.New(b.srv.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		session, err := c.Session(t.Context())
		require.NoError(t, err)
		sessions = append(sessions, session.ID())
	}
	for _, node := range []string{"/locks", "/locks/a", "/locks/b"} {
		require.NoError(t, b.srv.Create(node, nil))
	}
	for i, path := range []string{"/locks/a", "/locks/b"} {
		for place, session := range []int64{sessions[i], sessions[1-i]} {
			name := fmt.Sprintf("%s/_c_d93c3b7d-b92f-47f8-97dd-71e653f1e8c%d-lock-%010d", path, place, place)
			_, err := b.srv.CreateNode(name, nil, zktest.Ephemeral, session)
			require.NoError(t, err)
		}
	}
	p := b.start("why", "/locks/a")
	b.soon("it looks again", func() bool { return strings.Contains(p.stderr(), "checking again in 5s") })
	require.NoError(t, b.srv.DeleteAll("/locks/a"))
	assert.Zero(t, p.code(), p.stdout())
	assert.NotContains(t, p.stdout(), "1 hold, 1 wait")
	assert.Contains(t, p.stdout(), "/locks/a: there is no node")
}

// deadlock makes two clients each hold the lock that the other one waits for, at /locks/a and /locks/b.
func (b *bed) deadlock() {
	ctx, cancel := context.WithCancel(context.Background())
	var waits sync.WaitGroup
	b.Cleanup(func() { cancel(); waits.Wait() })
	var clients []*framework.Client
	names := []string{"/locks/a", "/locks/b"}
	for _, name := range names {
		c, err := framework.New(b.srv.Addr())
		require.NoError(b, err)
		b.Cleanup(func() { cancel(); waits.Wait(); _ = c.Close() })
		_, err = mutex.New(c, name).Acquire(ctx)
		require.NoError(b, err)
		clients = append(clients, c)
	}
	for i, name := range names {
		waits.Go(func() { _, _ = mutex.New(clients[1-i], name).Acquire(ctx) })
		b.soon("waiting", func() bool { all, _ := b.srv.Children(name); return len(all) == 2 })
	}
}

// A holder whose node is not ephemeral has no session that could be named.
func TestWhyOfAHolderWithoutASession(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const node = "_c_0fe26a6e-2ac3-4e1f-b2a4-3f5a3bb3b1d0-lock-0000000000"
	require.NoError(t, b.srv.Create("/locks/a/"+node, nil))
	waiter := b.start("lock", "/locks/a", "--id", "waiter", "--", "sleep", "600")
	b.soon("waiting", func() bool { names, _ := b.srv.Children("/locks/a"); return len(names) == 2 })
	_, out, err := b.runs("why", "/locks/a")
	assert.Contains(t, out, "at /locks/a for the node "+node+" that is not ephemeral\n", err)
	waiter.signal(syscall.SIGTERM)
	waiter.code()
}
