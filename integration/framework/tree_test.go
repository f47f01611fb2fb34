package framework

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/framework/tree"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

// A hundred thousand nodes are dumped, deleted and restored.
func TestDumpAndRestoreOfManyNodes(t *testing.T) {
	t.Parallel()
	_, c := serve(t, zkserver.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	const dirs, leaves = 500, 199
	const anyone = `{"perms":31,"scheme":"world","id":"anyone"}`
	const local = `{"perms":1,"scheme":"ip","id":"10.0.0.1"}`

	// A hand-written dump is the fastest way to create nodes.
	var text bytes.Buffer
	fmt.Fprintln(&text, `{"header":{"version":1,"root":"/","acl":true}}`)
	fmt.Fprintf(&text, `{"node":{"path":"/","acl":[%s]}}`+"\n", anyone)
	for i := range dirs {
		fmt.Fprintf(&text, `{"node":{"path":"/d%03d","acl":[%s,%s]}}`+"\n", i, anyone, local)
		for j := range leaves {
			fmt.Fprintf(&text, `{"node":{"path":"/d%03d/n%03d","data":"aGVsbG8gd29ybGQ=","acl":[%s]}}`+"\n", i, j,
				anyone)
		}
	}
	const nodes = 1 + dirs*(1+leaves)
	fmt.Fprintf(&text, `{"end":{"nodes":%d,"skipped":0}}`, nodes)

	heard := 0
	began := time.Now()
	p, err := tree.Restore(c).WithProgress(func(tree.Progress) { heard++ }).ForPath(ctx, "/big", &text)
	require.NoError(t, err)
	kit.Figure(t, "restore of %d nodes: %v", nodes, time.Since(began).Round(time.Millisecond))
	assert.Equal(t, tree.Progress{Nodes: nodes, Bytes: dirs * leaves * 11}, p)
	assert.Greater(t, heard, 100)

	_, err = c.Create().WithMode(framework.Ephemeral).ForPath(ctx, "/big/d000/here", nil)
	require.NoError(t, err)
	var out bytes.Buffer
	heard, began = 0, time.Now()
	p, err = tree.Dump(c).WithProgress(func(tree.Progress) { heard++ }).ForPath(ctx, "/big", &out)
	require.NoError(t, err)
	kit.Figure(t, "dump of %d nodes with their ACLs: %v, %d bytes", nodes,
		time.Since(began).Round(time.Millisecond), out.Len())
	assert.Equal(t, tree.Progress{Nodes: nodes, Bytes: dirs * leaves * 11, Ephemerals: 1}, p)
	assert.Greater(t, heard, 100)

	began = time.Now()
	count := 0
	for n, err := range tree.Walk(c).ForPath(ctx, "/big") {
		require.NoError(t, err)
		if want := "hello world"; strings.Count(n.Path, "/") == 3 && n.Stat.EphemeralOwner == 0 &&
			string(n.Data) != want {
			require.Equal(t, want, string(n.Data), n.Path)
		}
		count++
	}
	kit.Figure(t, "walk over %d nodes with their data: %v", count, time.Since(began).Round(time.Millisecond))
	assert.Equal(t, nodes+1, count)

	// The dump equals the restored one, line by line except for the order, the versions and the times.
	lines := strings.Split(out.String(), "\n")
	assert.Len(t, lines, nodes+4, "header, nodes, the one skipped, end, nothing")
	assert.Contains(t, lines[2], `"acl":[`+anyone+","+local+"]")
	seen := map[string]bool{}
	for _, line := range lines {
		if path, rest, ok := strings.Cut(strings.TrimPrefix(line, `{"node":{"path":"`), `"`); ok &&
			strings.HasPrefix(rest, `,"data":"aGVsbG8gd29ybGQ="`) {
			seen[path] = true
		}
	}
	assert.Len(t, seen, dirs*leaves)

	began = time.Now()
	require.NoError(t, tree.Delete(ctx, c, "/big"))
	kit.Figure(t, "recursive delete of %d nodes: %v", nodes+1, time.Since(began).Round(time.Millisecond))
	stat, err := c.CheckExists().ForPath(ctx, "/big")
	require.NoError(t, err)
	assert.Nil(t, stat)
}

// Dumps of containers, of TTL nodes, and of ACLs that a client without ADMIN may not see.
func TestDumpOfSpecialNodes(t *testing.T) {
	t.Parallel()
	node, c := serve(t, zkserver.Options{ExtendedTypes: true},
		framework.WithAuth("digest", []byte("ops:secret")))
	ctx := kit.Context(t)
	create(t, c, "/r/a", "a")
	for mode, name := range map[framework.CreateMode]string{framework.Container: "c",
		framework.PersistentTTL: "t", framework.Ephemeral: "e"} {
		b := c.Create().WithMode(mode)
		if mode == framework.PersistentTTL {
			b = b.WithTTL(time.Hour)
		}
		var stat framework.Stat
		_, err := b.StoringStatIn(&stat).ForPath(ctx, "/r/"+name, []byte("x"))
		require.NoError(t, err)
		t.Logf("%v: owner %#x", mode, stat.EphemeralOwner)
	}
	_, err := c.Create().WithACL(framework.DigestACL(framework.PermAll, "ops", "secret"),
		framework.ReadACL()[0]).
		ForPath(ctx, "/r/secret", nil)
	require.NoError(t, err)
	var out bytes.Buffer
	p, err := tree.Dump(c).ForPath(ctx, "/r", &out)
	require.NoError(t, err)
	assert.Equal(t, tree.Progress{Nodes: 5, Bytes: 3, Ephemerals: 1}, p,
		"containers and TTL nodes are not ephemeral")
	assert.Contains(t, out.String(), framework.DigestACL(framework.PermAll, "ops", "secret").ID)

	other, _ := kit.Connected(t, node.ConnectString(), framework.WithSessionTimeout(calm))
	_, err = tree.Dump(other).ForPath(ctx, "/r", &bytes.Buffer{})
	assert.ErrorIs(t, err, framework.ErrNoAuth, "the server hides the digest, or the ACL")
	assert.ErrorContains(t, err, "/r/secret")
	_, err = tree.Dump(other).WithoutACL().ForPath(ctx, "/r", &bytes.Buffer{})
	assert.NoError(t, err)

	// The root without the server's own nodes, restored to its place.
	out.Reset()
	_, err = tree.Dump(c).ForPath(ctx, "/", &out)
	require.NoError(t, err)
	assert.NotContains(t, out.String(), "zookeeper")
	p, err = tree.Restore(c).ForPath(ctx, "/", &out)
	require.NoError(t, err)
	assert.Equal(t, p.Nodes, p.Existing)
}
