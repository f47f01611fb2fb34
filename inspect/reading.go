package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// requestWindow is the number of requests that may be in flight.
const requestWindow = 64

// treeReader is one call of this package, with its source and its limits.
type treeReader struct {
	nodeSource
	limits
	nodesLeft        int // nodes that may be read yet
	mostParticipants int // the most participants of one line
}

// nodeSource is read by a treeReader: the servers, or a copy of the tree. The results are in the order of the paths,
// each with the error of its node. A returned error concerns the whole read: then there are no results.
type nodeSource interface {
	listChildren(ctx context.Context, paths ...string) ([]nodeResult[framework.ChildrenResult], error)
	readStats(ctx context.Context, paths ...string) ([]nodeResult[framework.ExistsResult], error)
	readContents(ctx context.Context, paths ...string) ([]nodeResult[framework.DataResult], error)
	// unpackData returns the data as their owner gave them to its client: decompressed.
	unpackData(path string, data []byte) ([]byte, error)
}

// serverSource is the servers, through a client.
type serverSource struct{ client *framework.Client }

func newServerReader(ctx context.Context, client *framework.Client, opts []Option) (*treeReader, error) {
	l, err := applyOptions(opts)
	switch {
	case err != nil:
		return nil, err
	case ctx == nil:
		return nil, framework.ErrNilContext
	case client == nil:
		return nil, framework.ErrNoClient
	}
	return newTreeReader(serverSource{client}, l), nil
}

func newTreeReader(from nodeSource, l limits) *treeReader {
	return &treeReader{nodeSource: from, limits: l, nodesLeft: l.nodes, mostParticipants: l.nodes}
}

// nodeResult is the reply to one request: the error is the node's.
type nodeResult[T any] struct {
	value T
	err   error
}

// requestAll sends a request for each path, with at most requestWindow in flight. An error of one node (isNodeError) is
// in its result; every other error ends requestAll. If the connection is lost, the requests of a window are sent again
// as the client's retry policy says.
func requestAll[T any](
	ctx context.Context, client *framework.Client, paths []string,
	ask func(ctx context.Context, path string) *framework.Pending[T],
) ([]nodeResult[T], error) {
	all := make([]nodeResult[T], 0, len(paths))
	for len(paths) > 0 {
		flight := paths[:min(len(paths), requestWindow)]
		paths = paths[len(flight):]
		var got []nodeResult[T]
		err := client.Retry(ctx, func(ctx context.Context) error {
			got = got[:0]
			pending := make([]*framework.Pending[T], len(flight))
			for i, path := range flight {
				pending[i] = ask(ctx, path)
			}
			for _, p := range pending {
				value, err := p.Wait(ctx)
				if err != nil && !isNodeError(err) {
					return err
				}
				got = append(got, nodeResult[T]{value, err})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
	}
	return all, nil
}

// isNodeError reports whether an error concerns one node only, so that others may be read.
func isNodeError(err error) bool {
	for _, about := range []error{framework.ErrNoNode, framework.ErrNoAuth, framework.ErrReplyTooLarge} {
		if errors.Is(err, about) {
			return true
		}
	}
	return false
}

func (s serverSource) listChildren(ctx context.Context, paths ...string) ([]nodeResult[framework.ChildrenResult], error) {
	list := s.client.GetChildren().InBackground()
	return requestAll(ctx, s.client, paths, list.ForPath)
}

func (s serverSource) readStats(ctx context.Context, paths ...string) ([]nodeResult[framework.ExistsResult], error) {
	exists := s.client.CheckExists().InBackground()
	return requestAll(ctx, s.client, paths, exists.ForPath)
}

func (s serverSource) readContents(ctx context.Context, paths ...string) ([]nodeResult[framework.DataResult], error) {
	get := s.client.GetData().Undecompressed().InBackground()
	return requestAll(ctx, s.client, paths, get.ForPath)
}

func (s serverSource) unpackData(path string, data []byte) ([]byte, error) {
	return s.client.Unpacked(path, data)
}

// readParticipants reads the nodes of entries: first an exists for each, which needs READ since 3.8.4 and 3.9.2, and
// then the data of nodes that have data within the limit. gone reports whether one of the nodes no longer exists. more
// counts the entries over the limits.
func (r *treeReader) readParticipants(
	ctx context.Context, dir string, entries []childEntry,
) (all []Participant, gone bool, more int, err error) {
	some := entries[:max(0, min(len(entries), r.nodesLeft, r.mostParticipants))]
	more = len(entries) - len(some)
	r.nodesLeft -= len(some)
	paths := make([]string, len(some))
	for i, e := range some {
		paths[i] = zkpath.Join(dir, e.name)
	}
	stats, err := r.readStats(ctx, paths...)
	if err != nil {
		return nil, false, 0, err
	}
	var asked []string // the paths of nodes whose data are read
	var of []int       // their indexes in all
	for i, e := range some {
		stat := stats[i].value.Stat
		if stats[i].err == nil && stat == nil {
			gone = true
			continue
		}
		p := Participant{
			Name: e.name, Path: paths[i], Library: libraryOf(e.name),
			Reader: e.role == lockReader || e.role == kazooReader, Err: stats[i].err,
		}
		if stat != nil {
			p.Session, p.Token, p.Since = stat.EphemeralOwner, stat.Czxid, stat.Created()
			p.DataLength = int(stat.DataLength)
			if p.DataLength > 0 && p.DataLength <= r.limits.data {
				asked, of = append(asked, p.Path), append(of, len(all))
			}
		}
		all = append(all, p)
	}
	data, err := r.readContents(ctx, asked...)
	if err != nil {
		return nil, false, 0, err
	}
	for i, n := range of {
		p := &all[n]
		switch got := data[i]; {
		case errors.Is(got.err, framework.ErrNoNode):
			gone = true
		case got.err != nil:
			p.Err = got.err
		default:
			p.Data, p.DataLength = r.visibleData(p.Path, got.value.Data), int(got.value.Stat.DataLength)
			p.Revoked = string(got.value.Data) == revocation
		}
	}
	return all, gone, more, nil
}

// revocation is written into a holder's node by Curator's Revoker and this library's Revoke.
const revocation = "__REVOKE__"

// visibleData returns the unpacked data if they are within the limit, otherwise the data as stored; nil if these are
// not, either.
func (r *treeReader) visibleData(path string, data []byte) []byte {
	if plain, err := r.unpackData(path, data); err == nil && len(plain) <= r.limits.data {
		data = plain
	}
	if len(data) > r.limits.data { // the node has changed since exists
		return nil
	}
	return data
}

func pathError(what, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("inspect: %s %q: %w", what, path, err)
}
