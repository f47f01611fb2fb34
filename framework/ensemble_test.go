package framework

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/retry"
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
		{1, "ZK1", "zk1:2181", false}, {2, "zk2", "client2:2182", false}, {3, "zk3", "zk3:2181", true}, {4, "::1", "[2001:db8::4]:2181", false},
		{5, "2001:db8::5", "[2001:db8::5]:2181", false}, {6, "a", "a:2181", true}, {7, "zk7", "", false}, {8, "", "", false}, {10, "h", "", false},
	}, got)
	assert.Equal(t, "zk2:2888:3888;client2:2182", c.Members[1].Spec)
	assert.Equal(t, []string{"[2001:db8::4]:2181", "[2001:db8::5]:2181", "a:2181", "client2:2182", "zk1:2181", "zk3:2181"}, c.ClientAddresses())
	assert.Empty(t, parseEnsembleConfig(nil).Members)
	assert.Empty(t, parseEnsembleConfig(nil).ClientAddresses())
}

func FuzzParseEnsembleConfig(f *testing.F) {
	f.Add([]byte(ensemble))
	f.Add([]byte("server.1=[::;[:1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, a := range parseEnsembleConfig(data).ClientAddresses() {
			assert.NotEmpty(t, a)
		}
	})
}

func TestGetConfig(t *testing.T) {
	bubbleOf(t, zktest.Config{EnsembleConfig: ensemble}, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		var stat Stat
		config, err := c.UsingNamespace("team").GetConfig().StoringStatIn(&stat).ForEnsemble(ctx)
		require.NoError(t, err)
		assert.Equal(t, int64(0x100000000), config.Version)
		assert.Equal(t, []string{"a:2181", "b:2181"}, config.ClientAddresses())
		assert.Equal(t, ensemble, string(config.Data))
		assert.Equal(t, int32(len(ensemble)), stat.DataLength)

		_, watch, err := c.UsingNamespace("team").GetConfig().WithWatch().ForEnsemble(ctx)
		require.NoError(t, err)
		require.NoError(t, srv.Set("/zookeeper/config", []byte("version=5")))
		assert.Equal(t, Event{Type: EventNodeDataChanged, Path: "/zookeeper/config"}, <-watch.C)
		r, err := c.GetConfig().InBackground().ForEnsemble(ctx).Wait(ctx)
		require.NoError(t, err)
		assert.Equal(t, int64(5), r.Config.Version)
	})
}

func TestReconfig(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server, c *Client) {
		ctx := t.Context()
		member := "server.4=h:2888:3888:participant;2181"
		_, err := c.Reconfig().Joining(member).ForEnsemble(ctx)
		assert.ErrorIs(t, err, ErrReconfigDisabled)
		assert.EqualError(t, err, "reconfig: reconfiguration is disabled")
		_, err = c.Reconfig().Leaving("4").InBackground().ForEnsemble(ctx).Wait(ctx)
		assert.ErrorIs(t, err, ErrReconfigDisabled)

		for _, bad := range []ReconfigBuilder{
			c.Reconfig(), c.Reconfig().FromConfig(3), c.Reconfig().Joining("h:2888:3888"), c.Reconfig().WithNewMembers("server.1="),
			c.Reconfig().Leaving("server.4"), c.Reconfig().Leaving(""), c.Reconfig().WithNewMembers(member).Joining(member),
			c.Reconfig().WithNewMembers(member).Leaving("1"), c.Reconfig().Joining(member + "," + member), c.Reconfig().WithNewMembers(member + "\n" + member),
		} {
			_, err := bad.ForEnsemble(ctx)
			assert.ErrorIs(t, err, ErrBadArguments)
		}
		for code, want := range map[zktest.Error]error{zktest.Error(jute.CodeReconfigInProgress): ErrReconfigInProgress,
			zktest.Error(jute.CodeNewConfigNoQuorum): ErrNewConfigNoQuorum, zktest.ErrBadVersion: ErrBadVersion} {
			srv.Inject(zktest.Fault{Op: "reconfig", Action: zktest.ReplyError, Err: code})
			_, err := c.Reconfig().Joining(member).FromConfig(7).ForEnsemble(ctx)
			assert.ErrorIs(t, err, want)
		}
		srv.ResetCounts()
		srv.Inject(zktest.Fault{Op: "reconfig", Action: zktest.LoseReply})
		_, err = c.Reconfig().Joining(member).ForEnsemble(ctx)
		assert.ErrorIs(t, err, ErrConnectionLoss)
		assert.Equal(t, 1, srv.Counts()["reconfig"], "not repeated: it could undo what others have done since")
		srv.Inject(zktest.Fault{Op: "reconfig", Action: zktest.ReplyError, Err: zktest.ErrUnimplemented})
		_, err = c.Reconfig().Joining(member).ForEnsemble(ctx)
		assert.ErrorIs(t, err, ErrUnimplemented, "as a standalone server that allows it says")
	}, WithRetry(retry.RetryNTimes{Retries: 2}))
}

// The server tells the two forms apart by null, which is not the empty string.
func TestReconfigOnTheWire(t *testing.T) {
	c := &Client{core: &core{}}
	frame := func(b ReconfigBuilder) string {
		op := b.operation()
		require.NoError(t, op.fault)
		return hex.EncodeToString(op.call(nil).Body)
	}
	const null, any = "ffffffff", "ffffffffffffffff"
	assert.Equal(t, "00000015"+hex.EncodeToString([]byte("server.1=a,server.2=b"))+"00000003"+hex.EncodeToString([]byte("3,4"))+null+any,
		frame(c.Reconfig().Joining("server.1=a").Joining("server.2=b").Leaving("3", "4")))
	assert.Equal(t, null+null+"00000015"+hex.EncodeToString([]byte("server.1=a\nserver.2=b"))+"0000000000000007",
		frame(c.Reconfig().WithNewMembers("server.1=a", "server.2=b").FromConfig(7)))

	r, err := c.Reconfig().Leaving("2").operation().read(nil, jute.Marshal(&jute.GetDataResponse{Data: []byte(ensemble), Stat: jute.Stat{Version: 3}}))
	require.NoError(t, err)
	assert.Len(t, r.Config.Members, 2)
	assert.Equal(t, int32(3), r.Stat.Version)
	_, err = c.Reconfig().Leaving("2").operation().read(nil, []byte{1})
	assert.ErrorIs(t, err, ErrMalformedReply)
}
