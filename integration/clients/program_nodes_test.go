package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
)

// shellProgram is the built program curator, and the environment in which it runs.
type shellProgram struct {
	*testing.T
	file string
	env  []string
}

func buildShellProgram(t *testing.T, servers string) shellProgram {
	file := filepath.Join(t.TempDir(), "curator")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../cmd", "-o", file, "./curator")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return shellProgram{t, file, append(os.Environ(), "CURATOR_SERVERS="+servers)}
}

// runs runs the program. input is its standard input.
func (p shellProgram) runs(input string, args ...string) (code int, out, complaint string) {
	p.Helper()
	cmd := exec.CommandContext(kit.Context(p), p.file, args...)
	cmd.Env = p.env
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(p, err, &exit, "%q", args)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// ok runs it to a good end.
func (p shellProgram) ok(args ...string) string {
	p.Helper()
	code, out, complaint := p.runs("", args...)
	require.Zero(p, code, "%q: %s%s", args, out, complaint)
	return out
}

// refused runs it to an end with status 1.
func (p shellProgram) refused(says string, args ...string) {
	p.Helper()
	code, out, complaint := p.runs("", args...)
	assert.Equal(p, 1, code, "%q: %s%s", args, out, complaint)
	assert.Contains(p, complaint, says, "%q", args)
}

func TestProgramOnAServer(t *testing.T) {
	t.Parallel()
	node := zkserver.Start(t, zkserver.Options{TickTime: tick, ExtendedTypes: true,
		Config: []string{"4lw.commands.whitelist=ruok,mntr,conf,cons,srvr,stat"}})
	p := buildShellProgram(t, node.ConnectString())

	assert.Equal(t, "/app/config\n", p.ok("create", "/app/config", `{"a":1}`, "--parents"))
	assert.Equal(t, `{"a":1}`, p.ok("get", "/app/config"))
	assert.Equal(t, "version 1\n", p.ok("set", "/app/config", "\xff\x1b", "--version", "0"))
	assert.Equal(t, "\xff\x1b", p.ok("get", "/app/config"))
	assert.Equal(t, "\\xff\\x1b\n", p.ok("get", "/app/config", "--as", "text"))
	p.refused("stat PATH", "set", "/app/config", "x", "--version", "0")
	p.refused("does not exist", "stat", "/none")
	assert.Equal(t, "/app/n-0000000001\n", p.ok("create", "/app/n-", "--sequential"))
	p.ok("create", "/app/ttl", "--ttl", "1h")
	p.ok("create", "/app/container", "--container")
	assert.Equal(t, "config\ncontainer\nn-0000000001\nttl\n", p.ok("ls", "/app"))
	assert.Contains(t, p.ok("tree", "/app"), "  config  2 bytes\n")

	code, out, complaint := p.runs("create /mine x --ephemeral\nstat /mine\n", "shell")
	assert.Zero(t, code, complaint)
	assert.Contains(t, out, "ephemeral")
	p.refused("does not exist", "stat", "/mine")

	dump := p.ok("dump", "/app")
	code, out, complaint = p.runs(dump, "restore", "/copy", "--dry-run")
	assert.Zero(t, code, complaint)
	assert.Equal(t, 5, strings.Count(out, "create "), out)
	p.refused("does not exist", "stat", "/copy")
	code, _, complaint = p.runs(dump, "restore", "/copy")
	assert.Zero(t, code, complaint)
	assert.Equal(t, "\xff\x1b", p.ok("get", "/copy/config"))
	p.ok("rm", "/copy", "--recursive", "--yes")

	t.Run("acl", func(t *testing.T) {
		p := p
		p.T = t
		assert.Equal(t, "world:anyone:cdrwa\n", p.ok("acl", "get", "/app"))
		alice := p
		alice.env = append(alice.env, "CURATOR_DIGEST=alice:secret")
		assert.Equal(t, "version 1\n", alice.ok("acl", "set", "/app", "auth::cdrwa", "world:anyone:r"))
		entry := framework.DigestACL(framework.PermAll, "alice", "secret").ID
		assert.Equal(t, "digest:"+entry+":cdrwa\nworld:anyone:r\n", alice.ok("acl", "get", "/app"))
		p.refused("CURATOR_DIGEST", "set", "/app", "x")
		alice.ok("set", "/app", "x", "--version", "0")
		p.refused("--digest-file", "acl", "set", "/app/config", "auth::r")
	})

	t.Run("4lw", func(t *testing.T) {
		p := p
		p.T = t
		assert.Equal(t, "imok\n", p.ok("4lw", "ruok"))
		assert.Contains(t, p.ok("4lw", "stat"), "Mode: standalone")
		assert.Contains(t, p.ok("4lw", "cons"), "127.0.0.1")
		for word, key := range map[string]string{"mntr": "zk_server_state", "conf": "tickTime"} {
			var answers []struct{ Values map[string]string }
			require.NoError(t, json.Unmarshal([]byte(p.ok("4lw", word, "--output", "json")), &answers))
			require.Len(t, answers, 1)
			assert.NotEmpty(t, answers[0].Values[key], word)
		}
		p.refused("4lw.commands.whitelist", "4lw", "wchs")
	})

	assert.Contains(t, p.ok("ping"), "sync, by the leader")
	assert.Contains(t, p.ok("config"), "standalone")
	p.refused("reconfigEnabled=true", "reconfig", "--remove", "4")
}

// A member leaves and comes back, by the hand of the super user.
func TestProgramReconfiguresAnEnsemble(t *testing.T) {
	super := framework.DigestACL(framework.PermAll, "super", "secret").ID
	e := zkserver.StartEnsemble(t, 3, zkserver.Options{Config: []string{"reconfigEnabled=true"},
		JVMFlags: []string{"-Dzookeeper.DigestAuthenticationProvider.superDigest=" + super}})
	ctx := kit.Context(t)
	leader, err := e.Leader(ctx)
	require.NoError(t, err)
	leaver := (leader + 1) % 3
	p := buildShellProgram(t, e.Addr(leader))
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
	before := parsed(p.ok("config", "-o", "json"))
	require.Len(t, before.Members, 3)
	id := fmt.Sprint(leaver + 1)
	p.refused("super user", "reconfig", "--remove", id)

	p.env = append(p.env, "CURATOR_DIGEST=super:secret")
	p.refused("\"config\" prints the version now", "reconfig", "--remove", id, "--from-version", "7")
	less := parsed(p.ok("reconfig", "--remove", id, "-o", "json"))
	require.Len(t, less.Members, 2)
	assert.Greater(t, less.Version, before.Version)
	again := parsed(p.ok("reconfig", "--add", "server."+id+"="+before.Members[leaver].Spec, "-o", "json"))
	require.Len(t, again.Members, 3)
	assert.Equal(t, before.Members[leaver].Spec, again.Members[leaver].Spec)
	assert.Contains(t, p.ok("config"), "participant")
	servers := []string{"4lw", "srvr"}
	for i := range 3 {
		servers = append(servers, "--server", e.Addr(i))
	}
	assert.Equal(t, 1, strings.Count(p.ok(servers...), "Mode: leader"))
}
