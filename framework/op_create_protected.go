package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
	"github.com/go-curator/curator/internal/zkpath"
)

// search looks for a protected node below parent in one flight: a committed write of our own, then the list. The write makes a list
// conclusive that does not have the node: whatever this session has sent before is decided by then, and visible. The server's answer to the
// write does not matter, only that it went through the ensemble; a failed check does too.
//
// It returns the nodes' full paths, in the list's order. There is more than one only if a repeat was made when it should not have been.
func search(ctx context.Context, e *epoch, parent, guid string, expire func(*wire.Call) *wire.Call) ([]string, error) {
	write := &wire.Call{Op: jute.OpMulti, Body: jute.Marshal(&jute.MultiRequest{Ops: []jute.MultiOp{
		{Op: jute.OpCheck, Request: &jute.PathVersionRequest{Path: parent, Version: -1}},
	}})}
	replies, err := awaitAll(ctx, e, expire(write), expire(childrenCall(parent)))
	if err != nil {
		return nil, err
	}
	wrote, listed := replies[0], replies[1]
	if err := replyError(wrote); err != nil && !errors.Is(err, ErrNoNode) && !errors.Is(err, ErrNoAuth) {
		return nil, err
	}
	if err := replyError(listed); errors.Is(err, ErrNoNode) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if wrote.Link != listed.Link {
		return nil, ErrConnectionLoss // the list may come from a member that has not seen the write
	}
	var list jute.Children2Response
	if err := decode(listed.Body, &list); err != nil {
		return nil, err
	}
	var found []string
	prefix := zkpath.Protect(guid, "")
	for _, name := range list.Children {
		if strings.HasPrefix(name, prefix) {
			found = append(found, zkpath.Join(parent, name))
		}
	}
	return found, nil
}

// stat reads a node's Stat; nil if there is no node.
func (c *Client) stat(ctx context.Context, e *epoch, full string) (*Stat, error) {
	r, _, err := await(ctx, e, c.expiring(&wire.Call{Op: jute.OpExists, Body: jute.Marshal(&jute.PathWatchRequest{Path: full})}), nil)
	if err == nil {
		err = replyError(r)
	}
	if errors.Is(err, ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var res jute.StatResponse
	if err := decode(r.Body, &res); err != nil {
		return nil, err
	}
	stat := Stat(res.Stat)
	return &stat, nil
}

// recoverProtected finds out whether a create with an unknown outcome has made its node, and takes it over.
func (c *Client) recoverProtected(ctx context.Context, e *epoch, p *protected) (path string, stat Stat, done bool, err error) {
	before := p.epoch
	if before != e && p.ephemeral {
		// The node of the session before is not ours, whether it is still there or not (CURATOR-604). It goes with that session.
		p.renew()
		return "", stat, false, nil
	}
	found, err := search(ctx, e, p.parent, p.guid, c.expiring)
	if err != nil {
		return "", stat, false, stillUnknown(err)
	}
	for _, path := range found {
		s, err := c.stat(ctx, e, path)
		if err != nil {
			return "", stat, false, stillUnknown(err)
		}
		if s == nil {
			continue // it was made, and somebody has deleted it since
		}
		if p.ephemeral && s.EphemeralOwner != e.wire.ID() {
			_ = c.core.ops.janitor.add(task{path: path, version: -1}) // CURATOR-498
			continue
		}
		return path, *s, true, nil
	}
	if before != e {
		// A persistent node may still be made by what is left of the session before. It must not be taken for the next try's.
		_ = c.core.ops.janitor.add(p.search())
		p.renew()
	}
	return "", stat, false, nil
}

// stillUnknown is the error of a create whose recovery has failed: what was unknown still is.
func stillUnknown(err error) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w (looking for the node: %w)", ErrConnectionLoss, err)
}

// protected is a create that can be found again.
type protected struct {
	parent, name string // full path of the parent, name as asked for
	ephemeral    bool
	guid         string
	epoch        *epoch // of the last try
}

func (p *protected) renew()       { p.guid = zkpath.NewGUID() }
func (p *protected) path() string { return zkpath.Join(p.parent, zkpath.Protect(p.guid, p.name)) }

// search is the clean-up of a last try of which nothing is known, remove that of one whose node is known.
func (p *protected) search() task {
	return task{path: p.parent, guid: p.guid, origin: p.epoch, bound: p.bound()}
}

func (p *protected) remove(path string) task {
	return task{path: path, version: -1, bound: p.bound()}
}

// bound is the epoch with which the node goes anyway; nil if it stays.
func (p *protected) bound() *epoch {
	if p.ephemeral {
		return p.epoch
	}
	return nil
}
