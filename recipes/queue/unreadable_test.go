package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/queue"
	"github.com/go-curator/curator/zktest"
)

// A consumer continues while another handles an item whose lock the first may not read.
func TestLocksThatMayNotBeRead(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		t.Run(profile.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t, zktest.Config{Profile: profile})
				for _, dir := range []string{path, lockPath} {
					require.NoError(t, s.Create(dir, nil))
				}
				private := newClient(t, s, framework.WithAuth("digest", []byte("a:a")),
					framework.WithACLProvider(func(of string) []framework.ACL {
						if len(of) > len(lockPath) && of[:len(lockPath)] == lockPath {
							return framework.CreatorACL()
						}
						return framework.OpenACL()
					}))
				handled := make(chan string, 2)
				slow := consuming(t, queue.New(private, path, queue.WithLockPath(lockPath)),
					func(_ context.Context, item []byte) error {
						time.Sleep(time.Minute)
						handled <- string(item)
						return nil
					})
				other := newClient(t, s)
				q := queue.New(other, path, queue.WithLockPath(lockPath))
				put(t, q, "slow")
				time.Sleep(time.Second)
				quick := consuming(t, q, func(_ context.Context, item []byte) error {
					handled <- string(item)
					return nil
				})
				time.Sleep(30 * time.Second)
				put(t, q, "quick")
				require.Equal(t, "quick", <-handled)
				require.Equal(t, "slow", <-handled)
				quick()
				slow()
			})
		})
	}
}
