package discovery_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/recipes/internal/recipetest"
	"github.com/go-curator/curator/zktest"
)

// slowPayload is a payload whose decoding, if it is "slow", waits until the channel that it sends to slowDecodings is closed.
type slowPayload string

var slowDecodings chan chan struct{}

func (p *slowPayload) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if *p = slowPayload(text); text == "slow" {
		gate := make(chan struct{})
		slowDecodings <- gate
		<-gate
	}
	return err
}

// WaitSynced and the cache's goroutine decode the nodes at the same time. Only WaitSynced has read an instance that is deleted
// before either ends: in whichever order they end, the instance is not listed in the end.
func TestAnInstanceDeletedDuringASlowUpdateIsNotListed(t *testing.T) {
	for name, goroutineFirst := range map[string]bool{"the goroutine ends first": true, "WaitSynced ends first": false} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, s *zktest.Server) {
				slowDecodings = make(chan chan struct{})
				write := func(write func(string, []byte) error, id, payload string) {
					data, err := json.Marshal(map[string]string{"name": "web", "id": id, "payload": payload, "serviceType": "STATIC"})
					require.NoError(t, err)
					require.NoError(t, write(path+"/"+id, data))
					synctest.Wait()
				}
				write(s.Create, "b", "fast")
				d, err := discovery.New[slowPayload](newClient(t, s), base)
				require.NoError(t, err)
				c, err := d.Cache("web")
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, c.WaitSynced(background))

				write(s.Set, "b", "slow")
				first := <-slowDecodings // the goroutine's
				write(s.Create, "a", "fast")
				waits := recipetest.Begin(t, func() (struct{}, error) { return struct{}{}, c.WaitSynced(background) })
				second := <-slowDecodings // WaitSynced's, which has also read a
				require.NoError(t, s.Delete(path+"/a"))
				synctest.Wait()
				if !goroutineFirst {
					first, second = second, first
				}
				close(first)
				synctest.Wait()
				close(second)
				waits.End().OK()
				synctest.Wait()
				all := c.Instances()
				require.Len(t, all, 1)
				require.Equal(t, "b", all[0].ID)
			})
		})
	}
}

// The reply to a request of Instances is lost, or the request: the list and the instances are read again, as the retry policy
// allows.
func TestInstancesReadAgainAfterALostReply(t *testing.T) {
	for _, op := range []zktest.Op{"getChildren2", "getData"} {
		for _, action := range []zktest.Action{zktest.CutBefore, zktest.LoseReply} {
			for after := range 2 {
				in(t, func(t *testing.T, s *zktest.Server) {
					c := newClient(t, s)
					register(t, c, web("a", "one"))
					register(t, c, web("b", "two"))
					fault := s.Inject(zktest.Fault{Op: op, PathPrefix: path, After: after, Action: action})
					for range 2 {
						all, err := services(t, c).Instances(background, "web")
						require.NoError(t, err, "%v %v %d", op, action, after)
						require.Equal(t, "a=one b=two", text(all))
					}
					require.Equal(t, 1, fault.Hits())
				})
			}
		}
	}
}
