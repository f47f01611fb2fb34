package differential

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/zktest"
)

// unlisted is a server that, like the real one for a moment, does not list a session any more before it has ended it:
// here from the end of the session's connection.
type unlisted struct{ inProcess }

func (s unlisted) Lives(session int64) (bool, error) { return s.Connected(session) }

const expiries = `
0 create {"path":"/h/a","num":1}
1 getChildren {"path":"/h","watch":true}
0 KIND {}
1 create {"path":"/h/b"}
1 getChildren2 {"path":"/h"}
0 KIND {}
0 attach {}
1 setData {"path":"/h/b","num":-1}
`

// A comparison has the same result at whatever moment an expiry comes: before the reply to the handshake, or after the
// session is not listed any more.
func TestWhatIsComparedDoesNotDependOnWhenAnExpiryStrikes(t *testing.T) {
	for _, kind := range []string{expire, vanish} {
		ops, err := Parse(strings.ReplaceAll(expiries, "KIND", kind))
		require.NoError(t, err)
		for name, late := range map[string]func(inProcess) (*Host, error){
			"not listed": func(s inProcess) (*Host, error) { return NewHost(unlisted{s}) },
			"before the answer": func(s inProcess) (*Host, error) {
				h, err := NewHost(s)
				// after two sessions
				s.Inject(zktest.Fault{Op: zktest.OpConnect, After: 2, Action: zktest.HoldReply})
				return h, err
			},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				usual, err := NewHost(startInProcess(t, never, zktest.V39))
				require.NoError(t, err)
				odd, err := late(startInProcess(t, never, zktest.V39))
				require.NoError(t, err)
				difference, err := Pair{usual, odd}.Difference(ops)
				require.NoError(t, err)
				assert.Empty(t, difference)
				require.NoError(t, Pair{usual, odd}.Close())
			})
		}
	}
}
