package recipes

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/integration/javapeer"
	"github.com/go-curator/curator/recipes/semaphore"
)

// borrower acquires leases in either language.
type borrower struct {
	name    string
	acquire func(ctx context.Context, n int) (release func(ctx context.Context) error, err error)
}

func goBorrower(
	client *framework.Client, path string, max int, name string, opts ...semaphore.Option,
) *borrower {
	s := semaphore.New(client, path, max, opts...)
	return &borrower{name, func(ctx context.Context, n int) (release, error) {
		lease, err := s.Acquire(ctx, n)
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}}
}

func javaBorrower(s *javapeer.Semaphore, name string) *borrower {
	return &borrower{name, func(ctx context.Context, n int) (release, error) {
		_, err := s.Acquire(ctx, name, n, kit.Patience)
		return func(ctx context.Context) error { return s.Return(ctx, name) }, err
	}}
}

// Go and Java hold leases at the same time, with the same nodes; one of each waits, and is granted the leases that the
// other releases.
func TestLeases(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "semaphore", kit.Mixed)
	const leases = 3
	const path = "/leases/three"
	w := newWorld(t)
	ctx := kit.Context(t)
	second := w.golang(t)
	borrowers := []*borrower{goBorrower(w.client, path, leases, "go 1"),
		goBorrower(w.client, path, leases, "go 2"), goBorrower(second, path, leases, "go 3")}
	for i := range 3 {
		s, err := w.peer.Semaphore(ctx, "semaphore "+strconv.Itoa(i), path, leases)
		require.NoError(t, err)
		borrowers = append(borrowers, javaBorrower(s, "java "+strconv.Itoa(i)))
	}
	// Two leases of one language and one of the other: the nodes are the same. The directory of the line is empty, so
	// the server may have removed it already.
	ours, err := borrowers[0].acquire(ctx, 1)
	require.NoError(t, err)
	theirs, err := borrowers[3].acquire(ctx, 2)
	require.NoError(t, err)
	data := ` ephemeral "` + w.data + `"`
	assert.Equal(t, []string{
		` persistent ""`, `/_c_GUID-lease-0000000000` + data, `/_c_GUID-lease-0000000001` + data,
		`/_c_GUID-lease-0000000002` + data,
	}, w.nodes(t, path+"/leases"))
	taken, max, err := semaphore.New(w.client, path, leases).Usage(ctx)
	require.NoError(t, err)
	assert.Equal(t, []int{leases, leases}, []int{taken, max})
	// One of each waits, and is notified of a release by the other language.
	javaWaits := kit.Call(t, kit.Context(t), func(ctx context.Context) (release, error) {
		return borrowers[4].acquire(ctx, 1)
	})
	w.count(t, path+"/locks", 1)
	goWaits := kit.Call(t, kit.Context(t), func(ctx context.Context) (release, error) {
		return borrowers[1].acquire(ctx, 1)
	})
	w.count(t, path+"/locks", 2)
	for _, dir := range []string{path, path + "/locks"} {
		content, err := w.client.GetData().ForPath(ctx, dir)
		require.NoError(t, err)
		assert.Empty(t, content, dir)
	}
	require.NoError(t, ours(ctx))
	javaHas := kit.Receive(t, "Java's lease", javaWaits)
	assert.Empty(t, goWaits)
	require.NoError(t, theirs(ctx))
	require.NoError(t, kit.Receive(t, "our lease", goWaits)(ctx))
	require.NoError(t, javaHas(ctx))

	// The lock on a semaphore of one lease is the same in both.
	kit.Interop(t, "semaphore mutex", kit.GoToJava, kit.JavaToGo)
	const one = "/leases/one"
	ourMutex := semaphore.NewMutex(w.client, one)
	theirMutex, err := w.peer.SemaphoreMutex(ctx, "mutex", one)
	require.NoError(t, err)
	lock, err := ourMutex.Acquire(ctx)
	require.NoError(t, err)
	granted := theirMutex.GoAcquire(javapeer.Forever)
	w.count(t, one+"/locks", 1)
	require.NoError(t, lock.Release(ctx))
	_, err = granted(ctx)
	require.NoError(t, err)
	waiting := kit.Call(t, kit.Context(t), ourMutex.Acquire)
	w.count(t, one+"/locks", 1)
	assert.Empty(t, waiting)
	require.NoError(t, theirMutex.Release(ctx))
	require.NoError(t, kit.Receive(t, "our lock", waiting).Release(ctx))

	w.gone(t, "/leases")
}

// The number of leases is in a node that either language sets and both follow while they wait.
func TestSharedCount(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "shared count", kit.GoToJava, kit.JavaToGo)
	const path, countPath = "/shared/leases", "/shared-count"
	w := newWorld(t)
	ctx := kit.Context(t)
	theirCount, err := w.peer.Count(ctx, "count", countPath, 1)
	require.NoError(t, err)
	ourCount := semaphore.NewCount(w.client, countPath)
	data, err := w.peer.Get(ctx, countPath)
	require.NoError(t, err)
	assert.Equal(t, []byte{0, 0, 0, 1}, data)
	s, err := w.peer.SharedSemaphore(ctx, "semaphore", path, theirCount)
	require.NoError(t, err)
	ours := goBorrower(w.client, path, 1, "go", semaphore.WithSharedCount(countPath))

	first, err := ours.acquire(ctx, 1)
	require.NoError(t, err)
	javaWaits := kit.Call(t, kit.Context(t), func(ctx context.Context) (release, error) {
		return javaBorrower(s, "java").acquire(ctx, 1)
	})
	w.count(t, path+"/leases", 2) // Java's is there while it waits
	assert.Empty(t, javaWaits)
	require.NoError(t, ourCount.Set(ctx, 2))
	second := kit.Receive(t, "Java's lease when Go has set 2", javaWaits)

	goWaits := kit.Call(t, kit.Context(t), func(ctx context.Context) (release, error) {
		return ours.acquire(ctx, 1)
	})
	w.count(t, path+"/locks", 1)
	assert.Empty(t, goWaits)
	require.NoError(t, theirCount.Set(ctx, 3))
	third := kit.Receive(t, "our lease when Java has set 3", goWaits)

	// The number shrinks: holders release, and no contender gets a lease until enough of them have.
	require.NoError(t, theirCount.Set(ctx, -2))
	value, err := ourCount.Get(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, -2, value.N)
	require.NoError(t, ourCount.Set(ctx, 1))
	kit.Soon(t, "Java knows", func() bool {
		n, err := theirCount.Get(ctx)
		return assert.NoError(t, err) && n == 1
	})
	goWaits = kit.Call(t, kit.Context(t), func(ctx context.Context) (release, error) {
		return ours.acquire(ctx, 1)
	})
	w.count(t, path+"/locks", 1)
	require.NoError(t, first(ctx))
	require.NoError(t, second(ctx))
	assert.Empty(t, goWaits)
	require.NoError(t, third(ctx))
	require.NoError(t, kit.Receive(t, "the lease of the one", goWaits)(ctx))
	w.gone(t, "/shared")
}

// Java takes several leases one by one, and waits in line with a part of them behind a Go waiter that needs that very
// part: Go steps back.
func TestStepsBackForJava(t *testing.T) {
	t.Parallel()
	kit.Interop(t, "semaphore", kit.Mixed)
	const path, leases = "/several/leases", 4
	w := newWorld(t)
	ctx := kit.Context(t)
	s, err := w.peer.Semaphore(ctx, "theirs", path, leases)
	require.NoError(t, err)
	holder, ours, theirs := goBorrower(w.client, path, leases, "holder"), goBorrower(w.golang(t), path, leases, "ours"),
		javaBorrower(s, "theirs")
	one, err := holder.acquire(ctx, 1)
	require.NoError(t, err)
	others, err := holder.acquire(ctx, leases-1)
	require.NoError(t, err)
	javaWaits := kit.Call(t, kit.Context(t), func(ctx context.Context) (release, error) {
		return theirs.acquire(ctx, 2)
	})
	w.count(t, path+"/leases", leases+1) // the first in line, with a node
	goWaits := kit.Call(t, kit.Context(t), func(ctx context.Context) (release, error) {
		return ours.acquire(ctx, leases)
	})
	w.count(t, path+"/locks", 2)
	require.NoError(t, one(ctx)) // Java has a part now and joins the end of the line
	require.NoError(t, others(ctx))
	javaHas := kit.Receive(t, "Java's two leases", javaWaits)
	assert.Empty(t, goWaits)
	require.NoError(t, javaHas(ctx))
	require.NoError(t, kit.Receive(t, "our leases", goWaits)(ctx))
	w.gone(t, "/several")
}
