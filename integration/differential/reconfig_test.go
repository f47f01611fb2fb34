package differential

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/integration/cluster"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/zkserver"
	"github.com/go-curator/curator/integration/zktestcluster"
	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

// memberAt is a member of an ensemble, with only the parts that a client needs.
type memberAt struct {
	System
	addr string
}

func (m memberAt) Dial() (net.Conn, error) { return net.DialTimeout("tcp", m.addr, patience) }

const (
	configNode = "/zookeeper/config"
	null       = "null"
)

// step is a reconfiguration. In its lists, {1} to {3} are the lines of the original members: {3} is the leader's, {2}
// the line of the member that gets the request.
type step struct {
	joining, leaving, members string
	version                   int64
	nobody                    bool // the client is not the super user
}

// steps in their order.
var steps = []step{
	{null, "1", null, -1, true}, {null, "1", null, 1000, true}, {null, "1,2", null, -1, true},
	{null, null, null, -1, false}, {null, "", null, -1, false}, {"", null, null, -1, false}, {"", "", "", -1, false},
	{null, "x", null, -1, false}, {null, "77", null, -1, false}, {null, " 1 ,, 2", null, -1, false},
	{"server.9=nonsense", null, null, -1, false}, {"server.9", null, null, -1, false}, {"=x", null, null, -1, false},
	{"server.9=127.0.0.1:1:2", null, null, -1, false}, {"server.9=127.0.0.1:1:1;3", null, null, -1, false},
	{"server.9=127.0.0.1:1:2:boss;3", null, null, -1, false}, {"server.9=127.0.0.1:1:2;70000", null, null, -1, false},
	{"server.9=127.0.0.1:1:70000;7", null, null, -1, false}, {"server.9=127.0.0.1:1:-2;7", null, null, -1, false},
	{"server.x=127.0.0.1:1:2;3", null, null, -1, false}, {"server.9=127.0.0.1:a:2;3", null, null, -1, false},
	{"server.9=127.0.0.1:1:2;3;4", null, null, -1, false}, {"server.9=127.0.0.1:1:2;", null, null, -1, false},
	{"server.9=127.0.0.1:1:2;:", null, null, -1, false}, {"server.9=127.0.0.1:1:2;a:b", null, null, -1, false},
	{"server.9=127.0.0.1:1:2;a:b:3", null, null, -1, false}, {"server.9=127.0.0.1:1:2=x;3", null, null, -1, false},
	{"server.9=192.0.2.4:1:2|192.0.2.5:1:2;3", null, null, -1, false},
	{"server.9=[::1:1:2;3", null, null, -1, false}, {"server.9=[::1];3", null, null, -1, false},
	{"server.9=[::1]:;3", null, null, -1, false},
	{"server.9=[::1]:1:2;[::1]:3", null, null, -1, false}, {"9=127.0.0.1:1:2;3", null, null, -1, false},
	{" foo.9 = 127.0.0.1:1:2;3", null, null, -1, false}, {"server.9=127.0.0.1:1:2:OBSERVER;3", null, null, -1, false},
	{"server.9=192.0.2.77:1:2;3", null, null, -1, false}, {"server.8=192.0.2.77:1:4;5", null, null, -1, false},
	{"server.8=192.0.2.77:7:1;8", null, null, -1, false}, {"server.8=192.0.2.77:7:5;3", null, null, -1, false},
	{"server.10=127.0.0.1:1:2:observer;8,server.11=127.0.0.1:7:5;8,,", null, null, -1, false},
	{null, "8,9", null, -1, false},
	{null, null, "foo=bar", -1, false}, {null, null, "{1}\n{2}\n{3}\nfoo=bar", -1, false},
	{null, null, "{1}\n{2}\n{3}\nversion=7", -1, false}, {null, null, "{1}\n{2}\n{3}\nversion=x", -1, false},
	{null, null, "server.1=127.0.0.1:1:2:observer;3", -1, false}, {null, null, "{3}", -1, false},
	{null, null, "{3}\nserver.8=127.0.0.1:1:2:observer;3", -1, false},
	{null, null, "{3}\nserver.8=127.0.0.1:1:2;3", -1, false},
	{null, null, "{1},{2},{3},server.8=127.0.0.1:1:2", -1, false},
	{null, null, "{1}\n{2}\n{3}\nserver.x=127.0.0.1:1:2;3", -1, false},
	{null, null, "{1}\n{2}\n{3}\nserver.8=127.0.0.1", -1, false},
	{"x", "y", "# all\n\n{1}\n{2}\r\n{3}", -1, false},
	{null, "{id 1}", null, -1, false}, {null, "{id 1}", null, -1, false}, {"{1}", null, null, -1, false},
	{"{1}:observer", null, null, -1, false}, {"{1}", null, null, -1, false},
}

// reconfigured is an ensemble that gets reconfigurations, and the watchers of its configuration at each member.
type reconfigured struct {
	t        *testing.T
	addrs    []string // in the order of the names in a step
	ids      []int
	lines    []string
	watchers []*client
}

func reconfigurable(t *testing.T, e cluster.Cluster) *reconfigured {
	t.Helper()
	leader, err := e.Leader(kit.Context(t))
	require.NoError(t, err)
	r := &reconfigured{t: t}
	for i := range 3 {
		at := (leader + 1 + i) % 3
		r.addrs, r.ids = append(r.addrs, e.Addr(at)), append(r.ids, at+1)
		r.watchers = append(r.watchers, &client{})
	}
	r.watch()
	_, body, _ := r.call(r.watchers[0], jute.OpGetData, wire{}.str(configNode).byte(0))
	var data jute.GetDataResponse
	require.NoError(t, jute.Unmarshal(body, &data))
	all := strings.Split(string(data.Data), "\n")
	for _, id := range r.ids {
		r.lines = append(r.lines, all[id-1])
	}
	return r
}

// connect opens a session. A member that changes its role serves no client for a moment.
func (r *reconfigured) connect(member int) *client {
	r.t.Helper()
	c := &client{}
	kit.Soon(r.t, "a session", func() bool {
		_, err := c.start(memberAt{addr: r.addrs[member]})
		return err == nil
	})
	return c
}

// watch sets a watch at each member, with a new connection where the last one has ended.
func (r *reconfigured) watch() {
	r.t.Helper()
	for i, c := range r.watchers {
		if c.nc == nil {
			r.watchers[i] = r.connect(i)
			h, _, _ := r.call(r.watchers[i], jute.OpAddWatch, wire{}.str(configNode).int(0))
			require.Zero(r.t, h.Err)
		}
	}
}

// call sends a request and returns the reply, and the number of events before it. The code is ConnectionLoss if the
// connection has ended.
func (r *reconfigured) call(c *client, op int32, body wire) (h jute.ReplyHeader, answer []byte, events int) {
	r.t.Helper()
	c.xid++
	if c.nc == nil {
		return jute.ReplyHeader{Err: jute.CodeConnectionLoss}, nil, 0
	}
	require.NoError(r.t, c.write(jute.Frame(&jute.RequestHeader{Xid: xidOf(op, c.xid), Op: op}, raw(body))))
	for {
		frame, err := c.read()
		require.NoError(r.t, err)
		if frame == nil {
			return jute.ReplyHeader{Err: jute.CodeConnectionLoss}, nil, events
		}
		require.NoError(r.t, jute.Unmarshal(frame, &h))
		if h.Xid != jute.XidNotification {
			return h, frame[16:], events
		}
		events++
	}
}

// do executes a step and returns its result, without the parts that differ from ensemble to ensemble.
func (r *reconfigured) do(s step) string {
	r.t.Helper()
	r.watch()
	c := r.connect(1)
	defer c.drop()
	if !s.nobody {
		h, _, _ := r.call(c, jute.OpAuth, wire{}.int(0).str("digest").str(superUser))
		require.Zero(r.t, h.Err)
	}
	body := wire{}
	for _, list := range []string{s.joining, s.leaving, s.members} {
		for i, line := range r.lines {
			list = strings.ReplaceAll(list, fmt.Sprintf("{%d}:observer", i+1),
				strings.Replace(line, ":participant", ":observer", 1))
			list = strings.ReplaceAll(list, fmt.Sprintf("{%d}", i+1), line)
			list = strings.ReplaceAll(list, fmt.Sprintf("{id %d}", i+1), fmt.Sprint(r.ids[i]))
		}
		if list == null {
			body = body.null()
		} else {
			body = body.str(list)
		}
	}
	h, answer, _ := r.call(c, jute.OpReconfig, body.long(s.version))
	text := fmt.Sprintf("error %d", h.Err)
	if h.Err == 0 {
		text = r.describe(h.Zxid, answer)
	} else {
		assert.Empty(r.t, answer)
	}
	for i, w := range r.watchers {
		if h, _, events := r.call(w, jute.OpSync, wire{}.str("/")); h.Err == 0 {
			text += fmt.Sprintf("\n  %d events at member {%d}", events, i+1)
		} else {
			text += fmt.Sprintf("\n  the connection to member {%d} ends", i+1) // an event may be lost with it
		}
	}
	return text
}

func (r *reconfigured) describe(zxid int64, answer []byte) string {
	var data jute.GetDataResponse
	require.NoError(r.t, jute.Unmarshal(answer, &data))
	text := string(data.Data)
	for i, line := range r.lines {
		spec := line[strings.IndexByte(line, '=')+1:]
		for _, role := range []string{"participant", "observer"} {
			text = strings.ReplaceAll(text, line[:len(line)-len(spec)]+strings.Replace(spec, "participant", role, 1),
				fmt.Sprintf("{%d} %s", i+1, role))
		}
	}
	text = strings.ReplaceAll(text, fmt.Sprintf("version=%x", zxid), "the zxid as version")
	lines := strings.Split(text, "\n")
	slices.Sort(lines) // ids differ, as another member may lead
	text = strings.Join(lines, "\n")
	assert.InDelta(r.t, time.Now().UnixMilli(), data.Stat.Mtime, 60_000)
	data.Stat.Mtime, data.Stat.DataLength = 0, data.Stat.DataLength-int32(len(data.Data))
	data.Stat.Mzxid -= zxid
	return fmt.Sprintf("%s\n  %+v", text, data.Stat)
}

// Reconfigurations have the same results: errors, the choice among several errors, written data, clients that get an
// event, and connections that end.
func TestReconfigurationsGiveTheSame(t *testing.T) {
	super := "-Dzookeeper.DigestAuthenticationProvider.superDigest=" + digest(superUser)
	real := zkserver.StartEnsemble(t, 3, zkserver.Options{MaxSessionTimeout: maxTimeout,
		Config: []string{"reconfigEnabled=true"}, JVMFlags: []string{super}})
	inProcess := zktestcluster.Start(t, 3, zktest.Config{Reconfig: true, Profile: profileOf(t, real.Version()),
		MaxSessionTimeout: maxTimeout, SuperDigest: digest(superUser)})
	left, right := reconfigurable(t, real), reconfigurable(t, inProcess)
	done := 0
	for _, s := range steps {
		want := left.do(s)
		assert.Equal(t, want, right.do(s), "%q", s)
		if !strings.HasPrefix(want, "error") {
			done++
		}
	}
	kit.Figure(t, "%d reconfigurations, %d of them refused", len(steps), len(steps)-done)
	left.endLeader(real)
	right.endLeader(inProcess)
}

// endLeader removes the leader: all connections end, some immediately, and the removed member follows another leader.
func (r *reconfigured) endLeader(e cluster.Cluster) {
	r.t.Helper()
	r.do(step{leaving: "{id 3}", joining: null, members: null, version: -1})
	for i, w := range r.watchers {
		kit.Soon(r.t, fmt.Sprintf("the end of the connection to member {%d}", i+1), func() bool {
			h, _, _ := r.call(w, jute.OpSync, wire{}.str("/"))
			return h.Err != 0
		})
	}
	leader, err := e.Leader(kit.Context(r.t))
	require.NoError(r.t, err)
	assert.NotEqual(r.t, r.ids[2], leader+1)
	r.watch()
	_, body, _ := r.call(r.watchers[2], jute.OpGetData, wire{}.str(configNode).byte(0))
	var data jute.GetDataResponse
	require.NoError(r.t, jute.Unmarshal(body, &data))
	assert.NotContains(r.t, string(data.Data), r.lines[2])
	assert.Contains(r.t, string(data.Data), r.lines[0])
}
