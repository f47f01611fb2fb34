package hostile

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/zktest"
)

const (
	// attack is the time for which the man in the middle is hostile.
	attack = 45 * time.Second
	// grace is the time that a call may take to return after its context has ended.
	grace = 10 * time.Millisecond
	// recovery is the time that a client may take until it works again, in addition to three of the longest session timeout that
	// it was granted.
	recovery = 2 * time.Minute
	// unbelievable is a session timeout that is too long to wait for.
	unbelievable = 10 * time.Minute
	// mostGoroutines and mostDials, in addition to dialsPerSecond, are far above what is needed.
	mostGoroutines, mostDials, dialsPerSecond = 400, 200, 20
	// A run may allocate allocationBase, and more for each virtual second and for each byte that the client was sent.
	allocationBase, allocationPerSecond, allocationFactor = 32 << 20, 256 << 10, 24
	// patience is how long a run may take by the wall clock.
	patience = 2 * time.Minute
)

// outcome is the result of a run.
type outcome struct {
	violations []string
	used       [tricks]int
	sent       int64
	allocated  uint64
	untrue     lies
	took       time.Duration // virtual
}

// play runs a script in a bubble of its own.
func play(t *testing.T, s script) (o outcome) {
	defer s.pauses()()
	circles := time.AfterFunc(patience, func() {
		buf := make([]byte, 1<<20)
		stacks := buf[:runtime.Stack(buf, true)]
		panic(fmt.Sprintf("%v\nhas not ended within %v: "+
			"a goroutine runs in circles, or holds a lock while it waits\n%s", s, patience, stacks))
	})
	defer circles.Stop()
	defer func() {
		if r := recover(); r != nil { // a deadlock, or goroutines that still run
			panic(fmt.Sprintf("%v\n%v", r, s))
		}
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	synctest.Test(t, func(*testing.T) { o = run(s) })
	runtime.ReadMemStats(&after)
	o.allocated = after.TotalAlloc - before.TotalAlloc
	most := allocationBase + allocationPerSecond*int64(o.took/time.Second) + allocationFactor*o.sent
	if o.allocated > uint64(most) {
		o.violations = append(o.violations,
			fmt.Sprintf("%d MiB were allocated for %d bytes from the server", o.allocated>>20, o.sent))
	}
	return o
}

// world is one run.
type world struct {
	guest  sync.WaitGroup // go-zookeeper's work
	script script
	srv    *zktest.Server
	man    *man
	honest *framework.Client
	victim *framework.Client
	began  time.Time

	mu         sync.Mutex
	violations []string
	text       bytes.Buffer // all output of the victim: log lines, errors, states
	under      map[string]int
	holders    map[string][2]hold
}

// hold is a lock or a lease.
type hold interface {
	Context() context.Context
	Valid() bool
	Remaining() time.Duration
	Release(ctx context.Context) error
}

func (w *world) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.violations) < 10 {
		at := fmt.Sprintf("%8.3fs ", time.Since(w.began).Seconds())
		w.violations = append(w.violations, at+fmt.Sprintf(format, args...))
	}
}

// Write records the output of the victim's logger.
func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

// hear records an error, or other output of the victim.
func (w *world) hear(what string, v any) {
	fmt.Fprintf(w, "%8.3fs %s: %v\n%+v\n", time.Since(w.began).Seconds(), what, v, v)
}

// action is a call of this library.
type action func(ctx context.Context) error

// call makes a call with a context of its own, and checks that it does not outlive that context.
func (w *world) call(ctx context.Context, what string, limit time.Duration, f action) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w.underWay(what, 1)
	defer w.underWay(what, -1)
	var ended time.Time
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { ended = time.Now(); close(over) })
	err := f(ctx)
	if !stop() {
		<-over
		if late := time.Since(ended); late > grace {
			w.violate("%s outlives its context by %v (%v)", what, late, err)
		}
	}
	if err != nil {
		w.hear(what, err)
	}
	return err
}

func (w *world) underWay(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.under[what] += n; w.under[what] == 0 {
		delete(w.under, what)
	}
}

// within waits for an action that has no context, and ends the run if that does not return in time.
func (w *world) within(limit time.Duration, what string, f func()) {
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		w.violate("%s has not ended within %v", what, limit)
		select {
		case <-done:
			w.violate("it took %v", time.Since(began))
		case <-time.After(time.Hour):
			w.mu.Lock()
			defer w.mu.Unlock()
			panic(fmt.Sprintf("%s hangs; under way: %v; %v", what, w.under, w.violations))
		}
	}
}

func run(s script) outcome {
	srv, err := zktest.NewServer(s.server())
	if err != nil {
		return outcome{violations: []string{err.Error()}}
	}
	defer srv.Close()
	w := &world{
		script: s, srv: srv, man: newMan(srv, s), began: time.Now(),
		under: map[string]int{}, holders: map[string][2]hold{},
	}
	w.plant()
	w.honest = w.client(framework.WithDialer(srv.Dial))
	everything := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.victim = w.client(framework.WithDialer(w.man.dial), framework.WithLogger(everything))
	var victims, others sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	peace, rest := context.WithCancel(context.Background())
	tree, node, closeCaches := w.caches(ctx, &victims)
	w.work(ctx, &victims)
	w.contend(peace, &others)
	w.write(peace, &others)

	closed := make(chan struct{})
	if s.settings.has(early) {
		victims.Go(func() {
			defer close(closed)
			time.Sleep(attack / 2)
			w.closeVictim()
		})
	}
	w.watch(attack)
	switch {
	case w.man.told(aboutHolds | aboutState): // a client believes lies as long as its session lives
		w.man.goDark()
		w.man.lie(aboutHolds) // from here on a hold may be untrue
		w.expire()
		time.Sleep(time.Second)
	case s.seed%2 == 0: // otherwise the client must notice by itself that a connection is broken
		w.man.goDark()
		time.Sleep(time.Second)
	}
	w.man.goHonest()
	if granted := w.man.longest(); !s.settings.has(early) && granted < unbelievable {
		w.recovers(ctx, recovery+3*granted)
		stop()
		w.within(time.Minute, "the client's work", victims.Wait)
		w.getsItsTurn()
		rest()
		w.within(time.Minute, "the honest client's work", others.Wait)
		w.agrees(tree, node)
		w.cleansUp()
	}
	stop()
	rest()
	w.within(time.Minute, "all work", func() { victims.Wait(); others.Wait() })
	if !s.settings.has(early) {
		w.closeVictim()
	}
	w.within(time.Minute, "go-zookeeper's work", w.guest.Wait)
	w.within(5*time.Second, "closing the caches", closeCaches)
	if err := w.honest.Close(); err != nil {
		w.violate("the honest client: %v", err)
	}
	w.nothingIsLeft()
	w.keepsSecrets()
	w.man.goDark()
	w.within(time.Minute, "the man in the middle", w.man.wg.Wait)
	time.Sleep(3 * time.Second) // the goroutines that were cut short end in this time
	return outcome{
		violations: w.violations, took: time.Since(w.began),
		used: w.man.used, sent: w.man.sent, untrue: w.man.untrue,
	}
}

func (w *world) client(opts ...framework.Option) *framework.Client {
	c, err := framework.New(w.srv.Addr(), append(w.script.client(), opts...)...)
	if err != nil {
		panic(err)
	}
	return c
}

// watch checks the holds for a while.
func (w *world) watch(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		if n := runtime.NumGoroutine(); n > mostGoroutines {
			w.violate("%d goroutines", n)
		}
	}
	w.man.mu.Lock()
	dials := w.man.dials
	w.man.mu.Unlock()
	if dials > mostDials+dialsPerSecond*int(d/time.Second) {
		w.violate("%d connections in %v", dials, d)
	}
}

// longest returns the longest session timeout that the client was granted.
func (m *man) longest() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.granted
}

// looksAt checks the properties of every hold, here one of client who.
func (w *world) looksAt(name string, who int, h hold, paths []string) {
	w.mu.Lock()
	other := w.holders[name][1-who]
	w.mu.Unlock()
	if other != nil && other.Valid() && h.Valid() && !w.man.told(aboutHolds) {
		w.violate("two holders of %s", name)
	}
	if who != victim {
		return
	}
	left := h.Remaining() // before the limits are read: a reply in between renews both
	w.man.mu.Lock()
	most := w.man.granted - time.Since(w.man.last)
	if w.man.untrue&aboutHolds == 0 {
		most = w.man.granted - time.Since(w.man.proof)
	}
	w.man.mu.Unlock()
	if left > most && left > 0 {
		w.violate("%s is valid for %v more; what the server has said allows %v at most", name, left, most)
	}
	for _, path := range paths {
		if valid := h.Valid(); valid && !w.srv.Exists(path) && h.Valid() && !w.man.told(aboutHolds) {
			w.violate("%s is valid, and there is no %s", name, path)
		}
	}
	if !h.Valid() {
		time.Sleep(grace)
		if h.Context().Err() == nil {
			w.violate("%s is not valid any more, and its context goes on", name)
		}
	}
}

// expire ends all sessions but the honest client's.
func (w *world) expire() {
	s, err := w.honest.Session(context.Background())
	if err != nil {
		panic(err)
	}
	for _, other := range w.srv.Sessions() {
		if other.ID != s.ID() {
			w.srv.Expire(other.ID)
		}
	}
}

// recovers checks that a client whose server is honest works again after a while.
func (w *world) recovers(ctx context.Context, limit time.Duration) {
	began := time.Now()
	for {
		err := w.call(ctx, "recovery", 10*time.Second, func(ctx context.Context) error {
			_, err := w.victim.Create().OrSetData().ForPath(ctx, "/own/recovered", []byte("yes"))
			return err
		})
		if err == nil {
			return
		}
		if time.Since(began) > limit {
			w.violate("the client does not work again after %v: %v; %v", limit, err, w.victim.Health())
			return
		}
		time.Sleep(time.Second)
	}
}

// getsItsTurn checks that the client acquires the locks that others release.
func (w *world) getsItsTurn() {
	for name, acquire := range w.rights(victim) {
		turn := func(ctx context.Context) error {
			h, paths, err := acquire(ctx)
			if err != nil {
				return err
			}
			w.looksAt(name, victim, h, paths)
			return h.Release(ctx)
		}
		err := w.call(context.Background(), "a turn at "+name, 90*time.Second, turn)
		if err != nil {
			w.violate("no turn at %s: %v", name, err)
		}
	}
}

// agrees checks that the caches equal the tree.
func (w *world) agrees(tree *cache.Cache, node *cache.Single) {
	if w.man.told(aboutState) { // the client believes a lie about a node's state until the node changes
		for path := range w.srv.Tree() {
			if strings.HasPrefix(path, "/tree") || path == "/node" {
				_ = w.srv.Set(path, []byte("truth"))
			}
		}
	}
	var wrong []string
	for range 100 { // a node that cannot be read is read again once a minute
		time.Sleep(time.Second)
		if wrong = w.differences(tree, node); len(wrong) == 0 {
			return
		}
	}
	w.violate("the caches are not the tree: %s", strings.Join(wrong[:min(3, len(wrong))], "; "))
}

func (w *world) differences(tree *cache.Cache, node *cache.Single) (wrong []string) {
	got := map[string]cache.Node{}
	for path, n := range tree.All() {
		got[path] = n
	}
	if n, ok := node.Get(); ok {
		got["/node"] = n
	}
	for path, n := range w.srv.Tree() {
		if !strings.HasPrefix(path, "/tree") && path != "/node" {
			continue
		}
		g, ok := got[path]
		if delete(got, path); !ok || !bytes.Equal(g.Data, n.Data) || g.Stat != framework.Stat(n.Stat) {
			wrong = append(wrong,
				fmt.Sprintf("%s is %q %+v and should be %q %+v", path, g.Data, g.Stat, n.Data, n.Stat))
		}
	}
	for path := range got {
		wrong = append(wrong, path+" should not be there")
	}
	for path, err := range tree.Failures() {
		wrong = append(wrong, fmt.Sprintf("%s: %v", path, err))
	}
	slices.Sort(wrong)
	return wrong
}

// cleansUp checks that the client's clean-ups end.
func (w *world) cleansUp() {
	for range 60 {
		if w.victim.PendingCleanups() == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	w.violate("%d clean-ups are pending", w.victim.PendingCleanups())
}

func (w *world) closeVictim() {
	limit := closingTimeout + grace
	if w.script.settings.has(library) {
		limit += time.Second
	}
	w.within(limit, "Close", func() {
		if err := w.victim.Close(); err != nil {
			w.hear("Close", err)
		}
	})
}

// nothingIsLeft checks that the server has no sessions, ephemeral nodes or watches left after all clients have closed.
func (w *world) nothingIsLeft() {
	if w.man.told(aboutHolds) {
		return
	}
	time.Sleep(2*w.man.longest() + 10*time.Second)
	for path, n := range w.srv.Tree() {
		ofARecipe := strings.HasPrefix(path, "/lock/") || strings.HasPrefix(path, "/lease/leases/")
		if n.Mode == zktest.Ephemeral || ofARecipe || strings.HasPrefix(path, "/own/protected/") {
			w.violate("%s is left", path)
		}
	}
	if left := w.srv.Sessions(); len(left) > 0 {
		w.violate("sessions are left: %v", left)
	}
}

// keepsSecrets checks that the client's errors and its log contain neither the session's password nor the login's.
func (w *world) keepsSecrets() {
	w.mu.Lock()
	text := w.text.String()
	w.mu.Unlock()
	secrets := slices.Collect(maps.Keys(w.man.passwords))
	// A frame that the man repeats in place of a handshake may have a path where the password would be. The
	// passwords of servers are random bytes.
	secrets = slices.DeleteFunc(secrets, plain.Is)
	for _, s := range append(secrets, secret) {
		b := []byte(s)
		if len(slices.Compact(slices.Sorted(slices.Values(b)))) < 6 {
			continue // for example zeros
		}
		hexed := hex.EncodeToString(b)
		forms := []string{
			s, hexed, strings.ToUpper(hexed), base64.StdEncoding.EncodeToString(b),
			strings.Trim(fmt.Sprint(b), "[]"), strings.Trim(fmt.Sprintf("%q", b), `"`),
		}
		for _, form := range forms {
			if at := strings.Index(text, form); at >= 0 {
				from := strings.LastIndexByte(text[:at], '\n') + 1
				w.violate("a secret is told: %.200s", text[from:])
			}
		}
	}
}
