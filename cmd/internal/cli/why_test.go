//go:build linux || darwin

package cli_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
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
