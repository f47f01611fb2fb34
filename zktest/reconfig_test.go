package zktest

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/internal/jute"
)

// change is a reconfig request. A field with "" is sent as null.
type change struct {
	joining, leaving, members string
	version                   int64 // 0: any
}

func (r *change) Fields(c *jute.Coder) {
	for _, list := range []*string{&r.joining, &r.leaving, &r.members} {
		if null := int32(-1); *list == "" {
			c.Int(&null)
		} else {
			c.String(list)
		}
	}
	if r.version == 0 {
		r.version = -1
	}
	c.Long(&r.version)
}

func reconfigurable(profile Profile) Config {
	return Config{Reconfig: true, SuperDigest: digestUserID([]byte("super:secret")), Profile: profile}
}

// superRaw returns a session of the super user.
func superRaw(t testing.TB, s *Server) *raw {
	t.Helper()
	c := newRaw(t, s, 10*time.Second)
	require.Equal(t, ok, c.code(jute.OpAuth, &jute.AuthPacket{Scheme: "digest", Auth: []byte("super:secret")}))
	return c
}

// config returns the content of /zookeeper/config, with its version apart, and the node's Stat.
func (c *raw) config() (lines []string, version string, stat jute.Stat) {
	c.t.Helper()
	var res jute.GetDataResponse
	c.call(jute.OpGetData, at(configPath)).into(c.t, &res)
	lines = strings.Split(string(res.Data), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1], res.Stat
}

func TestReconfig(t *testing.T) {
	for _, profile := range Profiles() {
		bubble(t, 3, reconfigurable(profile), func(t *testing.T, e *Ensemble) {
			leaver, asked := e.Member(0), e.Member(1)
			nobody, super, there := newRaw(t, asked, 10*time.Second), superRaw(t, asked), newRaw(t, leaver, 10*time.Second)
			all, version, stat := nobody.config()
			require.Len(t, all, 3)
			assert.Equal(t, "version=100000000", version)
			assert.Equal(t, int32(-1), stat.Version)
			assert.Equal(t, int64(1)<<32, stat.Mzxid)
			nobody.call(jute.OpGetData, watch(configPath))

			assert.Equal(t, ErrNoAuth, nobody.code(jute.OpReconfig, &change{leaving: "1"}))
			assert.Equal(t, ErrBadVersion, nobody.code(jute.OpReconfig, &change{leaving: "1", version: 7}))
			assert.Equal(t, ErrBadArguments, nobody.code(jute.OpReconfig, &change{leaving: "1,2"}))
			assert.Empty(t, nobody.heard())

			var res jute.GetDataResponse
			r := super.call(jute.OpReconfig, &change{leaving: "1", version: 1 << 32})
			r.into(t, &res)
			less := fmt.Sprintf("%s\n%s\nversion=%x", all[1], all[2], r.Zxid)
			assert.Equal(t, less, string(res.Data))
			assert.Equal(t, int32(-1), res.Stat.Version)
			assert.Equal(t, r.Zxid, res.Stat.Mzxid)
			assert.Equal(t, []string{"NodeDataChanged " + configPath}, nobody.heard())
			settle(t, e)
			lines, _, _ := there.config()
			assert.Equal(t, all[1:], lines, "one that was removed follows, and serves its clients")
			there.create("/by-one-of-no-member", 0)
			assert.Contains(t, word(t, leaver, "srvr"), "Mode: follower")
			assert.Contains(t, word(t, leaver, "conf"), less)

			// The removed member does not count for the quorum.
			asked.Pause()
			time.Sleep(time.Minute)
			assert.Equal(t, -1, e.Leader())
			asked.Resume()
			settle(t, e)

			super = superRaw(t, asked)
			assert.Equal(t, ok, super.code(jute.OpReconfig, &change{joining: all[0]}))
			lines, _, _ = super.config()
			assert.Equal(t, all, lines)
			asked.Pause()
			time.Sleep(time.Minute)
			settled := e.Leader()
			assert.NotEqual(t, -1, settled, "it counts again")
			asked.Resume()
			settle(t, e)

			// An ACL permits other clients.
			super = superRaw(t, asked)
			assert.Equal(t, ok, super.code(jute.OpSetACL, &jute.SetACLRequest{Path: configPath, ACL: openACL, Version: -1}))
			assert.Equal(t, ok, newRaw(t, leaver, 10*time.Second).code(jute.OpReconfig,
				&change{members: strings.Join(all[1:], "\n")}))
		})
	}
}

func TestReconfigIsRefused(t *testing.T) {
	s := RunT(t, Config{Reconfig: true})
	assert.Equal(t, ErrUnimplemented, newRaw(t, s, time.Second).code(jute.OpReconfig, &change{leaving: "1"}),
		"one that stands alone")
	bubble(t, 3, Config{}, func(t *testing.T, e *Ensemble) {
		c := newRaw(t, e.Member(0), 10*time.Second)
		assert.Equal(t, ErrReconfigDisabled, c.code(jute.OpReconfig, &change{leaving: "1"}))
		_, version, _ := c.config()
		assert.Equal(t, "version=0", version)
	})
	bubble(t, 3, reconfigurable(V38), func(t *testing.T, e *Ensemble) {
		leader, followers := roles(e)
		c, slow := superRaw(t, followers[0]), superRaw(t, followers[0])
		e.SetPeerDelay(time.Second)
		slow.send(jute.OpReconfig, &change{leaving: "1"})
		time.Sleep(time.Millisecond)
		assert.Equal(t, ErrReconfigInProgress, c.code(jute.OpReconfig, &change{leaving: "1"}))
		e.SetPeerDelay(0)
		settle(t, e)
		lines, _, _ := superRaw(t, leader).config()
		assert.Len(t, lines, 2)
	})
	_, err := NewEnsemble(3, Config{Reconfig: true, EnsembleConfig: "version=0"})
	require.ErrorContains(t, err, "EnsembleConfig")
}

// A leader that is removed, or becomes an observer, ends its term: the client of the reconfig gets its reply, then all
// clients lose their connections.
func TestReconfigEndsALeader(t *testing.T) {
	for _, mode := range []string{"follower", "observer"} {
		for _, asked := range []int{0, 2} {
			bubble(t, 3, reconfigurable(V38), func(t *testing.T, e *Ensemble) {
				require.Equal(t, 2, e.Leader())
				c, other := superRaw(t, e.Member(asked)), newRaw(t, e.Member(1), 10*time.Second)
				all, _, _ := c.config()
				request := &change{leaving: "3"}
				if mode == "observer" {
					request = &change{joining: strings.Replace(all[2], "participant", "observer", 1)}
				}
				assert.Equal(t, ok, c.code(jute.OpReconfig, request))
				c.closed()
				other.closed()
				settle(t, e)
				assert.Contains(t, []int{0, 1}, e.Leader())
				assert.Contains(t, word(t, e.Member(2), "srvr"), "Mode: "+mode)
				c = superRaw(t, e.Member(2))
				c.create("/a", 0)
				settle(t, e)
				assert.Equal(t, e.Member(2).Tree(), e.Member(0).Tree())

				// It joins again. An observer closes its clients' connections once more, a follower does not.
				assert.Equal(t, ok, c.code(jute.OpReconfig, &change{joining: all[2]}))
				if mode == "observer" {
					c.closed()
				}
				settle(t, e)
				e.Member(e.Leader()).Stop()
				time.Sleep(time.Minute)
				assert.NotEqual(t, -1, e.Leader(), "it has a vote again")
			})
		}
	}
}

// A member that was stopped when others were removed cannot make the ensemble return to the old configuration.
func TestReconfigWhileAMemberIsAway(t *testing.T) {
	bubble(t, 5, reconfigurable(V38), func(t *testing.T, e *Ensemble) {
		away := e.Member(0)
		away.Stop()
		c := superRaw(t, e.Member(4))
		assert.Equal(t, ok, c.code(jute.OpReconfig, &change{leaving: "1,2"}))
		settle(t, e)
		e.Member(3).Stop()
		e.Member(4).Stop()
		require.NoError(t, away.Start())
		time.Sleep(time.Minute)
		assert.Equal(t, -1, e.Leader(), "members 0, 1 and 2 were a majority, and are not")
		require.NoError(t, e.Member(3).Start())
		settle(t, e)
		assert.Contains(t, []int{2, 3}, e.Leader())
		lines, _, _ := newRaw(t, away, 10*time.Second).config()
		assert.Len(t, lines, 3)
	})
}

// A member that has a new configuration in its log, and does not know that it is committed, needs the votes of both
// configurations.
func TestReconfigThatNobodyKnowsToBeCommitted(t *testing.T) {
	bubble(t, 5, reconfigurable(V38), func(t *testing.T, e *Ensemble) {
		c := superRaw(t, e.Member(4))
		settle(t, e)
		e.SetPeerDelay(time.Second)
		c.send(jute.OpReconfig, &change{leaving: "1,2"})
		time.Sleep(2500 * time.Millisecond) // the leader has committed it
		r, err := c.recv()
		require.NoError(t, err)
		require.Zero(t, r.Err)
		e.Partition(4)
		e.Member(4).Stop()
		e.Member(2).Stop()
		e.SetPeerDelay(0)
		time.Sleep(time.Minute)
		assert.Equal(t, int64(1), e.epoch, "three of the five before, but one of the three since")
		require.NoError(t, e.Member(2).Start())
		settle(t, e)
		assert.Contains(t, []int{2, 3}, e.Leader())
		lines, _, _ := newRaw(t, e.Member(0), 10*time.Second).config()
		assert.Len(t, lines, 3)
	})
}

// The newest log can be only at members that its configuration removes. One of them becomes leader, commits the
// configuration, and hands over to a member of the new one.
func TestReconfigThatOnlyLeaversHave(t *testing.T) {
	bubble(t, 5, reconfigurable(V38), func(t *testing.T, e *Ensemble) {
		c := superRaw(t, e.Member(4))
		c.create("/a", 0)
		settle(t, e)
		e.Partition(4, 2, 3)
		c.send(jute.OpReconfig, &change{leaving: "1,2"})
		time.Sleep(time.Second)
		e.Member(4).Stop()
		_, err := c.recv()
		require.ErrorIs(t, err, io.EOF, "no answer: it is not committed")
		time.Sleep(time.Minute)
		require.Contains(t, []int{2, 3}, e.Leader())
		settle(t, e)
		for i := range 4 {
			c := newRaw(t, e.Member(i), 10*time.Second)
			lines, _, _ := c.config()
			assert.Len(t, lines, 3)
			c.create(fmt.Sprintf("/a/%d", i), 0)
		}
		settle(t, e)
		require.NoError(t, e.Heal())
		settle(t, e)
		assert.Equal(t, e.Member(0).Tree(), e.Member(4).Tree())
	})
}

// Members without a running server count for the quorum, but never vote.
func TestReconfigWithMembersThatNeverRun(t *testing.T) {
	bubble(t, 3, reconfigurable(V38), func(t *testing.T, e *Ensemble) {
		c := superRaw(t, e.Member(0))
		four := "server.11=h:1:2;3,server.12=h:1:2;3,server.13=h:1:2;3"
		assert.Equal(t, ErrNewConfigNoQuorum, c.code(jute.OpReconfig, &change{joining: four}))
		assert.Equal(t, ok, c.code(jute.OpReconfig, &change{joining: "server.11=h:1:2;3,server.12=h:1:2;3"}))
		c.create("/a", 0)
		e.Member(1).Stop()
		time.Sleep(time.Minute)
		assert.Equal(t, -1, e.Leader(), "two of five")
	})
}

func TestReconfigArguments(t *testing.T) {
	bubble(t, 3, reconfigurable(V38), func(t *testing.T, e *Ensemble) {
		c := superRaw(t, e.Member(0))
		all, _, _ := c.config()
		for _, test := range []struct {
			change
			want Error
			line string // the last line of the configuration then
		}{
			{change: change{joining: "server.9=[::1]:1:2;[::1]:3"},
				line: "server.9=[0:0:0:0:0:0:0:1]:1:2:participant;[0:0:0:0:0:0:0:1]:3"},
			{change: change{joining: " 9 = 127.0.0.1:1:2:OBSERVER;3 ,,"}, line: "server.9=127.0.0.1:1:2:observer;0.0.0.0:3"},
			{change: change{members: strings.Join(all, ",") + ",server.9=:1:2\n#\n! \n\nversion=7"},
				line: "server.9=localhost:1:2:participant"},
			{change: change{members: "server.1 : h:1:2;3\nserver.2 h:1:2;3\nserver.3=h:1:2"},
				line: "server.3=h:1:2:participant"},
			{change: change{leaving: "77"}, line: "server.3=h:1:2:participant"},
			{change: change{leaving: "x"}, want: ErrMarshalling},
			{change: change{joining: "server.9=nonsense"}, want: ErrBadArguments},
			{change: change{joining: "server.9=h:1:2:participant"}, want: ErrBadArguments},
			{change: change{joining: "server.9=h:1:2|g:1:2;3"}, want: ErrBadArguments},
			{change: change{joining: "server.9=h:1:2;[::1"}, want: ErrBadArguments},
			{change: change{joining: "server.9=[h:1:2;3"}, want: ErrBadArguments},
			{change: change{joining: "server.9=[h];3"}, want: ErrBadArguments},
			{change: change{joining: "server.9=h:1:2;:"}, want: ErrMarshalling},
			{change: change{joining: "server.9=h:1:-2;3"}, want: ErrMarshalling},
			{change: change{joining: "server.9=192.0.2.99:1:2;3,server.8=192.0.2.99:2:1;4"}, want: ErrBadArguments},
			{change: change{members: "nonsense"}, want: ErrBadArguments},
			{change: change{members: "version=x"}, want: ErrMarshalling},
			{change: change{members: "server.x=h:1:2;3"}, want: ErrMarshalling},
			{change: change{members: "server.1=h:1:1;3"}, want: ErrBadArguments},
			{change: change{members: "server.1=h:1:2:observer;3"}, want: ErrMarshalling},
		} {
			assert.Equal(t, test.want, c.code(jute.OpReconfig, &test.change), "%v", test.change)
			if lines, _, _ := c.config(); test.line != "" {
				assert.Equal(t, test.line, lines[len(lines)-1])
			}
		}
	})
}

// Of several mistakes the error always names the same one.
func TestReconfigNamesTheSameMistake(t *testing.T) {
	bubble(t, 3, reconfigurable(V38), func(t *testing.T, e *Ensemble) {
		c := superRaw(t, e.Member(0))
		for range 50 {
			require.Equal(t, ErrBadArguments,
				c.code(jute.OpReconfig, &change{members: "version=x\nserver.2=h:1:-2;3\nserver.1=h:1:1;3"}))
			require.Equal(t, ErrMarshalling,
				c.code(jute.OpReconfig, &change{members: "version=x\nserver.2=h:1:1;3\nserver.1=h:1:-2;3"}))
		}
	})
}

// A member can leave and join again, whatever address the ensemble listens on.
func TestReconfigBackAtAnyAddress(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1", "0.0.0.0", "198.51.100.7", "2001:db8::7", "fe80::7%eth0"} {
		e := &Ensemble{cfg: &Config{}}
		for i := range 3 {
			addr := net.JoinHostPort(host, strconv.Itoa(2181+i))
			e.members = append(e.members, &Server{listenAddr: addr})
		}
		c, err := e.foundingMembership()
		require.NoError(t, err)
		for _, m := range c.members {
			again := &membership{members: c.members}
			assert.Equal(t, ok, again.applyReconfig([]string{fmt.Sprintf("server.%d=%s", m.id, m.spec)}, nil), m.spec)
		}
	}
	// Ports that the system chooses, on an address of this machine that other machines reach, if it has one.
	e := RunEnsembleT(t, 3, Config{
		Reconfig: true, SuperDigest: digestUserID([]byte("super:secret")),
		Listen: net.JoinHostPort(ownAddress(t), "0"), Logger: slog.New(slog.DiscardHandler),
	})
	c := superRaw(t, e.Member(1))
	all, _, _ := c.config()
	assert.Equal(t, ok, c.code(jute.OpReconfig, &change{leaving: "1"}))
	assert.Equal(t, ok, c.code(jute.OpReconfig, &change{joining: all[0]}))
	lines, _, _ := c.config()
	assert.Equal(t, all, lines)
}

// ownAddress returns an address of the machine, the loopback if it has no other.
func ownAddress(t *testing.T) string {
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, addr := range addrs {
		if own, is := addr.(*net.IPNet); is && own.IP.To4() != nil && own.IP.IsGlobalUnicast() {
			return own.IP.String()
		}
	}
	return "127.0.0.1"
}
