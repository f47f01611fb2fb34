package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestParseState(t *testing.T) {
	var s Server
	s.parseState("Zookeeper version: 3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12 22:16 UTC\n" +
		"Latency min/avg/max: 0/0.5/12\nReceived: 10\nSent: 9\nConnections: 2\nOutstanding: 7\n" +
		"Zxid: 0x100000002\nMode: follower\nNode count: 6\n")
	assert.Equal(t, Server{Mode: "follower", Version: "3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c",
		Average: 500 * time.Microsecond, Most: 12 * time.Millisecond, Clients: 2, Outstanding: 7, Zxid: 0x100000002}, s)
	for _, nonsense := range []string{"", "Mode", "Latency min/avg/max: 1/NaN/-3\nConnections: -1", "\x00\xff: "} {
		s = Server{}
		s.parseState(nonsense)
		assert.Zero(t, s, "%q", nonsense)
	}
}

func TestParseConfig(t *testing.T) {
	assert.Equal(t, &ServerConfig{TickTime: 2 * time.Second, MinSessionTimeout: 4 * time.Second,
		MaxSessionTimeout: 40 * time.Second, InitLimit: 10, SyncLimit: 5, MaxClientConnections: 60},
		parseConfig("clientPort=2181\nsecureClientPort=-1\ndataDir=/data/version-2\ntickTime=2000\n"+
			"maxClientCnxns=60\nminSessionTimeout=4000\nmaxSessionTimeout=40000\nclientPortListenBacklog=-1\n"+
			"serverId=1\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\nmembership: \nserver.1=zk1:2888:3888:participant\n"))
	assert.Nil(t, parseConfig("nothing of the kind"))
	assert.Nil(t, parseConfig("tickTime=1e300\n"))
}

func TestParseConnections(t *testing.T) {
	got := parseConnections("zk1:2181",
		" /10.0.0.7:41234[1](queued=0,recved=5,sent=5,sid=0x100000a5d450000,lop=PING,est=1700000000000,to=30000,"+
			"lcxid=0x1,lzxid=0xffffffffffffffff,lresp=90000,llat=0,minlat=0,avglat=0,maxlat=1)\n"+
			" /[0:0:0:0:0:0:0:1]:41235[1](queued=0,recved=5,sent=5,sid=0xa00000a5d450001,lop=PING,est=1700000000000,"+
			"to=30000,lcxid=0x1,lzxid=0x2,lresp=72500,llat=0,minlat=0,avglat=0,maxlat=1)\n"+
			" /10.0.0.9:1[0](queued=0,recved=1,sent=0)\n\nrubbish\n[](\n")
	assert.Equal(t, Connection{Server: "zk1:2181", Client: "10.0.0.7:41234", Session: 0x100000a5d450000,
		Timeout: 30 * time.Second}, got[0])
	assert.Equal(t, int64(0xa00000a5d450001), got[len(got)-1].Session)
	assert.Equal(t, 17500*time.Millisecond, got[len(got)-1].Silent)
	assert.Equal(t, "[0:0:0:0:0:0:0:1]:41235", got[len(got)-1].Client)
	assert.Len(t, got, 2)
	assert.Equal(t, int64(-1), parseConnections("s", " /a:1[1](sid=0xffffffffffffffff)")[0].Session)
}

// A session in the lists of two servers has moved to the server that has received its latest request.
func TestConnectedTo(t *testing.T) {
	at := func(server string, session int64, silent time.Duration) Connection {
		return Connection{Server: server, Session: session, Silent: silent}
	}
	c := ConnectedTo([]Server{
		{Listed: true, Connections: []Connection{at("a", 1, time.Second), at("a", 2, 0)}},
		{Listed: true, Connections: []Connection{at("b", 1, 0), at("b", 2, time.Second)}},
	})
	assert.Equal(t, map[int64]Connection{1: at("b", 1, 0), 2: at("a", 2, 0)}, c.By)
	assert.Empty(t, c.Missing)
	assert.Equal(t, "1 of 2 servers do not list the connections (4lw.commands.whitelist needs cons)",
		ConnectedTo([]Server{{Listed: true}, {}}).Missing)
}

func FuzzWhatAServerSays(f *testing.F) {
	f.Add(" /10.0.0.7:41234[1](queued=0,sid=0x1,to=30000,lresp=9)\n")
	f.Add("Latency min/avg/max: 0/0.5/12\nMode: leader\n")
	f.Add("tickTime=2000\nsyncLimit=5\n")
	f.Fuzz(func(t *testing.T, text string) {
		var s Server
		s.parseState(text)
		for _, c := range parseConnections("s", text) {
			if c.Session == 0 || c.Silent < 0 || c.Timeout < 0 {
				t.Fatalf("%+v", c)
			}
		}
		if c := parseConfig(text); c != nil && (c.TickTime <= 0 || c.SyncLimit < 0 || c.MaxClientConnections < 0) {
			t.Fatalf("%+v", c)
		}
		if s.Clients < 0 || s.Average < 0 || s.Most < 0 {
			t.Fatalf("%+v", s)
		}
	})
}
