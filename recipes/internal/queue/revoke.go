package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
)

// revokeData is what a revoker puts into the node of the lock that it would like to have. It is part of the contract with Curator for Java.
const revokeData = "__REVOKE__"

// lookAgain is when to read the node again after that has failed.
const lookAgain = time.Second

// Revoke asks the participant whose node is at path to give it up. One who has left already is fine.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	_, err := client.SetData().ForPath(ctx, path, []byte(revokeData))
	if errors.Is(err, framework.ErrNoNode) {
		return nil
	}
	return err
}

// Revoked returns a channel that is closed when somebody asks for the node to be given up, or has asked already. It costs one read now, which is not
// waited for, and one with each change of the data. All but the first look happens on the goroutine of the recipes' callbacks, but for what has to be unpacked,
// and nothing has to be stopped: what it waits for ends with the hold, and the watch goes with the node.
//
// The grant is nobody's yet: it is given up if a hook does not return.
func (g *Grant) Revoked() <-chan struct{} {
	r := &revocation{grant: g, asked: make(chan struct{})}
	looked := false
	defer func() {
		if !looked {
			g.Leave()
		}
	}()
	r.look()
	looked = true
	return r.asked
}

// revocation waits for somebody to ask.
type revocation struct {
	grant *Grant
	asked chan struct{}
	once  sync.Once // closes asked

	mu        sync.Mutex
	unpacking bool   // a goroutine does; guarded by mu
	next      []byte // what it is to unpack then, the latest; guarded by mu
}

// look reads the node, and has changed called with the next change.
func (r *revocation) look() {
	ctx := r.grant.Hold.Context()
	r.grant.Session.Client().ForRecipes().GetData().Undecompressed().Watching(r.changed).InBackground().ForPath(ctx, r.grant.Path).Then(r.seen)
}

func (r *revocation) changed(ev framework.Event) {
	if ev.Type == framework.EventNodeDataChanged && !r.done() {
		r.look()
	}
}

func (r *revocation) seen(node framework.DataResult, err error) {
	switch {
	case r.done(), errors.Is(err, framework.ErrNoNode): // of the latter the hold hears, too
	case err == nil && string(node.Data) == revokeData:
		r.ask()
	case err == nil:
		r.unpack(node.Data)
	case errors.Is(err, framework.ErrNoAuth):
		r.grant.Session.Client().Logger().Warn("a lock may not read its own node: nobody can ask for it to be given up", "path", r.grant.Path)
	default:
		time.AfterFunc(lookAgain, func() {
			if !r.done() {
				r.look()
			}
		})
	}
}

func (r *revocation) ask() { r.once.Do(func() { close(r.asked) }) }

// unpack has the data unpacked, one after the other, on a goroutine for that: the provider is the user's, and may take its time. Of what comes meanwhile the latest
// waits; what was before it has been overwritten, and need not have been seen. What is too large is no request.
func (r *revocation) unpack(data []byte) {
	if len(data) == 0 || len(data) > framework.ContenderDataLimit {
		return
	}
	r.mu.Lock()
	r.next = data
	start := !r.unpacking
	r.unpacking = true
	r.mu.Unlock()
	if start {
		r.grant.Session.Client().Spawn(r.unpackAll)
	}
}

func (r *revocation) unpackAll(context.Context) {
	all := false
	defer func() {
		if !all { // the provider has ended the goroutine
			r.grant.Session.Client().Spawn(r.unpackAll)
		}
	}()
	for data := r.waiting(); data != nil; data = r.waiting() {
		if r.asks(data) {
			r.ask()
		}
	}
	all = true
}

// waiting takes what is to be unpacked next; nil, and nobody unpacks any more, if there is nothing.
func (r *revocation) waiting() (data []byte) {
	over := r.done()
	r.mu.Lock()
	defer r.mu.Unlock()
	if data, r.next = r.next, nil; data == nil || over {
		r.unpacking = false
		return nil
	}
	return data
}

// asks says whether packed data are a request, as Curator for Java, and [Revoke], write it where a client packs everything.
func (r *revocation) asks(data []byte) bool {
	plain, err := r.grant.Session.Client().Unpacked(r.grant.Path, data)
	return err == nil && string(plain) == revokeData
}

// done says that it has been asked, or that there is nothing to ask for any more.
func (r *revocation) done() bool {
	select {
	case <-r.asked:
		return true
	case <-r.grant.Hold.Context().Done():
		return true
	default:
		return false
	}
}
