package queue

import (
	"context"
	"errors"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/mutant"
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
// waited for, and one with each change of the data. All but the first look happens on the goroutine of the recipes' callbacks, and nothing has to be
// stopped: what it waits for ends with the hold, and the watch goes with the node.
//
// The grant is nobody's yet: it is given up if a hook does not return.
func (g *Grant) Revoked() <-chan struct{} {
	r := &revocation{g, make(chan struct{})}
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
}

// look reads the node, and has changed called with the next change.
func (r *revocation) look() {
	ctx := r.grant.Hold.Context()
	r.grant.Session.Client().ForRecipes().GetData().Undecompressed().Watching(r.changed).InBackground().ForPath(ctx, r.grant.Path).Then(r.seen)
}

func (r *revocation) changed(ev framework.Event) {
	if ev.Type == framework.EventNodeDataChanged && !r.done() && !mutant.On("request to give up not read") {
		r.look()
	}
}

func (r *revocation) seen(node framework.DataResult, err error) {
	switch {
	case r.done(), errors.Is(err, framework.ErrNoNode): // of the latter the hold hears, too
	case err == nil && r.asks(node.Data):
		close(r.asked)
	case err == nil:
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

// asks says whether the data are a request. Packed they are what Curator for Java, and [Revoke], write where a client packs everything.
func (r *revocation) asks(data []byte) bool {
	return string(data) == revokeData || string(r.grant.Session.Client().Unpacked(r.grant.Path, data)) == revokeData
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
