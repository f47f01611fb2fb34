package framework

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

func TestParseEnsembleConfig(t *testing.T) {
	c := parseEnsembleConfig([]byte("server.3=zk3:2888:3888:observer;0.0.0.0:2181\n" +
		"server.1=ZK1:2888:3888:participant;2181\r\n" +
		"server.2=zk2:2888:3888;client2:2182\n" +
		"server.4=[::1]:2888:3888:participant;[2001:db8::4]:2181\n" +
		"server.5=[2001:db8::5]:2888:3888:participant;[::]:2181\n" +
		"server.6=a:2888:3888|b:2889:3889:OBSERVER;2181\n" +
		"server.7=zk7:2888:3888:participant\n" +
		"group.1=1:2:3\nweight.1=1\nserver.x=foo\nserver.9\nnonsense\n= \nserver.8=\nserver.10=h:1:2;99999\n" +
		"version=1000000a0"))
	assert.Equal(t, int64(0x1000000a0), c.Version)
	type short struct {
		id           int64
		host, client string
		observer     bool
	}
	var got []short
	for _, m := range c.Members {
		got = append(got, short{m.ID, m.Host, m.ClientAddress, m.Observer})
	}
	assert.Equal(t, []short{
		{1, "ZK1", "zk1:2181", false}, {2, "zk2", "client2:2182", false}, {3, "zk3", "zk3:2181", true},
		{4, "::1", "[2001:db8::4]:2181", false},
		{5, "2001:db8::5", "[2001:db8::5]:2181", false}, {6, "a", "a:2181", true}, {7, "zk7", "", false},
		{8, "", "", false}, {10, "h", "", false},
	}, got)
	assert.Equal(t, "zk2:2888:3888;client2:2182", c.Members[1].Spec)
	assert.Equal(t, []string{"[2001:db8::4]:2181", "[2001:db8::5]:2181", "a:2181", "client2:2182", "zk1:2181",
		"zk3:2181"}, c.ClientAddresses())
	assert.Empty(t, parseEnsembleConfig(nil).Members)
	assert.Empty(t, parseEnsembleConfig(nil).ClientAddresses())
}

// The addresses taken from a configuration can be connected to, and are parsed to the same addresses when they are written
// again.
func FuzzConfigOfAnEnsemble(f *testing.F) {
	for _, s := range []string{ensemble, "server.1=[::;[:1",
		"server.1=[::1]:1:2|b:1:2:observer;[2001:db8::4]:2181\nversion=5", "server.1=a:1:2;[fe80::1%\x1b]:1",
		"server.-9223372036854775808=a\u202e:1:2;1\nserver.9223372036854775807=b:1:2;::ffff:0.0.0.0:99999\r\n",
		"server.1=" + strings.Repeat("a.", 200) + ":1:2;0", "server.0=[::0]:1:2;:010"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := parseEnsembleConfig(data)
		require.LessOrEqual(t, len(c.Members), maxMembers)
		require.True(t, slices.IsSortedFunc(c.Members, func(a, b EnsembleMember) int {
			return cmp.Compare(a.ID, b.ID)
		}))
		if err := c.Validate(); err != nil {
			require.ErrorIs(t, err, ErrInvalidEnsembleConfig)
			require.Less(t, len(err.Error()), 1000)
			require.False(t, strings.ContainsFunc(err.Error(), isUnprintable), "%q", err)
		}
		var again strings.Builder
		for i, addr := range c.ClientAddresses() {
			require.Less(t, len(addr), maxHostLength+10)
			server, why := parseServerEntry(addr)
			require.Empty(t, why, "%q", addr)
			require.Equal(t, addr, server)
			host, _, err := net.SplitHostPort(addr)
			require.NoError(t, err)
			name, ok := parseHostName(host)
			require.True(t, ok)
			require.Equal(t, host, name)
			fmt.Fprintf(&again, "server.%d=m:1:2:participant;%s\n", i, addr)
		}
		same := parseEnsembleConfig([]byte(again.String()))
		require.NoError(t, same.Validate())
		require.Equal(t, c.ClientAddresses(), same.ClientAddresses())
	})
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for in, says := range map[string]string{
		"server.1=a:1:2;0": `member 1: "0" is not a port`, "server.10=h:1:2;99999": "is not a port",
		"server.1=a:1:2;b c:1":          `"b c" is not a host`,
		"server.1=a:1:2;[::1%25eth0]:1": "is not a host", "server.1=a:1:2;[b]:1": "is not an address",
		"server.1=a\x1b:1:2;1": `"a\x1b" is not a host`,
		"server.1=" + strings.Repeat("x", maxLabel+1) + ":1:2;1": "is not a host",
		"server.1=0.0.0.0:1:2;1":                                 `"0.0.0.0" is a wildcard, not an address to connect to`,
		"server.1=0.0.0.0:1:2;[::ffff:0.0.0.0]:1":                `"0.0.0.0" is a wildcard, not an address to connect to`,
		"server.1=[::]:1:2;[::0]:1":                              `"::" is a wildcard, not an address to connect to`,
		"server.1=:1:2;1":                                        `"" is not a host`, "server.1=a:1:2;" + strings.Repeat("x.", 130) +
			"y:1": "is not a host", strings.Repeat("x", maxConfig+1): "bytes",
		strings.Repeat("server.1=a:1:2\n", maxMembers+1): "more than 1000 members",
	} {
		err := parseEnsembleConfig([]byte(in)).Validate()
		assert.ErrorIs(t, err, ErrInvalidEnsembleConfig)
		assert.ErrorContains(t, err, says)
		assert.Less(t, len(err.Error()), 300)
	}
	label := strings.Repeat("x", maxLabel)
	for _, in := range []string{"", ensemble, "server.1=a:1:2", "server.8=", "server.1=AZ09az:1:2;1",
		"server.1=a:1:2;:1", "server.1=a:1:2;" + label + ":1", strings.Repeat("x", maxConfig),
		"server.1=a:1:2;" + strings.Join([]string{label, label, label, label[2:]}, ".") + ":1", "server.1=a:1:2;[::]:1",
		"server.1=a_b.c.:1:2;1", "server.1=a:1:2;0:0:0:0:0:0:0:0:2181",
		strings.Repeat("server.1=a:1:2\n", maxMembers)} {
		assert.NoError(t, parseEnsembleConfig([]byte(in)).Validate(), in)
	}
	extremes := parseEnsembleConfig([]byte("server.9223372036854775807=a\n" +
		"server.-9223372036854775808=b\nserver.0=c"))
	assert.Equal(t, []string{"b", "c", "a"}, []string{extremes.Members[0].Host, extremes.Members[1].Host,
		extremes.Members[2].Host})
}

func TestGetConfig(t *testing.T) {
	bubbleOf(t, zktest.Config{EnsembleConfig: ensemble}, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		config, err := c.UsingNamespace("team").GetConfig(ctx)
		require.NoError(t, err)
		assert.Equal(t, int64(0x100000000), config.Version)
		assert.Equal(t, []string{"a:2181", "b:2181"}, config.ClientAddresses())
		assert.Equal(t, ensemble, string(config.Data))

		_, watch, err := c.UsingNamespace("team").WatchConfig(ctx)
		require.NoError(t, err)
		require.NoError(t, srv.Set("/zookeeper/config", []byte("version=5")))
		assert.Equal(t, Event{Type: EventNodeDataChanged, Path: "/zookeeper/config"}, <-watch.C)
		config, err = c.GetConfig(ctx)
		require.NoError(t, err)
		assert.Equal(t, int64(5), config.Version)
	})
}

// The server distinguishes the two forms by null strings; an empty string is not null.
func TestReconfigOnTheWire(t *testing.T) {
	c := &Client{core: &clientCore{}}
	frame := func(r reconfigRequest) string {
		op := c.reconfigure(&r)
		require.NoError(t, op.argumentError)
		return hex.EncodeToString(op.newRequest(nil).Body)
	}
	const null, any = "ffffffff", "ffffffffffffffff"
	assert.Equal(t, "00000015"+hex.EncodeToString([]byte("server.1=a,server.2=b"))+"00000003"+
		hex.EncodeToString([]byte("3,4"))+null+any,
		frame(reconfigRequest{joining: []string{"server.1=a", "server.2=b"}, leaving: []string{"3", "4"}, version: -1}))
	assert.Equal(t, null+null+"00000015"+hex.EncodeToString([]byte("server.1=a\nserver.2=b"))+"0000000000000007",
		frame(reconfigRequest{members: []string{"server.1=a", "server.2=b"}, version: 7}))
	assert.ErrorIs(t, c.reconfigure(&reconfigRequest{version: -1}).argumentError, ErrBadArguments)

	leaves := &reconfigRequest{leaving: []string{"2"}}
	r, err := c.reconfigure(leaves).decodeReply(0, jute.Marshal(&jute.GetDataResponse{Data: []byte(ensemble)}))
	require.NoError(t, err)
	assert.Len(t, r.config.Members, 2)
	_, err = c.reconfigure(leaves).decodeReply(0, []byte{1})
	assert.ErrorIs(t, err, ErrMalformedReply)
}
