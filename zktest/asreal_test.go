package zktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-curator/curator/internal/jute"
)

// Behaviour of a real server that random histories have shown: see integration/differential.

func TestEphemeralsDieInTheOrderOfAHashSet(t *testing.T) {
	s := RunT(t)
	watcher, owner := newRaw(t, s, 10*time.Second), newRaw(t, s, 10*time.Second)
	watcher.create("/h", 0)
	for _, name := range []string{"c", "x.y", "b", "a"} {
		owner.create("/h/"+name, jute.ModeEphemeral)
	}
	var own jute.ChildrenResponse
	owner.call(jute.OpGetEphemerals, &jute.PathRequest{}).into(t, &own)
	assert.Equal(t, []string{"/h/x.y", "/h/b", "/h/c", "/h/a"}, own.Children)
	watcher.call(jute.OpAddWatch, &jute.PathIntRequest{Path: "/h", Value: jute.WatchPersistentRecursive})
	owner.call(jute.OpCloseSession)
	assert.Equal(t, []string{
		"NodeDeleted /h/x.y", "NodeDeleted /h/b", "NodeDeleted /h/c", "NodeDeleted /h/a",
	}, watcher.heard())
}

func TestIdentitiesAreInTheOrderOfAHashSet(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	for _, credentials := range []string{"u:p", "super:secret"} {
		c.call(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte(credentials)})
	}
	var who jute.WhoAmIResponse
	c.call(jute.OpWhoAmI).into(t, &who)
	var users []string
	for _, id := range who.Info {
		if id.Scheme == "digest" {
			users = append(users, id.User)
		}
	}
	assert.Equal(t, []string{"super", "u"}, users)
	mine := []jute.ACL{{Perms: jute.PermAll, Scheme: "auth"}}
	c.call(jute.OpCreate, &jute.CreateRequest{Path: "/mine", ACL: mine})
	var acl jute.GetACLResponse
	c.call(jute.OpGetACL, &jute.PathRequest{Path: "/mine"}).into(t, &acl)
	assert.Equal(t, []jute.ACL{
		{Perms: jute.PermAll, Scheme: "digest", ID: digestUserID([]byte("super:secret"))},
		{Perms: jute.PermAll, Scheme: "digest", ID: digestUserID([]byte("u:p"))},
	}, acl.ACL)
}

// 3.6 to 3.8 look for a watch on the parents, too, and fail on a path without a parent.
func TestCheckWatchesWithoutASlash(t *testing.T) {
	for profile, want := range map[Profile]Error{V35: ErrNoWatcher, V36: ErrMarshalling, V38: ErrMarshalling, V39: ErrNoWatcher} {
		c := newRaw(t, RunT(t, Config{Profile: profile}), 10*time.Second)
		req := &jute.PathIntRequest{Path: "h", Value: jute.WatcherAny}
		assert.Equal(t, want, c.code(jute.OpCheckWatches, req), profile)
	}
}

func TestQuotaWithNullForItsLimits(t *testing.T) {
	c := newRaw(t, RunT(t, Config{EnforceQuota: true}), 10*time.Second)
	for _, path := range []string{"/a", "/zookeeper/quota/a"} {
		c.create(path, 0)
	}
	null := mk("/zookeeper/quota/a/zookeeper_limits", 0)
	null.Data = nil
	assert.Equal(t, ok, c.code(jute.OpCreate, null))
	assert.Equal(t, ErrMarshalling, c.code(jute.OpCreate, mk("/a/b", 0)))
	assert.Equal(t, ErrMarshalling, c.code(jute.OpSetData, put("/a", "x")))
	assert.Equal(t, ok, c.code(jute.OpDelete, rm("/a")))
}
