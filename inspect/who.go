package inspect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
)

// Line is the state of one path: its holders, and its waiters in order.
type Line struct {
	Path string
	Kind Kind
	// Holders have it now: one, or several readers, leases, members. See the package's documentation for the limits
	// of that.
	Holders []Participant
	// Waiting are next, the first one first.
	Waiting []Participant
	// More is the number of participants that were not read: WithMostNodes was reached.
	More int
	// Children is the number of the node's children.
	Children int
	// Foreign are the names of children that take no part, at most 20; ForeignCount is the number of all of them.
	Foreign      []string
	ForeignCount int
	// Max is the number of leases, as kazoo writes into its semaphore's node; 0 if unknown.
	Max int
	// Number is a counter's value, and nil if the node is none.
	Number *int64
	// Data are the data of a Number or a Leaf, if they are not too many; DataLength is their length in bytes.
	Data       []byte
	DataLength int
	// NumbersUsed is how many of the path's 2147483647 sequence numbers are used up, as far as the names show; 0 if
	// none of them has a number.
	NumbersUsed int64
	// Notes are sentences for people about problems of this line.
	Notes []string
}

// Participant is a holder or a waiter: its node, and the known facts about its owner.
type Participant struct {
	// Name is the name of its node, Path the node's path. A name may contain anything.
	Name, Path string
	// Library is the library that made the node, judged by its name; "" if any could have.
	Library Library
	// Reader reports whether it shares a read-write lock with other readers.
	Reader bool
	// Since is the time at which it joined the line, by the servers' clock. Session is its owner's session; 0 means
	// that the node is not ephemeral, and stays when its owner's session ends. Token is the fencing token that it has
	// once it holds.
	Since   time.Time
	Session int64
	Token   int64
	// Data are the data of its node, decompressed if the client would; nil if there are more than WithMostData
	// allows. DataLength is the length in bytes of the node's data.
	Data       []byte
	DataLength int
	// Revoked reports whether it was asked to release the lock.
	Revoked bool
	// Err is the error of reading its node: it matches framework.ErrNoAuth, for example. If the servers refuse its
	// stat, too (since 3.8.4 and 3.9.2 that needs READ), Since, Session and Token are zero; otherwise only Data and
	// Revoked are unknown.
	Err error
}

// mostForeign is the number of foreign children that are named.
const mostForeign = 20

// Who reads the line at a path: its kind, its holders and its waiters.
//
// A path without a node is not an error: its kind is [Nothing]. Errors: ErrInvalidPath; ErrNoAuth if the client may
// not list the path's children; the errors that any read can have.
//
// It sends one list (two more for a semaphore, for kazoo's a getData and one more), one exists for each participant,
// and one getData for each that has data; for a node without children one getData. If a holder leaves between these
// requests, Who begins again, up to three times.
func Who(ctx context.Context, client *framework.Client, path string, opts ...Option) (Line, error) {
	r, err := newServerReader(ctx, client, opts)
	if err != nil {
		return Line{}, pathError("who", path, err)
	}
	for tries := 1; ; tries++ {
		r.nodesLeft = r.limits.nodes
		lists, err := r.listChildren(ctx, path)
		if err != nil {
			return Line{}, pathError("who", path, err)
		}
		line, gone, err := r.readLine(ctx, path, lists[0])
		if err != nil || !gone || tries == 3 {
			line.noteChroot(ctx, client)
			return line, pathError("who", path, err)
		}
	}
}

// noteChroot adds a note to a missing line if the chroot is missing as well: below a misspelt chroot no node exists.
func (l *Line) noteChroot(ctx context.Context, client *framework.Client) {
	if l.Kind != Nothing {
		return
	}
	if _, err := client.GetACL().ForPath(ctx, "/"); errors.Is(err, framework.ErrNoChroot) {
		l.Notes = append(l.Notes, err.Error())
	}
}

// readLine makes a line of a node and its children. gone reports whether a holder has left during the read.
func (r *treeReader) readLine(
	ctx context.Context, path string, list nodeResult[framework.ChildrenResult],
) (l Line, gone bool, err error) {
	l = Line{Path: path}
	switch {
	case errors.Is(list.err, framework.ErrNoNode):
		l.Kind = Nothing
		return l, false, nil
	case list.err != nil:
		return l, false, list.err
	}
	stat := list.value.Stat
	s := classifyChildren(list.value.Names)
	l.Kind, l.Children, l.DataLength = s.kind, len(list.value.Names), int(stat.DataLength)
	switch {
	case s.kind == Leaf || s.kind == Number:
		err = r.readLeaf(ctx, &l, stat)
		l.setForeign(s.foreign)
		return l, false, err
	case s.kind == Unknown && s.leases:
		return r.readSemaphore(ctx, l, s)
	case s.fromKazoo && 0 < l.DataLength && l.DataLength < 10:
		return r.readKazooSemaphore(ctx, l, s)
	}
	holding := ""
	if s.kind == Mutex && len(s.holders) > 0 {
		holding = s.holders[0].key
	}
	gone, err = r.fillParticipants(ctx, &l, path, path, s.holders, s.waiting)
	l.setForeign(s.foreign)
	l.addNotes(s, holding)
	return l, gone, err
}

// fillParticipants reads the participants of a line. gone reports whether a holder is gone: then the lists are outdated.
func (r *treeReader) fillParticipants(
	ctx context.Context, l *Line, holdersIn, waitingIn string, holders, waiting []childEntry,
) (gone bool, err error) {
	var more int
	if l.Holders, gone, more, err = r.readParticipants(ctx, holdersIn, holders); err != nil {
		return false, err
	}
	l.More += more
	if l.Waiting, _, more, err = r.readParticipants(ctx, waitingIn, waiting); err != nil {
		return false, err
	}
	l.More += more
	l.NumbersUsed = numbersUsed(slices.Concat(holders, waiting))
	return gone, nil
}

// readKazooSemaphore reads a kazoo semaphore: the node's data is the number of leases, and the line is at a sibling of
// the node. If the data are not a positive number l keeps its kind.
func (r *treeReader) readKazooSemaphore(ctx context.Context, l Line, s lineShape) (Line, bool, error) {
	data, err := r.readContents(ctx, l.Path)
	if err != nil {
		return l, false, err
	}
	var line []childEntry
	if n, err := strconv.Atoi(string(data[0].value.Data)); err == nil && n > 0 {
		lists, err := r.listChildren(ctx, l.Path+kazooLineSuffix)
		if err != nil {
			return l, false, err
		}
		in := classifyChildren(lists[0].value.Names)
		l.Kind, l.Max, line = Semaphore, n, append(in.holders, in.waiting...)
	}
	gone, err := r.fillParticipants(ctx, &l, l.Path, l.Path+kazooLineSuffix, s.holders, line)
	l.setForeign(s.foreign)
	return l, gone, err
}

// readSemaphore reads the lists of a semaphore written by Curator or by this library. A node that only has children of
// these names is not a semaphore.
func (r *treeReader) readSemaphore(ctx context.Context, l Line, s lineShape) (Line, bool, error) {
	dirs := []string{zkpath.Join(l.Path, leasesName)}
	if s.locks {
		dirs = append(dirs, zkpath.Join(l.Path, locksName))
	}
	lists, err := r.listChildren(ctx, dirs...)
	if err != nil {
		return l, false, err
	}
	var leases, line []childEntry
	var others []string
	for _, name := range lists[0].value.Names {
		if e := parseChild(name); e.role == leaseNode {
			leases = append(leases, e)
		} else {
			others = append(others, zkpath.Join(leasesName, name)[1:])
		}
	}
	slices.SortStableFunc(leases, func(a, b childEntry) int { return strings.Compare(a.key, b.key) })
	if len(lists) > 1 {
		in := classifyChildren(lists[1].value.Names)
		line = append(in.holders, in.waiting...)
		for _, name := range in.foreign {
			others = append(others, zkpath.Join(locksName, name)[1:])
		}
		if in.kind != Mutex && in.kind != Leaf {
			line = nil
		}
	}
	none := len(leases) == 0 && len(line) == 0
	if used := lists[0].value.Stat.Cversion > 0; none && (len(others) > 0 || !used) {
		l.setForeign(s.foreign) // directories that are called so by chance
		return l, false, nil
	}
	l.Kind = Semaphore
	gone, err := r.fillParticipants(ctx, &l, dirs[0], zkpath.Join(l.Path, locksName), leases, line)
	for _, name := range s.foreign {
		if name != leasesName && name != locksName {
			others = append(others, name)
		}
	}
	l.setForeign(others)
	for _, list := range lists {
		if list.err != nil {
			l.Notes = append(l.Notes, fmt.Sprintf("a part of the semaphore cannot be read: %v", list.err))
		}
	}
	l.addNotes(s, "")
	return l, gone, err
}

// readLeaf reads a node without participants: its data are a number, or anything.
func (r *treeReader) readLeaf(ctx context.Context, l *Line, stat framework.Stat) error {
	marked := l.Kind == Number
	if !marked && stat.Cversion > 0 && stat.DataLength == 0 {
		l.Kind = Idle
		return nil
	}
	if l.DataLength == 0 || l.DataLength > r.limits.data {
		return nil
	}
	got, err := r.readContents(ctx, l.Path)
	switch {
	case err != nil:
		return err
	case errors.Is(got[0].err, framework.ErrNoNode):
		return nil
	case got[0].err != nil:
		l.Notes = append(l.Notes, fmt.Sprintf("the data cannot be read: %v", got[0].err))
		return nil
	}
	l.Data = got[0].value.Data
	if n, ok := parseNumber(l.Data); ok || marked {
		if l.Kind = Number; ok {
			l.Number = &n
		}
	} else if stat.Cversion > 0 && len(l.Data) > 0 {
		l.Kind = Idle // Curator writes the host's address into directories
	}
	return nil
}

// parseNumber reads a counter: kazoo's is text, others have 8 or 4 bytes, big-endian. Other text is none, such as
// the address 10.0.0.1, which Curator writes into many nodes and which has 8 bytes.
func parseNumber(data []byte) (int64, bool) {
	if n, err := strconv.ParseInt(string(data), 10, 64); err == nil {
		return n, true
	}
	switch isText := plain.Is(string(data)); {
	case len(data) == 8 && !isText:
		return int64(binary.BigEndian.Uint64(data)), true
	case len(data) == 4 && !isText:
		return int64(int32(binary.BigEndian.Uint32(data))), true
	}
	return 0, false
}

// setForeign sets Foreign and ForeignCount.
func (l *Line) setForeign(names []string) {
	l.ForeignCount = len(names)
	slices.Sort(names)
	l.Foreign = slices.Clone(names[:min(len(names), mostForeign)])
}

// addNotes adds the notes. holding is the holder's key if foreign children ahead of it matter, otherwise "".
func (l *Line) addNotes(s lineShape, holding string) {
	say := func(format string, args ...any) { l.Notes = append(l.Notes, fmt.Sprintf(format, args...)) }
	inLine := l.Kind == Mutex || l.Kind == Latch || l.Kind == ReadWriteLock
	otherKind, ahead := 0, false // contenders of another kind; a foreign child is ahead of the holder
	for _, name := range s.foreign {
		if r := parseChild(name).role; lockContender <= r && r <= kazooReader {
			otherKind++
		} else if holding != "" && name < holding {
			ahead = true
		}
	}
	if inLine && otherKind > 0 {
		say("%s of another kind: the two kinds do not exclude each other, and both may hold",
			formatCount(otherKind, "foreign child is a contender", "foreign children are contenders"))
	}
	if ahead {
		say("a foreign child sorts before the holder: Java contenders wait for it; delete it")
	}
	for _, p := range slices.Concat(l.Holders, l.Waiting) {
		if inLine && p.Session == 0 && p.Token != 0 {
			say("the node %s is not ephemeral: it stays until it is deleted", plain.Text(p.Name))
			break
		}
	}
	if l.NumbersUsed > maxSequence/2 {
		say("%d of %d sequence numbers are used up; delete the node while no client uses it, and they restart "+
			"at 0", l.NumbersUsed, int64(maxSequence))
	}
	if l.Kind == DoubleBarrier && s.hasReady && l.Children == 1 {
		say("the barrier is open, and has no members: the next round does not wait; delete %s", readyName)
	}
}
