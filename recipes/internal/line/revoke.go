package line

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
)

// revokeData is what a revoker puts into the holder's node. It is part of the contract with Curator for Java.
const revokeData = "__REVOKE__"

// readAgain is how long to wait before the node is read again after a failure.
const readAgain = time.Second

// Revoke asks the participant whose node is at path to give it up. One that has left already is no error.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	_, err := client.SetData().ForPath(ctx, path, []byte(revokeData))
	return Unless(err, framework.ErrNoNode)
}

// Revoked returns a channel that is closed when somebody asks for the node to be given up, or has asked
// already. It costs one read now, which is not waited for, and one with each change of the data. Nothing has
// to be stopped: what it waits for ends with the hold, and the watch goes with the node.
//
// Nobody has the grant yet: if a hook does not return, the grant is abandoned.
func (g *Grant) Revoked() <-chan struct{} {
	r := &revocation{grant: g, asked: make(chan struct{})}
	reading := false
	defer func() {
		if !reading {
			g.Abandon()
		}
	}()
	r.read()
	reading = true
	return r.asked
}

type revocation struct {
	grant *Grant
	asked chan struct{}
	once  sync.Once // closes asked

	mu        sync.Mutex
	unpacking bool   // there is a goroutine that unpacks; guarded by mu
	next      []byte // the latest data, which it unpacks next; guarded by mu
}

func (r *revocation) read() {
	get := r.grant.Session.Client().ForRecipes().GetData().Undecompressed().Watching(r.changed).InBackground()
	get.ForPath(r.grant.Hold.Context(), r.grant.Path).Then(r.seen)
}

func (r *revocation) changed(ev framework.Event) {
	if ev.Type == framework.EventNodeDataChanged && !r.done() {
		r.read()
	}
}

func (r *revocation) seen(node framework.DataResult, err error) {
	switch {
	case r.done(), errors.Is(err, framework.ErrNoNode): // the hold hears of the latter, too
	case err == nil && string(node.Data) == revokeData:
		r.ask()
	case err == nil:
		r.unpack(node.Data)
	case errors.Is(err, framework.ErrNoAuth):
		log := r.grant.Session.Client().Logger()
		log.Warn("no permission to read the lock's own node: requests to revoke the lock will not be noticed",
			"path", r.grant.Path)
	default:
		time.AfterFunc(readAgain, func() {
			if !r.done() {
				r.read()
			}
		})
	}
}

func (r *revocation) ask() { r.once.Do(func() { close(r.asked) }) }

// unpack has the data unpacked on a goroutine, since the user's code that unpacks may be slow. Of data that
// come meanwhile only the latest are unpacked next: the others have been overwritten. What is too large is no
// request.
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
		if !all { // the user's code has ended the goroutine
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

// waiting takes what is to be unpacked next; nil, and unpacking is over, if there is nothing.
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

// asks says whether packed data are a request. A client that packs everything packs requests, too.
func (r *revocation) asks(data []byte) bool {
	plain, err := r.grant.Session.Client().Unpacked(r.grant.Path, data)
	return err == nil && string(plain) == revokeData
}

// done says that somebody has asked, or that the hold has ended.
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
