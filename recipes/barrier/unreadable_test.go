package barrier_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/barrier"
	"github.com/go-curator/curator/zktest"
)

// Members that may not read each other's nodes, nor a "ready" of another member, fill the barrier and leave it.
func TestMembersThatMayNotReadEachOthersNodes(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		t.Run(profile.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.RunT(t, zktest.Config{Profile: profile})
				require.NoError(t, s.Create(path, nil)) // so that all may list it
				member := func(credentials string) *barrier.Double {
					return barrier.NewDouble(newClient(t, s, framework.WithAuth("digest", []byte(credentials)),
						framework.WithDefaultACL(framework.CreatorACL()...)), path, 3)
				}
				first := entering(t, background, member("a:a")).Waits()
				second := entering(t, background, member("b:b")).Waits()
				third := enter(t, member("c:c"))
				time.Sleep(13 * time.Second) // the session timeout and a quarter: the event may be dropped
				var out []*call[struct{}]
				for _, m := range []*barrier.Member{first.OK(), second.OK(), third} {
					out = append(out, leaving(t, background, m))
				}
				for _, left := range out {
					left.OK()
				}
				clean(t, s)
			})
		})
	}
}
