package wirecount

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/integration/zkserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func TestRequestsOfARealClient(t *testing.T) {
	node := zkserver.Start(t, zkserver.Options{})
	counter := Start(t, node.Addr())
	conn, _, err := zk.Connect([]string{counter.Addr()}, 4*time.Second, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)

	mark := counter.Mark()
	_, _, err = conn.Get("/a")
	require.NoError(t, err)
	_, _, err = conn.Children("/a")
	require.NoError(t, err)
	_, _, err = conn.Get("/a")
	require.NoError(t, err)
	_, err = conn.Multi(&zk.CheckVersionRequest{Path: "/a", Version: -1})
	require.NoError(t, err)
	got := counter.Since(mark).Without(Ping)
	assert.Equal(t, []Op{GetData, GetChildren2, GetData, Multi}, got.Ops())
	assert.Equal(t, map[Op]int{GetData: 2, GetChildren2: 1, Multi: 1}, got.Counts())
	assert.Equal(t, "1: getData /a\n1: getChildren2 /a\n1: getData /a\n1: multi", got.String())

	conn.Close()
	all := counter.Requests().Without(Ping)
	assert.Equal(t, Connect, all[0].Op)
	assert.Equal(t, CloseSession, all[len(all)-1].Op)
	assert.Equal(t, map[Op]int{Connect: 1, Create: 1, GetData: 2, GetChildren2: 1, Multi: 1, CloseSession: 1},
		all.Counts())
}

func TestFourLetterCommandsAreNotRequests(t *testing.T) {
	node := zkserver.Start(t, zkserver.Options{})
	counter := Start(t, node.Addr())
	answer, err := zkserver.FourLetter(t.Context(), counter.Addr(), "srvr")
	require.NoError(t, err)
	assert.Contains(t, answer, "Mode: standalone")
	assert.Empty(t, counter.Requests())
}

func TestFramesCutAnywhere(t *testing.T) {
	stream := []byte{
		0, 0, 0, 2, 9, 9, // the handshake
		0, 0, 0, 15, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2, '/', 'a', 0,
		0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11,
		0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 3, 0xe7, 0, 0, 0, 9,
	}
	want := Requests{{7, 0, Connect, ""}, {7, 1, GetData, "/a"}, {7, -2, Ping, ""}, {7, 2, 999, ""}}
	for size := 1; size <= len(stream); size++ {
		var got Requests
		f := &framer{conn: 7, count: func(r Request) { got = append(got, r) }}
		for rest := stream; len(rest) > 0; {
			n := min(size, len(rest))
			f.read(rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, want, got, "in pieces of %d", size)
	}
	assert.Equal(t, "op 999", Op(999).String())
}
