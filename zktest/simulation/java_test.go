package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/zktest/chaos"
)

// javaPeer contends as Curator for Java does, step by step, for the mutex and for leases of the semaphore: it has a
// part of the leases that it wants while it waits for the next, and deletes late. (It has holds of this library too,
// which show when its rights end.)
type javaPeer struct {
	*actor
	view *framework.Client // of the current session
}

// javaRoot is a node for its own writes.
const javaRoot = root + "/java"

// javaWorks returns the works that the Java-like peer takes part in.
func (p *plan) javaWorks() (names []string) {
	for _, name := range []string{"mutex", "semaphore"} {
		if slices.Contains(p.Works, name) {
			names = append(names, name)
		}
	}
	return names
}

// java is the peer's process.
func (w *world) java(p *chaos.Process) {
	defer w.closed.Done()
	c, err := framework.New(w.ConnectString(), append(w.options(1), framework.WithDialer(p.Dial))...)
	if err != nil {
		w.violate("java: %v", err)
		return
	}
	a := w.actor(p, 0, w.plan.Clients, 7)
	a.c = c
	for !w.calm() {
		j := &javaPeer{actor: a}
		if err := j.turn(pick(a.r, w.plan.javaWorks()...)); err != nil {
			time.Sleep(below(a.r, time.Second))
		} else {
			w.Count("turns of Java's kind", 1)
		}
		time.Sleep(below(a.r, 200*time.Millisecond))
	}
	select {
	case <-w.leave:
	case <-p.Context().Done():
	}
	if err := c.Close(); err != nil {
		w.violate("java: does not close: %v", err)
	}
}

func (j *javaPeer) turn(name string) error {
	limit := time.Hour // it stops when the others have had their last turn
	if j.r.IntN(4) == 0 {
		limit = below(j.r, j.w.plan.patience())
	}
	ctx, cancel := context.WithTimeout(background, limit)
	defer cancel()
	defer j.whenAtRest(cancel)()
	session, err := j.c.Session(ctx)
	if err != nil {
		return err
	}
	j.view = session.Client()
	k := slices.Index(j.w.plan.Works, name)
	switch work := j.w.works[k].(type) {
	case *mutexWork:
		return j.mutex(ctx, session, work)
	case *semaphoreWork:
		return j.leases(ctx, session, work)
	}
	return fmt.Errorf("java does no %s", name)
}

// whenAtRest calls f when all others have had their last turn, unless it is stopped before.
func (j *javaPeer) whenAtRest(f func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-j.w.rest:
			f()
		case <-j.p.Context().Done():
			f()
		case <-done:
		}
	}()
	return func() { close(done) }
}

// mutex has a turn as an InterProcessMutex.
func (j *javaPeer) mutex(ctx context.Context, session *framework.Session, work *mutexWork) error {
	waits := work.l.right.Wants(j.p)
	path, czxid, unlock, err := j.stand(ctx, work.path)
	waits()
	if err != nil {
		return err
	}
	defer unlock()
	hold, err := session.Hold(ctx, framework.HoldOptions{
		Path:   path,
		Recipe: "mutex",
		Czxid:  czxid,
		Loss:   framework.SessionOnly,
	})
	if err != nil {
		return err
	}
	defer hold.End(framework.ErrReleased)
	g := work.l.granted(j.actor, &grant{hold: hold, path: path, token: czxid})
	work.l.use(
		j.actor,
		g,
		one(func() framework.TransactionOp { return j.c.TransactionOp().Check().ForPath(path) }),
	)
	return nil
}

// leases acquires one or two leases as an InterProcessSemaphoreV2: one after the other, each from the end of the line.
func (j *javaPeer) leases(ctx context.Context, session *framework.Session, work *semaphoreWork) (err error) {
	var held []*grant
	defer func() {
		for _, g := range held {
			g.claim.Returning()
			g.hold.(*framework.Hold).End(framework.ErrReleased)
			j.late()
			j.remove(g.path)
		}
	}()
	for n := 1 + j.r.IntN(2); len(held) < n; {
		g, err := j.lease(ctx, session, work)
		if err != nil {
			return err
		}
		held = append(held, g)
	}
	for _, g := range held {
		work.l.use(
			j.actor,
			g,
			one(func() framework.TransactionOp { return j.c.TransactionOp().Check().ForPath(g.path) }),
		)
	}
	return nil
}

// lease locks, creates its node, and then waits until there are at most as many nodes as leases.
func (j *javaPeer) lease(
	ctx context.Context,
	session *framework.Session,
	work *semaphoreWork,
) (*grant, error) {
	waits := work.l.right.Wants(j.p)
	defer waits()
	_, _, unlock, err := j.stand(ctx, work.path+"/locks")
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := work.path + "/leases"
	path, err := j.view.Create().WithMode(framework.EphemeralSequential).WithProtection().
		CreatingParentContainersIfNeeded().ForPath(ctx, dir+"/lease-", nil)
	if err != nil {
		return nil, err
	}
	for {
		children, watch, err := j.view.GetChildren().WithWatch().ForPath(ctx, dir)
		if err == nil && !slices.Contains(children, zkpath.Base(path)) {
			watch.Stop()
			err = framework.ErrNodeDeleted
		}
		if err == nil && len(children) <= leases {
			watch.Stop()
			options := framework.HoldOptions{Path: path, Recipe: "semaphore", Loss: framework.SessionOnly}
			var hold *framework.Hold
			if hold, err = session.Hold(ctx, options); err == nil {
				return work.l.granted(j.actor, &grant{hold: hold, path: path}), nil
			}
		}
		if err == nil {
			err = awaitEvent(ctx, watch)
		}
		if err != nil {
			j.remove(path)
			return nil, err
		}
	}
}

func awaitEvent(ctx context.Context, watch *framework.Watch) error {
	select {
	case <-watch.C:
		return nil
	case <-ctx.Done():
		watch.Stop()
		return ctx.Err()
	}
}

// stand joins a line with a UUID of version 4, as Curator does, and returns when its node is the first.
func (j *javaPeer) stand(
	ctx context.Context,
	dir string,
) (path string, czxid int64, leave func(), err error) {
	guid := []byte(zkpath.NewGUID())
	guid[14] = '4'
	mine := func(name string) bool { return strings.HasPrefix(name, zkpath.Protect(string(guid), "")) }
	leave = func() {
		j.late()
		j.leave(dir, mine)
	}
	var stat framework.Stat
	path, err = j.view.Create().StoringStatIn(&stat).WithMode(framework.EphemeralSequential).
		CreatingParentContainersIfNeeded().
		ForPath(ctx, zkpath.Join(dir, zkpath.Protect(string(guid), "lock-")), nil)
	for err == nil {
		names, watch, failed := j.view.GetChildren().WithWatch().ForPath(ctx, dir)
		if err = failed; err != nil {
			break
		}
		number := func(name string) string { return name[max(0, len(name)-10):] }
		slices.SortFunc(names, func(a, b string) int { return strings.Compare(number(a), number(b)) })
		i := slices.IndexFunc(names, mine)
		if i <= 0 {
			watch.Stop()
		}
		switch {
		case i == 0:
			return path, stat.Czxid, leave, nil
		case i < 0:
			err = fmt.Errorf("%s: %w", path, framework.ErrNodeDeleted)
			continue
		}
		err = awaitEvent(ctx, watch)
	}
	leave()
	return "", 0, nil, err
}

// late sometimes waits before a delete, as Java's guaranteed deletes are retried in the background.
func (j *javaPeer) late() {
	if j.r.IntN(3) == 0 && !j.w.calm() {
		time.Sleep(below(j.r, j.w.plan.SessionTimeout))
	}
}

// leave deletes a node until it is certainly gone, also if the reply to its create or the session was lost. The list
// follows a write of the same session: a node that it does not show does not exist, and will not be created.
func (j *javaPeer) leave(dir string, mine func(string) bool) {
	for {
		_, err := j.view.SetData().ForPath(background, javaRoot, nil)
		var names []string
		if err == nil {
			names, err = j.view.GetChildren().ForPath(background, dir)
		}
		if err == nil {
			i := slices.IndexFunc(names, mine)
			if i < 0 {
				return
			}
			err = j.view.Delete().Quietly().ForPath(background, zkpath.Join(dir, names[i]))
		}
		if over(err) || err == nil ||
			errors.Is(err, framework.ErrNoNode) && !errors.Is(err, framework.ErrOutcomeUnknown) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// remove deletes a node, until it succeeds or the session is lost.
func (j *javaPeer) remove(path string) {
	for {
		if err := j.view.Delete().Quietly().ForPath(background, path); err == nil || over(err) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func over(err error) bool {
	return errors.Is(err, framework.ErrSessionLost) || errors.Is(err, framework.ErrClosed)
}
