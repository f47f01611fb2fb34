package inspect

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// Found is the result of [Locks].
type Found struct {
	// Lines are the lines with a holder or a waiter: first the line whose first waiter has waited longest, and at the
	// end the lines without a waiter, the longest held first.
	Lines []Line
	// Stopped is a sentence about why the search is incomplete, or "" if it is complete.
	Stopped string
	// Unreadable are nodes whose children cannot be listed, at most 20; UnreadableCount is the number of all of
	// them.
	Unreadable      []string
	UnreadableCount int
}

// mostInLine bounds the holders, and the waiters, that Locks reads of one line: a long line must not hide the others.
const mostInLine = 500

// Locks finds every line at root and below it: all that has participants with sessions, and queues with items. It
// does not look into /zookeeper, nor below a participant.
//
// Errors: ErrInvalidPath; ErrNoNode if root does not exist, and ErrNoAuth if its children may not be listed; the
// errors that any read can have. Unreadable has the nodes further down that cannot be read.
//
// It sends one list for each node except participants, and for each line the further requests of [Who]. It stops after
// [WithMostNodes] nodes and at [WithMostDepth] levels, and sets Stopped. Of a line it reads the first 500 holders and
// the first 500 waiters; [Line.More] counts the others.
func Locks(ctx context.Context, client *framework.Client, root string, opts ...Option) (Found, error) {
	r, err := newServerReader(ctx, client, opts)
	if err != nil {
		return Found{}, pathError("locks", root, err)
	}
	f, err := r.findLines(ctx, root)
	return f, pathError("locks", root, err)
}

func (r *treeReader) findLines(ctx context.Context, root string) (Found, error) {
	r.mostParticipants = min(r.mostParticipants, mostInLine)
	var f Found
	level := []string{root}
	for depth := 0; len(level) > 0; depth++ {
		if depth > r.depth {
			f.Stopped = "there is more below " + formatCount(r.depth, "level", "levels")
			break
		}
		var below []string
		for len(level) > 0 && f.Stopped == "" {
			some := level[:min(len(level), requestWindow, max(r.nodesLeft, 0))]
			if level = level[len(some):]; len(some) == 0 {
				f.Stopped = formatCount(r.limits.nodes, "node was read", "nodes were read")
				break
			}
			r.nodesLeft -= len(some)
			lists, err := r.listChildren(ctx, some...)
			if err != nil {
				return Found{}, err
			}
			if depth == 0 && lists[0].err != nil {
				return Found{}, lists[0].err
			}
			for i, path := range some {
				more, err := r.examineNode(ctx, &f, path, lists[i])
				if err != nil {
					return Found{}, err
				}
				below = append(below, more[:min(len(more), max(r.limits.nodes-len(below), 0))]...)
			}
		}
		level = below
	}
	parts := map[string]bool{} // paths of the lines that belong to kazoo's semaphores
	for _, l := range f.Lines {
		if l.Kind == Semaphore {
			parts[l.Path+kazooLineSuffix] = true
		}
	}
	f.Lines = slices.DeleteFunc(f.Lines, func(l Line) bool { return parts[l.Path] })
	sortLines(f.Lines)
	return f, nil
}

// examineNode adds the node's line to f, if it has one, and returns the children that may have lines below them.
func (r *treeReader) examineNode(
	ctx context.Context, f *Found, path string, list nodeResult[framework.ChildrenResult],
) (below []string, err error) {
	switch {
	case errors.Is(list.err, framework.ErrNoNode):
		return nil, nil
	case list.err != nil:
		if f.UnreadableCount++; len(f.Unreadable) < mostForeign {
			f.Unreadable = append(f.Unreadable, path)
		}
		return nil, nil
	}
	s := classifyChildren(list.value.Names)
	children := list.value.Names
	if s.kind != Leaf && (s.kind != Unknown || s.leases) {
		before := r.nodesLeft
		line, _, err := r.readLine(ctx, path, list)
		if err != nil {
			return nil, err
		}
		if line.isInUse() {
			f.Lines = append(f.Lines, line)
			if children = s.foreign; line.Kind == Semaphore {
				children = nil
			}
		} else {
			r.nodesLeft = max(r.nodesLeft, before-len(children)) // each counts when it is listed
		}
	}
	for _, name := range children {
		if p := zkpath.Join(path, name); p != "/zookeeper" {
			below = append(below, p)
		}
	}
	return below, nil
}

// isInUse reports whether the line has items, or a participant with a session or with a Stat that cannot be read.
func (l Line) isInUse() bool {
	switch l.Kind {
	case Mutex, ReadWriteLock, Latch, Semaphore, DoubleBarrier, Members:
		all := slices.Concat(l.Holders, l.Waiting)
		return slices.ContainsFunc(all, func(p Participant) bool { return p.Session != 0 || p.Err != nil && p.Token == 0 })
	case Queue:
		return len(l.Waiting) > 0
	}
	return false
}

// sortLines puts the line that has waited longest first.
func sortLines(lines []Line) {
	since := func(all []Participant) (t time.Time, some bool) {
		for _, p := range all {
			if !p.Since.IsZero() && (!some || p.Since.Before(t)) {
				t, some = p.Since, true
			}
		}
		return t, some
	}
	slices.SortStableFunc(lines, func(a, b Line) int {
		aWaits, aSome := since(a.Waiting)
		bWaits, bSome := since(b.Waiting)
		switch {
		case aSome && bSome:
			return cmp.Or(aWaits.Compare(bWaits), cmp.Compare(a.Path, b.Path))
		case aSome != bSome:
			if aSome {
				return -1
			}
			return 1
		}
		aHeld, _ := since(a.Holders)
		bHeld, _ := since(b.Holders)
		return cmp.Or(aHeld.Compare(bHeld), cmp.Compare(a.Path, b.Path))
	})
}
