package object_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-curator/curator/contrib/fence"
	"github.com/go-curator/curator/contrib/fence/fencetest"
	"github.com/go-curator/curator/contrib/fence/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestALateWriteIsRefused(t *testing.T) {
	ctx := t.Context()
	var store object.Memory
	require.NoError(t, object.Write(ctx, &store, "orders", 1, []byte("first")))
	require.NoError(t, object.Write(ctx, &store, "orders", 2, []byte("second")))
	err := object.Write(ctx, &store, "orders", 1, []byte("late"))
	var outdated *fence.OutdatedError
	require.ErrorAs(t, err, &outdated)
	assert.Equal(t, fence.OutdatedError{Resource: "orders", Token: 1, Newest: 2}, *outdated)
	require.NoError(t, object.Write(ctx, &store, "orders", 2, []byte("third")), "the same holder")
	o, err := store.Get(ctx, "orders")
	require.NoError(t, err)
	assert.Equal(t, "third", string(o.Data))
	assert.Equal(t, int64(2), o.Token)
	assert.ErrorIs(t, object.Write(ctx, &store, "", 2, nil), fence.ErrBadArguments)
}

// between calls do between the read and the write.
type between struct {
	object.Store
	do func() error
}

func (s *between) PutIf(ctx context.Context, name string, data []byte, token int64, version string) error {
	if do := s.do; do != nil {
		s.do = nil
		if err := do(); err != nil {
			return err
		}
	}
	return s.Store.PutIf(ctx, name, data, token, version)
}

func TestBetweenTheLookAndTheWrite(t *testing.T) {
	ctx := t.Context()
	var store object.Memory
	slow := &between{Store: &store, do: func() error { return object.Write(ctx, &store, "orders", 2, []byte("newer")) }}
	assert.ErrorIs(t, object.Write(ctx, slow, "orders", 1, []byte("late")), fence.ErrOutdated)

	slow.do = func() error { return object.Write(ctx, &store, "orders", 2, []byte("faster")) }
	require.NoError(t, object.Update(ctx, slow, "orders", 3, func(old object.Object) ([]byte, error) {
		return append(old.Data, '!'), nil
	}))
	o, err := store.Get(ctx, "orders")
	require.NoError(t, err)
	assert.Equal(t, "faster!", string(o.Data), "changed again, from what the faster one has written")

	away := errors.New("no network")
	slow.do = func() error { return away }
	assert.ErrorIs(t, object.Write(ctx, slow, "orders", 3, nil), away)
	assert.ErrorIs(t, object.Update(ctx, slow, "orders", 3, func(object.Object) ([]byte, error) { return nil, away }), away)
	ended, end := context.WithCancel(ctx)
	end()
	assert.ErrorIs(t, object.Write(ended, &store, "orders", 3, nil), context.Canceled)
	_, err = store.Get(ended, "orders")
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, store.PutIf(ended, "orders", nil, 3, ""), context.Canceled)
}

// logs keeps each log in an object.
type logs struct {
	store    object.Memory
	unfenced bool
}

func (l *logs) Append(ctx context.Context, resource string, token int64, entry string) error {
	if l.unfenced { // as before the use of tokens
		token = 1
	}
	return object.Update(ctx, &l.store, resource, token, func(old object.Object) ([]byte, error) {
		return append(old.Data, entry+"\n"...), nil
	})
}

func (l *logs) Log(ctx context.Context, resource string) ([]string, error) {
	o, err := l.store.Get(ctx, resource)
	return strings.Fields(string(o.Data)), err
}

func TestNoLateWriteGetsThrough(t *testing.T) {
	fencetest.Run(t, &logs{})
	fencetest.Catches(t, &logs{unfenced: true})
}

func Example() {
	ctx := context.Background()
	var bucket object.Memory // an adapter of your client

	// Two holders, one after the other; their tokens are from fence.From.
	fmt.Println(object.Write(ctx, &bucket, "report", 17, []byte("by the first")))
	fmt.Println(object.Write(ctx, &bucket, "report", 23, []byte("by the second")))
	fmt.Println(object.Write(ctx, &bucket, "report", 17, []byte("late")))
	// Output:
	// <nil>
	// <nil>
	// fence: the fencing token is outdated: 17 for "report", where 23 was seen
}
