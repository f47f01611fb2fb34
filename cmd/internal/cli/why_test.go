//go:build linux || darwin

package cli_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// A ring that has other nodes some seconds later is of processes that lock in several goroutines.
func TestWhyOfARingThatPasses(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.deadlock()
	p := b.start("why", "/locks/a")
	b.soon("it looks again", func() bool { return strings.Contains(p.stderr(), "looks again in 5s") })
	names, _ := b.srv.Children("/locks/a")
	require.Len(t, names, 2)
	for _, name := range names {
		require.NoError(t, b.srv.Delete("/locks/a/"+name)) // who waits there makes its node anew
	}
	assert.Zero(t, p.code(), p.stdout())
	assert.Contains(t, p.stdout(), "nothing is wrong that can be seen from here")
}

// What why prints is what it has seen at its second look, also of a line in which nobody is any more.
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
	b.soon("it looks again", func() bool { return strings.Contains(p.stderr(), "looks again in 5s") })
	require.NoError(t, b.srv.DeleteAll("/locks/a"))
	assert.Zero(t, p.code(), p.stdout())
	assert.NotContains(t, p.stdout(), "1 hold, 1 wait")
	assert.Contains(t, p.stdout(), "/locks/a: there is no node")
}

// deadlock has two clients each hold what the other one waits for, at /locks/a and /locks/b.
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
