package framework

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

func TestParseConnectString(t *testing.T) {
	for _, tt := range []struct {
		in, servers, chroot string
	}{
		{"zk", "zk:2181", ""},
		{"zk1:2181,zk2:2182", "zk1:2181 zk2:2182", ""},
		{" zk1 , zk2:99 /app/x ", "zk1:2181 zk2:99", "/app/x"},
		{"zk/", "zk:2181", ""},
		{"zk/app/", "zk:2181", "/app"},
		{strings.Repeat("z", maxHostLength), strings.Repeat("z", maxHostLength) + ":2181", ""},
		{"ZK.Example.ORG", "zk.example.org:2181", ""},
		{"10.0.0.1:1", "10.0.0.1:1", ""},
		{"[::1]", "[::1]:2181", ""},
		{"[2001:db8::1]:65535,10.0.0.1/a", "[2001:db8::1]:65535 10.0.0.1:2181", "/a"},
		{"zk:02181", "zk:2181", ""},
		{"zk,a:99,ZK:2181,zk/app", "zk:2181 a:99", "/app"},                                  // listed more than once
		{"[FE80::1%Eth0],[2001:DB8:0:0::7]:99", "[fe80::1%Eth0]:2181 [2001:db8::7]:99", ""}, // a zone is a name with case
	} {
		servers, chroot, err := parseConnectString(tt.in)
		require.NoError(t, err, tt.in)
		assert.Equal(t, tt.servers, strings.Join(servers, " "), tt.in)
		assert.Equal(t, tt.chroot, chroot, tt.in)
	}
}

func TestParseConnectStringSaysWhatToWrite(t *testing.T) {
	for in, hint := range map[string]string{
		"":                 `write "host:2181"`,
		"  ":               `write "host:2181"`,
		"/app":             "server 1 is empty",
		",zk":              "server 1 is empty",
		"zk,":              "server 2 is empty",
		"zk1,,zk2":         "server 2 is empty",
		"zk:0":             "1 to 65535",
		"zk:65536":         "1 to 65535",
		"zk:port":          "1 to 65535",
		"zk:-1":            "1 to 65535",
		"zk:+2181":         "1 to 65535",
		"zk:":              "1 to 65535",
		":2181":            "host is missing",
		"::1":              "brackets",
		"::1:2181":         "brackets",
		"[::1":             `"]" is missing`,
		"[::1]2181":        "only a port",
		"[10.0.0.1]":       "no IPv6 address",
		"[]":               "no IPv6 address",
		"zookeeper://zk":   "not a URL",
		"]zk":              "cannot contain ']'",
		"zk1 zk2":          "servers are not separated by commas",
		"h1:2181 h2:2181":  `servers are not separated by commas; write "h1:2181,h2:2181"`,
		"h1:2181;h2:2181":  `servers are not separated by commas; write "h1:2181,h2:2181"`,
		"zk :2181":         "a host name cannot contain ' '",
		"zk1;zk2":          "servers are not separated by commas",
		"user@zk":          "cannot contain '@'",
		"zk1/a,zk2/a":      "after the last server",
		"zk1/a,zk2":        "after the last server",
		"zk/a//b":          "empty name",
		"zk/a//":           "must not end",
		"zk//":             "must not end",
		"zk/a /":           "ends with a space",
		"zk/ /":            "ends with a space",
		"zk/../b":          "reserved",
		"zk/a\x00b":        "does not allow",
		"zk\t2181/a":       "servers are not separated by commas",
		"zk1:2181:2181,zk": "brackets",
	} {
		_, _, err := parseConnectString(in)
		require.ErrorIs(t, err, ErrInvalidConnectString, "%q", in)
		assert.ErrorContains(t, err, hint, "%q", in)
	}
}

func FuzzParseConnectString(f *testing.F) {
	for _, s := range []string{"zk", "h1:1,h2/chroot", "[::1]:2181/a", "::1", "[", "/", ",", "a:b", "[%]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		servers, chroot, err := parseConnectString(in)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalidConnectString)
			return
		}
		require.NotEmpty(t, servers)
		// The parsed list, written again, is parsed to the same list.
		again, root, err := parseConnectString(strings.Join(servers, ",") + chroot)
		require.NoError(t, err, "%q", in)
		require.Equal(t, servers, again)
		require.Equal(t, chroot, root)
	})
}

// The text in front of an "@" may be a password: no error contains it.
func TestConnectStringsRepeatNoPassword(t *testing.T) {
	for _, in := range []string{"user:hush@zk", "user:hush@zk1,zk2:2181/app", "zk1,user:hush@zk2",
		"user:pa/hush@zk", "hush@zk:2181", "zookeeper://user:hush@zk/app", "user:hush://x@zk",
		"u:1 hush,2@zk", "u:1 2,hush@zk", "hush:2181 b:2181,c@zk", " user:hush@zk", "user:hush@x@zk", "user:hush@",
		"user:hush@\xff", "hush://@", "zk/hush,@", strings.Repeat("hush", 100) + "@zk",
		"[hush]@zk", "user:hush@zk\x1b[2J"} {
		_, err := New(in)
		require.ErrorIs(t, err, ErrInvalidConnectString, in)
		assert.NotContains(t, err.Error(), "hush", in)
		assert.NotContains(t, err.Error(), "\x1b[", in)
		assert.ErrorContains(t, err, "WithAuth")
	}
	_, chroot, err := parseConnectString("zk/app@1")
	assert.NoError(t, err)
	assert.Equal(t, "/app@1", chroot)
	for _, odd := range []string{"zk\u009b2J", "zk\u202e", "[fe80::1%\x1b]"} {
		_, err := New(odd)
		assert.ErrorIs(t, err, ErrInvalidConnectString)
	}
}

func TestAServerListedTwiceIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.RunT(t)
		var logged bytes.Buffer
		c := dial(t, srv, WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
		require.NoError(t, c.SetServers("zk1,zk2"))
		synctest.Wait()
		require.NotContains(t, logged.String(), "more than once")
		require.NoError(t, c.SetServers("zk1,zk2,ZK1"))
		synctest.Wait()
		require.Contains(t, logged.String(), "more than once")
		require.Contains(t, logged.String(), "list=zk1:2181,zk2:2181")
	})
}
