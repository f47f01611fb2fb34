package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// flightSize is the number of requests that may be in flight.
const flightSize = 64

// reading is one call of this package, with its source and its limits.
type reading struct {
	source
	limits
	left   int // nodes that may be read yet
	inLine int // the most participants of one line
}

// source is read by a reading: the servers, or a copy of the tree. Results are in the order of the paths, each with
// the error of its node. The returned error concerns no single node, and then there are no results.
type source interface {
	lists(ctx context.Context, paths ...string) ([]answer[framework.ChildrenResult], error)
	stats(ctx context.Context, paths ...string) ([]answer[framework.ExistsResult], error)
	contents(ctx context.Context, paths ...string) ([]answer[framework.DataResult], error)
	// unpacked is data as its owner meant them.
	unpacked(path string, data []byte) ([]byte, error)
}

// servers are asked through a client.
type servers struct{ client *framework.Client }

func begin(ctx context.Context, client *framework.Client, opts []Option) (*reading, error) {
	l, err := limited(opts)
	switch {
	case err != nil:
		return nil, err
	case ctx == nil:
		return nil, framework.ErrNilContext
	case client == nil:
		return nil, framework.ErrNoClient
	}
	return read(servers{client}, l), nil
}

func read(from source, l limits) *reading {
	return &reading{source: from, limits: l, left: l.nodes, inLine: l.nodes}
}

// answer is the reply to one request: the error is the node's.
type answer[T any] struct {
	value T
	err   error
}

// flights sends a request for each path, with at most flightSize in flight. An error about one node, that it does not
// exist or may not be read, is returned with that node; every other error ends flights. If the connection is lost,
// the requests of a flight are sent again as the client's retry policy says.
func flights[T any](
	ctx context.Context, client *framework.Client, paths []string,
	ask func(ctx context.Context, path string) *framework.Pending[T],
) ([]answer[T], error) {
	all := make([]answer[T], 0, len(paths))
	for len(paths) > 0 {
		flight := paths[:min(len(paths), flightSize)]
		paths = paths[len(flight):]
		var got []answer[T]
		err := client.Retry(ctx, func(ctx context.Context) error {
			got = got[:0]
			pending := make([]*framework.Pending[T], len(flight))
			for i, path := range flight {
				pending[i] = ask(ctx, path)
			}
			for _, p := range pending {
				value, err := p.Wait(ctx)
				if err != nil && !aboutNode(err) {
					return err
				}
				got = append(got, answer[T]{value, err})
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

// aboutNode reports whether an error concerns one node only, so that others may be read.
func aboutNode(err error) bool {
	for _, about := range []error{framework.ErrNoNode, framework.ErrNoAuth, framework.ErrReplyTooLarge} {
		if errors.Is(err, about) {
			return true
		}
	}
	return false
}

func (s servers) lists(ctx context.Context, paths ...string) ([]answer[framework.ChildrenResult], error) {
	list := s.client.GetChildren().InBackground()
	return flights(ctx, s.client, paths, list.ForPath)
}

func (s servers) stats(ctx context.Context, paths ...string) ([]answer[framework.ExistsResult], error) {
	exists := s.client.CheckExists().InBackground()
	return flights(ctx, s.client, paths, exists.ForPath)
}

func (s servers) contents(ctx context.Context, paths ...string) ([]answer[framework.DataResult], error) {
	get := s.client.GetData().Undecompressed().InBackground()
	return flights(ctx, s.client, paths, get.ForPath)
}

func (s servers) unpacked(path string, data []byte) ([]byte, error) {
	return s.client.Unpacked(path, data)
}

// participants reads the nodes of entries: exists for each, which needs READ since 3.8.4 and 3.9.2, and then the data
// of the nodes that have some, and not too much. gone reports whether one of them no longer exists. more counts the
// entries over the limit.
func (r *reading) participants(
	ctx context.Context, dir string, entries []entry,
) (all []Participant, gone bool, more int, err error) {
	some := entries[:max(0, min(len(entries), r.left, r.inLine))]
	more = len(entries) - len(some)
	r.left -= len(some)
	paths := make([]string, len(some))
	for i, e := range some {
		paths[i] = zkpath.Join(dir, e.name)
	}
	stats, err := r.stats(ctx, paths...)
	if err != nil {
		return nil, false, 0, err
	}
	var asked []string
	var of []int // whose data they are
	for i, e := range some {
		stat := stats[i].value.Stat
		if stats[i].err == nil && stat == nil {
			gone = true
			continue
		}
		p := Participant{
			Name: e.name, Path: paths[i], Library: libraryOf(e.name),
			Reader: e.role == reader || e.role == kazooReader, Err: stats[i].err,
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
	data, err := r.contents(ctx, asked...)
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
			p.Data, p.DataLength = r.kept(p.Path, got.value.Data), int(got.value.Stat.DataLength)
			p.Revoked = string(got.value.Data) == revocation
		}
	}
	return all, gone, more, nil
}

// revocation is written into a holder's node by Curator's Revoker and this library's Revoke.
const revocation = "__REVOKE__"

// kept is data as their owner meant them, if they are still small enough then.
func (r *reading) kept(path string, data []byte) []byte {
	if plain, err := r.unpacked(path, data); err == nil && len(plain) <= r.limits.data {
		data = plain
	}
	if len(data) > r.limits.data { // the node has changed since exists
		return nil
	}
	return data
}

func wrap(what, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("inspect: %s %q: %w", what, path, err)
}
