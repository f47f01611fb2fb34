package line

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
)

// revokeData is the data that a revoker writes to the holder's node, as in Curator for Java.
const revokeData = "__REVOKE__"

// readAgain is the pause before the node is read again after a failure.
const readAgain = time.Second

// Revoke asks the participant whose node is at path to give it up. It returns nil if the node is gone already.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	_, err := client.SetData().ForPath(ctx, path, []byte(revokeData))
	return Unless(err, framework.ErrNoNode)
}

// Revoked returns a channel that is closed when another client asks for the grant to be given up, or has asked already.
// It costs one read now, which is not waited for, and one with each change of the data. It need not be stopped: it ends
// with the hold, and the watch goes with the node.
//
// It must be called before the grant is returned: if a hook does not return, the grant is abandoned.
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
	case r.done(), errors.Is(err, framework.ErrNoNode): // in the latter case the hold ends, too
	case err == nil && string(node.Data) == revokeData:
		r.ask()
	case err == nil:
		r.unpack(node.Data)
	case errors.Is(err, framework.ErrNoAuth):
		log := r.grant.Session.Client().Logger()
		log.Warn("no permission to read our own lock's node: requests to revoke it will not be noticed",
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

// unpack decompresses the data on a separate goroutine, since the user's provider may be slow. Of data that come in the
// meantime only the latest are decompressed next: the others have been overwritten. Data that are too large are not a
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

// waiting takes the data to decompress next; nil, which ends the decompression, if there are none.
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

// asks reports whether packed data are a request. A client that packs everything packs requests, too.
func (r *revocation) asks(data []byte) bool {
	plain, err := r.grant.Session.Client().Unpacked(r.grant.Path, data)
	return err == nil && string(plain) == revokeData
}

// done reports whether the request has come, or the hold has ended.
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
