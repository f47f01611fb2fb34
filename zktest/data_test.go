package zktest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

func TestPathRules(t *testing.T) {
	s := RunT(t)
	require.NoError(t, s.Create("/a", nil))
	c := newRaw(t, s, 10*time.Second)
	for path, want := range map[string]Error{
		"": ErrBadArguments, "a": ErrBadArguments,
		"/a/": ErrBadArguments, "/a//b": ErrNoNode, "//a": ErrBadArguments,
		"/a/.": ErrBadArguments, "/a/..": ErrBadArguments,
		"/a/\x00": ErrBadArguments, "/a/\x1f": ErrBadArguments, "/a/\x7f": ErrBadArguments,
		"/a/\ue000": ErrBadArguments, "/a/\ufff0": ErrBadArguments,
		"/a/\U0001F600": ErrBadArguments, "/a/\xff": ErrBadArguments,
		"/a": ErrNodeExists, "/": ErrNodeExists, "/b/c": ErrNoNode,
		"/a/...": ok, "/a/.b": ok, "/a/b.": ok, "/a/ü ö": ok,
	} {
		assert.Equal(t, want, c.code(jute.OpCreate, mk(path, 0)), "create %q", path)
	}
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "", "a"} {
		assert.Equal(t, ErrBadArguments, c.code(jute.OpDelete, rm(path)), "delete %q", path)
	}
	assert.Equal(t, ErrNoNode, c.code(jute.OpGetData, at("no path")), "reads do not validate")
}

func TestSequenceNumbersComeFromTheParent(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	c.create("/p", 0)
	assert.Equal(t, "/p/n0000000000", c.create("/p/n", jute.ModePersistentSequential))
	c.create("/p/plain", 0)
	assert.Equal(t, "/p/0000000002", c.create("/p/", jute.ModeEphemeralSequential))
	c.call(jute.OpDelete, rm("/p/0000000002"))
	next := c.create("/p/n", jute.ModePersistentSequential)
	assert.Equal(t, "/p/n0000000003", next, "a delete does not count")
}

// At its maximum the counter stays, and names repeat; inside one multi it overflows.
func TestSequenceSticksAtItsEnd(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	c.create("/p", 0)
	require.NoError(t, s.SetSequence("/p", 2147483646))
	assert.Equal(t, "/p/a-2147483646", c.create("/p/a-", jute.ModePersistentSequential))
	assert.Equal(t, "/p/b-2147483647", c.create("/p/b-", jute.ModePersistentSequential))
	assert.Equal(t, "/p/c-2147483647", c.create("/p/c-", jute.ModePersistentSequential))
	assert.Equal(t, ErrNodeExists, c.code(jute.OpCreate, mk("/p/c-", jute.ModePersistentSequential)))
	res := jute.MultiResponse{Asked: 100}
	sequential := jute.MultiOp{Op: jute.OpCreate, Request: mk("/p/d-", jute.ModePersistentSequential)}
	c.call(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{sequential, sequential}}).into(t, &res)
	assert.Equal(t, "/p/d-2147483647", res.Results[0].Path)
	assert.Equal(t, "/p/d--2147483648", res.Results[1].Path)
}

func TestSequenceWrapsOn35(t *testing.T) {
	s := RunT(t, Config{Profile: V35})
	c := newRaw(t, s, 10*time.Second)
	c.create("/p", 0)
	require.NoError(t, s.SetSequence("/p", 2147483647))
	assert.Equal(t, "/p/a-2147483647", c.create("/p/a-", jute.ModePersistentSequential))
	assert.Equal(t, "/p/b--2147483648", c.create("/p/b-", jute.ModePersistentSequential))
	assert.Equal(t, "/p/c--2147483647", c.create("/p/c-", jute.ModePersistentSequential))
}

func TestEphemeralsHaveNoChildren(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	c.create("/e", jute.ModeEphemeral)
	assert.Equal(t, ErrNoChildrenForEphemerals, c.code(jute.OpCreate, mk("/e/a", 0)))
	assert.Equal(t, ErrNoChildrenForEphemerals, c.code(jute.OpCreate, mk("/e/a", 2)))
}

func TestStat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t)
		c := newRaw(t, s, 30*time.Second)
		created := time.Now().UnixMilli()
		c.create("/a", 0)
		czxid := s.Zxid()
		time.Sleep(time.Second)
		c.call(jute.OpSetData, put("/a", "four"))
		mzxid, changed := s.Zxid(), time.Now().UnixMilli()
		c.create("/a/x", 0)
		c.create("/a/y", 0)
		c.call(jute.OpDelete, rm("/a/x"))
		pzxid := s.Zxid()
		var res jute.StatResponse
		c.call(jute.OpExists, at("/a")).into(t, &res)
		assert.Equal(t, Stat{
			Czxid: czxid, Mzxid: mzxid, Pzxid: pzxid, Ctime: created, Mtime: changed,
			Version: 1, Cversion: 3, DataLength: 4, NumChildren: 1,
		}, res.Stat)
		assert.Equal(t, Stat{Cversion: -1, NumChildren: 1}, s.freshRoot(t))
	})
}

func (s *Server) freshRoot(t *testing.T) Stat {
	_, stat, err := RunT(t).Get("/")
	require.NoError(t, err)
	return stat
}

func TestContainersAndTTLNodesAreReaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := RunT(t, Config{ExtendedTypes: true})
		c := newRaw(t, s, 40*time.Second)
		keep := func(d time.Duration) {
			for range d / (10 * time.Second) {
				time.Sleep(10 * time.Second)
				c.call(jute.OpPing)
			}
		}
		for _, path := range []string{"/never-used", "/used"} {
			c.call(jute.OpCreateContainer, mk(path, jute.ModeContainer))
		}
		c.create("/used/a", 0)
		short := &jute.CreateTTLRequest{CreateRequest: *mk("/ttl", jute.ModePersistentTTL), TTL: 90_000}
		c.call(jute.OpCreateTTL, short)
		assert.Equal(t, Container, s.Tree()["/used"].Mode)
		assert.Equal(t, TTL, s.Tree()["/ttl"].Mode)
		keep(70 * time.Second)
		assert.True(t, s.Exists("/used"), "has a child")
		c.call(jute.OpDelete, rm("/used/a"))
		c.call(jute.OpSetData, put("/ttl", "")) // at 70 s: the TTL starts again
		c.call(jute.OpExists, watch("/used"))
		keep(60 * time.Second) // the reaper ran at 120 s
		assert.False(t, s.Exists("/used"))
		assert.Equal(t, []string{"NodeDeleted /used"}, c.heard())
		assert.True(t, s.Exists("/ttl"))
		keep(60 * time.Second) // and at 180 s
		assert.False(t, s.Exists("/ttl"))
		assert.True(t, s.Exists("/never-used"))
		without := newRaw(t, RunT(t), time.Second) // without ExtendedTypes
		assert.Equal(t, ErrUnimplemented, without.code(jute.OpCreateTTL, short))
	})
}

func TestACL(t *testing.T) {
	s := RunT(t, Config{SuperDigest: digestUserID([]byte("super:secret")), Profile: V37})
	owner, stranger := newRaw(t, s, 10*time.Second), newRaw(t, s, 10*time.Second)
	auth := func(c *raw, scheme, credentials string) Error {
		return c.code(jute.OpAuth, &jute.AuthPacket{Scheme: scheme, Auth: []byte(credentials)})
	}
	private := mk("/private", 0)
	private.ACL = []ACL{{Perms: jute.PermAll, Scheme: "auth"}}
	assert.Equal(t, ErrInvalidACL, owner.code(jute.OpCreate, private), "nothing proved yet")
	require.Equal(t, ok, auth(owner, "digest", "u:p"))
	require.Equal(t, ok, owner.code(jute.OpCreate, private))
	for op, rec := range map[int32]jute.Record{
		jute.OpGetData:     at("/private"),
		jute.OpGetChildren: at("/private"),
		jute.OpSetData:     put("/private", ""),
		jute.OpCreate:      mk("/private/a", 0),
		jute.OpGetACL:      &jute.PathRequest{Path: "/private"},
		jute.OpCheck:       rm("/private"),
		jute.OpSetACL:      &jute.SetACLRequest{Path: "/private", ACL: openACL, Version: -1},
	} {
		assert.Equal(t, ErrNoAuth, stranger.code(op, rec), opName(op))
	}
	assert.Equal(t, ok, stranger.code(jute.OpExists, at("/private")))
	assert.Equal(t, ok, owner.code(jute.OpCreate, mk("/private/a", 0)))
	code := stranger.code(jute.OpDelete, rm("/private/a"))
	assert.Equal(t, ErrNoAuth, code, "deleting needs a right on the parent")

	local := mk("/local", 0)
	local.ACL = []ACL{{Perms: jute.PermRead, Scheme: "ip", ID: "127.0.0.0/8"}}
	require.Equal(t, ok, owner.code(jute.OpCreate, local))
	assert.Equal(t, ok, stranger.code(jute.OpGetData, at("/local")))
	assert.Equal(t, ErrNoAuth, stranger.code(jute.OpSetData, put("/local", "")))

	shown := mk("/shown", 0)
	shown.ACL = []ACL{
		{Perms: jute.PermAll, Scheme: "digest", ID: digestUserID([]byte("u:p"))},
		{Perms: jute.PermRead, Scheme: "world", ID: "anyone"},
	}
	require.Equal(t, ok, owner.code(jute.OpCreate, shown))
	var acl jute.GetACLResponse
	stranger.call(jute.OpGetACL, &jute.PathRequest{Path: "/shown"}).into(t, &acl)
	assert.Equal(t, "u:x", acl.ACL[0].ID, "the hash is hidden from those without ADMIN")
	owner.call(jute.OpGetACL, &jute.PathRequest{Path: "/shown"}).into(t, &acl)
	assert.Equal(t, digestUserID([]byte("u:p")), acl.ACL[0].ID)

	require.Equal(t, ok, auth(stranger, "digest", "super:secret"))
	assert.Equal(t, ok, stranger.code(jute.OpGetData, at("/private")))
	var who jute.WhoAmIResponse
	owner.call(jute.OpWhoAmI).into(t, &who)
	assert.ElementsMatch(t,
		[]jute.ClientInfo{{Scheme: "ip", User: "127.0.0.1"}, {Scheme: "digest", User: "u"}}, who.Info)
	assert.Equal(t, ErrAuthFailed, auth(owner, "nonsense", ""))
	owner.closed()
}

func TestMultiSeesItsOwnEarlierOperations(t *testing.T) {
	s := RunT(t)
	c := newRaw(t, s, 10*time.Second)
	ops := &jute.MultiRequest{Ops: []jute.MultiOp{
		{Op: jute.OpCreate, Request: mk("/m", 0)},
		{Op: jute.OpCreate, Request: mk("/m/a", 0)},
		{Op: jute.OpSetData, Request: &jute.SetDataRequest{Path: "/m", Data: []byte("1"), Version: 0}},
		{Op: jute.OpCheck, Request: &jute.PathVersionRequest{Path: "/m", Version: 1}},
		{Op: jute.OpDelete, Request: rm("/m/a")},
		{Op: jute.OpDelete, Request: rm("/m")},
	}}
	c.call(jute.OpAddWatch, &jute.PathIntRequest{Path: "/m", Value: jute.WatchPersistentRecursive})
	before := s.Zxid()
	res := jute.MultiResponse{Asked: 100}
	c.call(jute.OpMulti, ops).into(t, &res)
	assert.Equal(t, before+1, s.Zxid())
	assert.Equal(t, int32(1), res.Results[2].Stat.Version)
	assert.Equal(t, []string{
		"NodeCreated /m", "NodeCreated /m/a", "NodeDataChanged /m", "NodeDeleted /m/a", "NodeDeleted /m",
	}, c.heard())

	ops.Ops[3].Request.(*jute.PathVersionRequest).Version = 7
	c.call(jute.OpMulti, ops).into(t, &res)
	codes := []Error{}
	for _, part := range res.Results {
		assert.Equal(t, jute.OpError, part.Op)
		codes = append(codes, Error(part.Err))
	}
	after := ErrRuntimeInconsistency
	assert.Equal(t, []Error{ok, ok, ok, ErrBadVersion, after, after}, codes)
	assert.Empty(t, c.heard())
	assert.False(t, s.Exists("/m"))
}

func TestReadsOfManyKinds(t *testing.T) {
	s := RunT(t, Config{EnsembleConfig: "server.1=a:1:2"})
	c := newRaw(t, s, 10*time.Second)
	for i := range 20 {
		require.NoError(t, s.Create(fmt.Sprintf("/d/n%d", i), nil))
	}
	c.create("/d/e", jute.ModeEphemeral)
	var kids jute.Children2Response
	c.call(jute.OpGetChildren2, at("/d")).into(t, &kids)
	assert.Len(t, kids.Children, 21)
	assert.False(t, slices.IsSorted(kids.Children), "as in Java, no order to rely on")
	var n jute.IntResponse
	c.call(jute.OpGetAllChildrenNumber, &jute.PathRequest{Path: "/d"}).into(t, &n)
	assert.Equal(t, int32(21), n.Value)
	var own jute.ChildrenResponse
	c.call(jute.OpGetEphemerals, &jute.PathRequest{Path: "/d"}).into(t, &own)
	assert.Equal(t, []string{"/d/e"}, own.Children)
	c.call(jute.OpGetEphemerals, &jute.PathRequest{Path: "/x"}).into(t, &own)
	assert.Empty(t, own.Children)
	var path jute.PathResponse
	c.call(jute.OpSync, &jute.PathRequest{Path: "/none"}).into(t, &path)
	assert.Equal(t, "/none", path.Path)
	var data jute.GetDataResponse
	c.call(jute.OpGetData, at("/zookeeper/config")).into(t, &data)
	assert.Equal(t, "server.1=a:1:2", string(data.Data))
	assert.Equal(t, ErrNoAuth, c.code(jute.OpSetData, put("/zookeeper/config", "")))
	assert.Equal(t, ErrReconfigDisabled, c.code(jute.OpReconfig, &jute.ReconfigRequest{}))
}

// A request that a profile does not know is refused before the replies to requests in flight, and the connection is
// closed.
func TestWhatProfilesDoNotKnow(t *testing.T) {
	since36 := []int32{
		jute.OpAddWatch, jute.OpSetWatches2, jute.OpMultiRead, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber,
	}
	unknown := map[Profile][]int32{
		V39: {jute.OpCheck}, V38: {jute.OpCheck}, V380Debian: nil, V37: nil, V36: {jute.OpWhoAmI},
		V35: append(slices.Clone(since36), jute.OpWhoAmI),
	}
	for _, profile := range Profiles() {
		for _, op := range append(slices.Clone(since36), jute.OpWhoAmI, jute.OpCheck, 999) {
			synctest.Test(t, func(t *testing.T) {
				e := RunEnsembleT(t, 3, Config{Profile: profile, PeerDelay: time.Second})
				c := newRaw(t, e.Member(e.Leader()), 10*time.Second)
				c.send(jute.OpCreate, mk("/a", 0))
				xid := c.send(op, &jute.PathIntRequest{Path: "/a"}, &jute.SetWatches2{})
				r, err := c.recv()
				require.NoError(t, err)
				if op != 999 && !slices.Contains(unknown[profile], op) {
					assert.NotEqual(t, xid, r.Xid, "%v %d waits for the create", profile, op)
					return
				}
				assert.Equal(t, xid, r.Xid, "%v %d", profile, op)
				assert.Equal(t, ErrUnimplemented, Error(r.Err), "%v %d", profile, op)
				assert.Equal(t, int64(-1), r.Zxid)
				c.closed()
			})
		}
	}
}

// A node that may not be read exists for all clients, or only for clients that may read it.
func TestExistsNeedsRead(t *testing.T) {
	secret := ACL{Perms: jute.PermAll, Scheme: "digest", ID: digestUserID([]byte("u:p"))}
	for _, profile := range Profiles() {
		s := RunT(t, Config{Profile: profile})
		require.NoError(t, s.Create("/a", nil))
		require.NoError(t, s.SetACL("/a", secret))
		c := newRaw(t, s, 10*time.Second)
		needed := profile == V39 || profile == V38
		want := map[bool]Error{false: ok, true: ErrNoAuth}[needed]
		assert.Equal(t, want, c.code(jute.OpExists, watch("/a")), "%v", profile)
		assert.Equal(t, needed, len(s.Watches()) == 0, "%v: what is refused leaves no watch", profile)
		assert.Equal(t, ErrNoNode, c.code(jute.OpExists, watch("/b")), "%v", profile)
		c.call(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("u:p")})
		assert.Equal(t, ok, c.code(jute.OpExists, watch("/a")), "%v", profile)
	}
}

// A create2 in a multi gets the reply of a create2, or of a create.
func TestCreate2InAMulti(t *testing.T) {
	for _, profile := range Profiles() {
		c := newRaw(t, RunT(t, Config{Profile: profile}), 10*time.Second)
		multi := func(flags int32) (r reply, parts jute.MultiResponse) {
			good := jute.MultiOp{Op: jute.OpCreate2, Request: mk("/a", 0)}
			odd := jute.MultiOp{Op: jute.OpCreate2, Request: mk("/b", flags)}
			r = c.call(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{good, odd}})
			parts.Asked = 2
			if r.Err == 0 {
				r.into(t, &parts)
			}
			return r, parts
		}
		kept := profile == V39 || profile == V38 || profile == V37
		if r, parts := multi(9); kept {
			assert.Equal(t, ErrMarshalling, Error(r.Err), "%v: an unknown mode fails all", profile)
		} else {
			assert.Equal(t, ErrBadArguments, Error(parts.Results[1].Err), "%v", profile)
		}
		_, parts := multi(jute.ModeEphemeral)
		want := map[bool]int32{false: jute.OpCreate, true: jute.OpCreate2}[kept]
		assert.Equal(t, want, parts.Results[1].Op, "%v", profile)
		assert.Equal(t, kept, parts.Results[1].Stat.EphemeralOwner == c.hello.SessionID, "%v", profile)
	}
}

// 3.9 executes this request, which other releases misread: its client can delete a node without permission.
func TestDeleteContainerOfAClient(t *testing.T) {
	for _, profile := range Profiles() {
		s := RunT(t, Config{Profile: profile})
		c := newRaw(t, s, 10*time.Second)
		c.create("/e", jute.ModeEphemeral)
		require.NoError(t, s.Create("/a/b", nil))
		require.NoError(t, s.SetACL("/a", ACL{Perms: jute.PermRead, Scheme: "world", ID: "anyone"}))
		for _, attempt := range []struct {
			path string
			want Error
		}{{"/e", ErrBadVersion}, {"/a", ErrNotEmpty}, {"/no", ErrNoNode}, {"/", ErrBadArguments}, {"/a/b", ok}} {
			want := attempt.want
			if profile != V39 {
				want = ErrBadArguments
			}
			assert.Equal(t, want, c.code(jute.OpDeleteContainer, &jute.PathRequest{Path: attempt.path}),
				"%v %s", profile, attempt.path)
		}
		assert.Equal(t, profile != V39, s.Exists("/a/b"), "%v", profile)
	}
}

func TestFramesBeyondTheLimitCloseTheConnection(t *testing.T) {
	s := RunT(t, Config{MaxFrame: 1000})
	c := newRaw(t, s, 10*time.Second)
	big := mk("/big", 0)
	big.Data = bytes.Repeat([]byte("x"), 900)
	assert.Equal(t, ok, c.code(jute.OpCreate, big))
	big.Data = bytes.Repeat([]byte("x"), 1000)
	c.send(jute.OpCreate, big)
	c.closed()
}

func TestQuota(t *testing.T) {
	for _, enforce := range []bool{false, true} {
		s := RunT(t, Config{EnforceQuota: enforce})
		require.NoError(t, s.Create("/q/a", []byte("xx")))
		limits := []byte("count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=3")
		require.NoError(t, s.Create("/zookeeper/quota/q/zookeeper_limits", limits))
		require.NoError(t, s.Create("/zookeeper/quota/q/zookeeper_stats", []byte("count=0,bytes=0")))
		c := newRaw(t, s, 10*time.Second)
		used := func() string {
			data, _, err := s.Get("/zookeeper/quota/q/zookeeper_stats")
			require.NoError(t, err)
			return string(data)
		}
		assert.Equal(t, "count=2,bytes=2", used())
		c.create("/q/b", 0)
		assert.Equal(t, "count=3,bytes=3", used())
		want := ok
		if enforce {
			want = ErrQuotaExceeded
		}
		assert.Equal(t, want, c.code(jute.OpCreate, mk("/q/c", 0)))
		assert.Equal(t, want, c.code(jute.OpSetData, put("/q/a", "0123456789")))
		assert.Equal(t, ok, c.code(jute.OpDelete, rm("/q/b")))
		if enforce {
			assert.Equal(t, "count=2,bytes=2", used())
		}
		require.NoError(t, s.Delete("/zookeeper/quota/q/zookeeper_limits"))
		assert.Equal(t, ok, c.code(jute.OpSetData, put("/q/a", "0123456789")))
	}
}

// TestWhatProfilesDoNotKnow has the releases that do not know a check outside a multi.
func TestCheckOutsideAMulti(t *testing.T) {
	s := RunT(t, Config{Profile: V37})
	c := newRaw(t, s, 10*time.Second)
	assert.Equal(t, ErrNoNode, c.code(jute.OpCheck, rm("/a")))
	c.send(jute.OpCheck, rm("/"))
	assert.Empty(t, c.heard(), "the next reply is the ping's")
}
