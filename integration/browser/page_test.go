//go:build chromium

package browser_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
)

// later calls f on another goroutine, which ends with the test.
func later(t *testing.T, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "not in time: %s", what)
	}
}

// members of the shop, each with a session of its own.
func (s *stage) crew(t *testing.T, names ...string) map[string]*framework.Client {
	all := map[string]*framework.Client{}
	for _, name := range names {
		all[name] = s.connect(t)
	}
	return all
}

func (s *stage) children(path string) int {
	names, err := s.server.Children(path)
	if err != nil {
		return 0
	}
	return len(names)
}

// shop is a busy place: locks of every kind, a deadlock, and another library's participants.
func shop(t *testing.T, s *stage, v *viewer) {
	crew := s.crew(t, "billing-1", "billing-2", "shipping-1", "stock-1", "stock-2", "report", "cron-5d41", "cron-0cc1",
		"cron-92eb")
	lock := func(who, path string) {
		m := mutex.New(crew[who], path, mutex.WithNodeData([]byte(who)))
		before := s.children(path)
		if before == 0 {
			_, err := m.Acquire(t.Context())
			require.NoError(t, err)
			return
		}
		later(t, func(ctx context.Context) { _, _ = m.Acquire(ctx) })
		eventually(t, who+" waits at "+path, func() bool { return s.children(path) > before })
	}
	lock("billing-1", "/shop/locks/orders/4711")
	lock("shipping-1", "/shop/locks/orders/4711")
	lock("report", "/shop/locks/orders/4711")
	lock("stock-1", "/shop/locks/stock/berlin")
	lock("stock-2", "/shop/locks/stock/hamburg")
	lock("stock-1", "/shop/locks/stock/hamburg")
	lock("stock-2", "/shop/locks/stock/berlin")
	for _, who := range []string{"billing-1", "billing-2"} {
		later(t, func(ctx context.Context) {
			_, _ = semaphore.New(crew[who], "/shop/printers", 2, semaphore.WithLeaseData([]byte(who))).Acquire(ctx, 1)
		})
	}
	rw := rwlock.New(crew["report"], "/shop/prices", rwlock.WithNodeData([]byte("report")))
	_, err := rw.ReadLock().Acquire(t.Context())
	require.NoError(t, err)
	for i, name := range []string{"5d41402abc4b2a76b9719d911017c592", "0cc175b9c0f1b6a831c399e269772661",
		"92eb5ffee6ae2fec3ad71c777531578f"} {
		_, err := crew["cron-"+name[:4]].Create().CreatingParentContainersIfNeeded().WithMode(framework.Ephemeral).ForPath(
			t.Context(), fmt.Sprintf("/shop/kazoo/nightly/%s__lock__%010d", name, i), []byte("cron-"+name[:4]))
		require.NoError(t, err)
	}
	var last *mutex.Lock
	for i := range 7 {
		who := []string{"billing-1", "billing-2", "shipping-1"}[i%3]
		if last != nil {
			require.NoError(t, last.Release(t.Context()))
		}
		last, err = mutex.New(crew[who], "/shop/locks/cash", mutex.WithNodeData([]byte(who))).Acquire(t.Context())
		require.NoError(t, err)
		seen := "1 grant seen"
		if i > 0 {
			seen = fmt.Sprintf("Last %d grants seen", i+1)
		}
		v.until("the page shows the next holder", fmt.Sprintf("[...document.querySelectorAll('.line')].some("+
			"l => l.innerText.includes('/shop/locks/cash') && l.innerText.includes(%q))", seen))
	}
}

func TestPictures(t *testing.T) {
	s := newStage(t)
	v := newViewer(t, 1280, 1500)
	v.open(s.web.URL + "/")
	shop(t, s, v)
	v.has("/shop/locks/stock/berlin", "These sessions wait for each other", "Last 7 grants seen", "0 in flight")
	v.shoot("light")
	v.dark(true)
	v.shoot("dark")
	v.dark(false)
	narrow := newViewer(t, 390, 844)
	narrow.open(s.web.URL + "/")
	narrow.has("/shop/locks/stock/berlin")
	narrow.shoot("narrow")
	v.fine()
	narrow.fine()
	_ = strings.ToUpper
}
