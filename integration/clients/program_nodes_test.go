package clients

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

func TestProgramOnAServer(t *testing.T) {
	t.Parallel()
	node := zkserver.Start(t, zkserver.Options{TickTime: tick, ExtendedTypes: true,
		Config: []string{"4lw.commands.whitelist=ruok,mntr,conf,cons,srvr,stat"}})
	p := kit.BuildProgram(t, node.ConnectString())

	assert.Equal(t, "/app/config\n", p.OK("create", "/app/config", `{"a":1}`, "--parents"))
	assert.Equal(t, `{"a":1}`, p.OK("get", "/app/config"))
	assert.Equal(t, "version 1\n", p.OK("set", "/app/config", "\xff\x1b", "--version", "0"))
	assert.Equal(t, "\xff\x1b", p.OK("get", "/app/config"))
	assert.Equal(t, "\\xff\\x1b\n", p.OK("get", "/app/config", "--as", "text"))
	p.Refused("stat PATH", "set", "/app/config", "x", "--version", "0")
	p.Refused("does not exist", "stat", "/none")
	assert.Equal(t, "/app/n-0000000001\n", p.OK("create", "/app/n-", "--sequential"))
	p.OK("create", "/app/ttl", "--ttl", "1h")
	p.OK("create", "/app/container", "--container")
	assert.Equal(t, "config\ncontainer\nn-0000000001\nttl\n", p.OK("ls", "/app"))
	assert.Contains(t, p.OK("tree", "/app"), "  config  2 bytes\n")

	code, out, complaint := p.Runs("create /mine x --ephemeral\nstat /mine\n", "shell")
	assert.Zero(t, code, complaint)
	assert.Contains(t, out, "ephemeral")
	p.Refused("does not exist", "stat", "/mine")

	dump := p.OK("dump", "/app")
	code, out, complaint = p.Runs(dump, "restore", "/copy", "--dry-run")
	assert.Zero(t, code, complaint)
	assert.Equal(t, 5, strings.Count(out, "create "), out)
	p.Refused("does not exist", "stat", "/copy")
	code, _, complaint = p.Runs(dump, "restore", "/copy")
	assert.Zero(t, code, complaint)
	assert.Equal(t, "\xff\x1b", p.OK("get", "/copy/config"))
	p.OK("rm", "/copy", "--recursive", "--yes")

	t.Run("acl", func(t *testing.T) {
		p := p.In(t)
		assert.Equal(t, "world:anyone:cdrwa\n", p.OK("acl", "get", "/app"))
		alice := p.With("CURATOR_DIGEST=alice:secret")
		assert.Equal(t, "version 1\n", alice.OK("acl", "set", "/app", "auth::cdrwa", "world:anyone:r"))
		entry := framework.DigestACL(framework.PermAll, "alice", "secret").ID
		assert.Equal(t, "digest:"+entry+":cdrwa\nworld:anyone:r\n", alice.OK("acl", "get", "/app"))
		p.Refused("CURATOR_DIGEST", "set", "/app", "x")
		alice.OK("set", "/app", "x", "--version", "0")
		p.Refused("--digest-file", "acl", "set", "/app/config", "auth::r")
	})

	t.Run("4lw", func(t *testing.T) {
		p := p.In(t)
		assert.Equal(t, "imok\n", p.OK("4lw", "ruok"))
		assert.Contains(t, p.OK("4lw", "stat"), "Mode: standalone")
		assert.Contains(t, p.OK("4lw", "cons"), "127.0.0.1")
		for word, key := range map[string]string{"mntr": "zk_server_state", "conf": "tickTime"} {
			var answers []struct{ Values map[string]string }
			require.NoError(t, json.Unmarshal([]byte(p.OK("4lw", word, "--output", "json")), &answers))
			require.Len(t, answers, 1)
			assert.NotEmpty(t, answers[0].Values[key], word)
		}
		p.Refused("4lw.commands.whitelist", "4lw", "wchs")
	})

	assert.Contains(t, p.OK("ping"), "sync, by the leader")
	assert.Contains(t, p.OK("config"), "standalone")
	p.Refused("reconfigEnabled=true", "reconfig", "--remove", "4")
}

// The super user removes a member and adds it again.
func TestProgramReconfiguresAnEnsemble(t *testing.T) {
	super := framework.DigestACL(framework.PermAll, "super", "secret").ID
	e := zkserver.StartEnsemble(t, 3, zkserver.Options{Config: []string{"reconfigEnabled=true"},
		JVMFlags: []string{"-Dzookeeper.DigestAuthenticationProvider.superDigest=" + super}})
	ctx := kit.Context(t)
	leader, err := e.Leader(ctx)
	require.NoError(t, err)
	leaver := (leader + 1) % 3
	p := kit.BuildProgram(t, e.Addr(leader))
	type config struct {
		Version int64
		Members []struct {
			ID         int64
			Role, Spec string
		}
	}
	parsed := func(out string) (c config) {
		require.NoError(t, json.Unmarshal([]byte(out), &c), out)
		return c
	}
	before := parsed(p.OK("config", "-o", "json"))
	require.Len(t, before.Members, 3)
	id := fmt.Sprint(leaver + 1)
	p.Refused("super user", "reconfig", "--remove", id)

	p = p.With("CURATOR_DIGEST=super:secret")
	p.Refused("\"config\" prints the version now", "reconfig", "--remove", id, "--from-version", "7")
	less := parsed(p.OK("reconfig", "--remove", id, "-o", "json"))
	require.Len(t, less.Members, 2)
	assert.Greater(t, less.Version, before.Version)
	again := parsed(p.OK("reconfig", "--add", "server."+id+"="+before.Members[leaver].Spec, "-o", "json"))
	require.Len(t, again.Members, 3)
	assert.Equal(t, before.Members[leaver].Spec, again.Members[leaver].Spec)
	assert.Contains(t, p.OK("config"), "participant")
	servers := []string{"4lw", "srvr"}
	for i := range 3 {
		servers = append(servers, "--server", e.Addr(i))
	}
	assert.Equal(t, 1, strings.Count(p.OK(servers...), "Mode: leader"))
}
