package framework

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// A hold whose owner may not READ its node, but has ADMIN, notices that an administrator has deleted it, or replaced
// it: there is no event, but getACL returns the Stat.
func TestHoldOfAnUnreadableNodeIsLostWithIt(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		for _, again := range []bool{false, true} {
			t.Run(profile.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.RunT(t, zktest.Config{Profile: profile})
					s := connected(t, dial(t, srv, WithDefaultACL(ACL{PermAll &^ PermRead, "world", "anyone"})))
					h := hold(t, s, "/lock", HoldOptions{})
					time.Sleep(time.Minute)
					require.True(t, h.Valid(), "the node is untouched")
					require.NoError(t, srv.Delete("/lock"))
					if again { // and another node has its name
						require.NoError(t, srv.Create("/lock", nil))
					}
					time.Sleep(13 * time.Second) // the session timeout and a quarter
					require.False(t, h.Valid())
					over(t, h, ErrNodeDeleted)
				})
			})
		}
	}
}

// With neither READ nor ADMIN the client cannot find out. The hold continues, and a log line reports the missing
// permission.
func TestHoldOfANodeThatCannotBeSeenGoesOn(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V39, zktest.V38} {
		t.Run(profile.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.RunT(t, zktest.Config{Profile: profile})
				acl := WithDefaultACL(ACL{PermAll &^ (PermRead | PermAdmin), "world", "anyone"})
				h := hold(t, connected(t, dial(t, srv, acl)), "/lock", HoldOptions{})
				srv.ResetCounts()
				time.Sleep(time.Minute)
				assert.True(t, h.Valid())
				assert.Equal(t, 1, srv.Counts()["getACL"], "it is refused once")
			})
		})
	}
}

// A hold that had to wait reads its node first: the Stat of an unreadable node is in the reply to getACL, and without any
// permission to read it the node counts as present.
func TestAnUnreadableNodeIsReadWhenItsHoldHasWaited(t *testing.T) {
	for _, tt := range []struct {
		without           Perm
		deleted, replaced bool
		want              error
	}{
		{PermRead, false, false, nil},
		{PermRead, true, false, ErrNodeDeleted},
		{PermRead, true, true, ErrNodeDeleted},
		{PermRead | PermAdmin, false, false, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv, answer := unanswered(t)
			s := connected(t, dial(t, srv, WithDefaultACL(ACL{PermAll &^ tt.without, "world", "anyone"})))
			_, err := s.Client().Create().WithMode(Ephemeral).ForPath(t.Context(), "/lock", nil)
			require.NoError(t, err)
			if tt.deleted {
				time.AfterFunc(time.Second/2, func() { assert.NoError(t, srv.Delete("/lock")) })
			}
			if tt.replaced {
				time.AfterFunc(2*time.Second/3, func() {
					assert.NoError(t, srv.Create("/lock", nil))
					assert.NoError(t, srv.SetACL("/lock", zktest.ACL{
						Perms: int32(PermAll &^ tt.without), Scheme: "world", ID: "anyone"}))
				})
			}
			time.AfterFunc(time.Second, answer)
			_, err = s.Hold(t.Context(), HoldOptions{Path: "/lock"})
			assert.ErrorIs(t, err, tt.want)
		})
	}
}

// A read of the hold's node that is lost with the connection, or refused for a temporary reason, is repeated: the deletion
// of the node still ends the hold.
func TestALostReadOfAnOwnNodeIsRepeated(t *testing.T) {
	for _, profile := range []zktest.Profile{zktest.V39, zktest.V37} {
		for _, op := range []zktest.Op{"exists", "getACL"} {
			for _, action := range []zktest.Action{zktest.LoseReply, zktest.CutBefore, zktest.ReplyError} {
				t.Run(fmt.Sprint(profile, " ", op, " ", action), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						srv := zktest.RunT(t, zktest.Config{Profile: profile})
						s := connected(t, dial(t, srv, WithDefaultACL(ACL{PermAll &^ PermRead, "world", "anyone"})))
						lost := srv.Inject(zktest.Fault{Op: op, PathPrefix: "/lock", Action: action, Err: zktest.ErrThrottledOp})
						h := hold(t, s, "/lock", HoldOptions{Loss: SessionOnly})
						<-lost.Struck()
						time.Sleep(2 * time.Second)
						require.True(t, h.Valid(), "the node is untouched")
						require.NoError(t, srv.Delete("/lock"))
						time.Sleep(13 * time.Second) // the session timeout and a quarter
						require.False(t, h.Valid())
						over(t, h, ErrNodeDeleted)
					})
				})
			}
		}
	}
}

// After the hold's end a lost read is not repeated.
func TestALostReadOfAReleasedNodeIsNotRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		read := srv.Inject(zktest.Fault{Op: "getACL", PathPrefix: "/lock", Action: zktest.Hold})
		h := hold(t, connected(t, c), "/lock", HoldOptions{Loss: SessionOnly})
		<-read.Struck()
		h.End(nil)
		srv.ResetCounts()
		srv.Cut(0)
		read.Release()
		time.Sleep(time.Minute)
		assert.Zero(t, srv.Counts()["getACL"])
	}, WithDefaultACL(ACL{PermAll &^ PermRead, "world", "anyone"}))
}
