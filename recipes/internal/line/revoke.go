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

// revocationRetry is the pause before the node is read again after a failure.
const revocationRetry = time.Second

// Revoke asks the participant whose node is at path to release its hold. It returns nil if the node is gone already.
func Revoke(ctx context.Context, client *framework.Client, path string) error {
	_, err := client.SetData().ForPath(ctx, path, []byte(revokeData))
	return IgnoreError(err, framework.ErrNoNode)
}

// StartRevocationWatch returns a channel that is closed when a client asks for the grant's release, or has asked already. It
// sends one read, without waiting for it, and one after each change of the data. It need not be stopped: it ends with
// the hold, and the watch with the node. Call it before the grant is returned: if a hook does not return, it releases the
// grant.
func (g *Grant) StartRevocationWatch() <-chan struct{} {
	r := &revocationWatch{grant: g, requested: make(chan struct{})}
	reading := false
	defer func() {
		if !reading {
			g.ReleaseNoWait()
		}
	}()
	r.readNode()
	reading = true
	return r.requested
}

// revocationWatch reads the data of a grant's node, and again after each change, until they are a request.
type revocationWatch struct {
	grant     *Grant
	requested chan struct{}
	once      sync.Once // closes requested

	mu        sync.Mutex
	unpacking bool   // the goroutine of unpackPending runs; guarded by mu
	nextData  []byte // the latest data, which it decompresses next; guarded by mu
}

func (r *revocationWatch) readNode() {
	get := r.grant.Session.Client().ForRecipes().GetData().Undecompressed().Watching(r.handleEvent).InBackground()
	get.ForPath(r.grant.Hold.Context(), r.grant.Path).Then(r.handleData)
}

func (r *revocationWatch) handleEvent(ev framework.Event) {
	if ev.Type == framework.EventNodeDataChanged && !r.hasEnded() {
		r.readNode()
	}
}

func (r *revocationWatch) handleData(node framework.DataResult, err error) {
	switch {
	case r.hasEnded(), errors.Is(err, framework.ErrNoNode): // in the latter case the hold ends, too
	case err == nil && string(node.Data) == revokeData:
		r.closeRequested()
	case err == nil:
		r.queueUnpack(node.Data)
	case errors.Is(err, framework.ErrNoAuth):
		log := r.grant.Session.Client().Logger()
		log.Warn("no permission to read our own lock's node: requests to revoke it will not be noticed",
			"path", r.grant.Path)
	default:
		time.AfterFunc(revocationRetry, func() {
			if !r.hasEnded() {
				r.readNode()
			}
		})
	}
}

func (r *revocationWatch) closeRequested() { r.once.Do(func() { close(r.requested) }) }

// queueUnpack has the data decompressed on a separate goroutine, since the user's provider may be slow. Data that are
// overwritten before their turn are dropped. Data that are too large are not a request.
func (r *revocationWatch) queueUnpack(data []byte) {
	if len(data) == 0 || len(data) > framework.ContenderDataLimit {
		return
	}
	r.mu.Lock()
	r.nextData = data
	start := !r.unpacking
	r.unpacking = true
	r.mu.Unlock()
	if start {
		r.grant.Session.Client().Spawn(r.unpackPending)
	}
}

func (r *revocationWatch) unpackPending(context.Context) {
	all := false
	defer func() {
		if !all { // the user's code has ended the goroutine
			r.grant.Session.Client().Spawn(r.unpackPending)
		}
	}()
	for data := r.takeNextData(); data != nil; data = r.takeNextData() {
		if r.isRequest(data) {
			r.closeRequested()
		}
	}
	all = true
}

// takeNextData takes the data to decompress next; nil, which ends the decompression, if there are none.
func (r *revocationWatch) takeNextData() (data []byte) {
	ended := r.hasEnded()
	r.mu.Lock()
	defer r.mu.Unlock()
	if data, r.nextData = r.nextData, nil; data == nil || ended {
		r.unpacking = false
		return nil
	}
	return data
}

// isRequest reports whether compressed data are a request.
func (r *revocationWatch) isRequest(data []byte) bool {
	plain, err := r.grant.Session.Client().Unpacked(r.grant.Path, data)
	return err == nil && string(plain) == revokeData
}

// hasEnded reports whether the request has come, or the hold has ended.
func (r *revocationWatch) hasEnded() bool {
	select {
	case <-r.requested:
		return true
	case <-r.grant.Hold.Context().Done():
		return true
	default:
		return false
	}
}

// WatchRevocation starts the grant's revocation watch, once, if the Line is Revocable, and returns its channel; otherwise
// nil. Call it before the grant is shared. If a hook does not return, it releases the grant.
func (l *Line) WatchRevocation(g *Grant) <-chan struct{} {
	if l.Revocable && g.revoked == nil {
		g.revoked = g.StartRevocationWatch()
	}
	return g.revoked
}

// Revoked returns the channel of WatchRevocation; nil without it.
func (g *Grant) Revoked() <-chan struct{} { return g.revoked }
