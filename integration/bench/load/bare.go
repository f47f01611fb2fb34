package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"
	"sync"

	"github.com/go-curator/curator/integration/bench"
	"github.com/go-curator/curator/internal/jute"
)

// bare is the floor: connections that send the requests which the layout of a mutex needs, and nothing else. It
// handles no faults, no contexts, no clean-up and only contenders of its own kind. It shows the limits of the server
// and the protocol; do not use it as a lock. A piped one does not wait where a reply changes nothing: it creates and
// lists in one flight, deletes in the flight of the next create, and takes the deletion of the node before its own
// for the grant, without a list.
type bare struct {
	piped    bool
	sessions []*conn
}

func (b *bare) turns(_ context.Context, job bench.Job) (turns []turn, err error) {
	if job.Work != "mutex" || job.Sessions != job.Contenders {
		return nil, fmt.Errorf("a bare client cannot do %q with %d contenders in %d sessions",
			job.Work, job.Contenders, job.Sessions)
	}
	for range job.Sessions {
		c, err := dial()
		if err != nil {
			return nil, err
		}
		b.sessions = append(b.sessions, c)
		for at := range strings.Count(job.Path, "/") { // the directories; each may exist already
			dir := strings.Join(strings.Split(job.Path, "/")[:at+2], "/")
			_, err := c.call(jute.OpCreate, &jute.CreateRequest{Path: dir, ACL: world})()
			if err != nil && !errors.Is(err, errExists) {
				return nil, err
			}
		}
		turns = append(turns, func(_ context.Context, held func()) error {
			return c.turn(job.Path, b.piped, held)
		})
	}
	return turns, nil
}

func (b *bare) close() error {
	for _, c := range b.sessions {
		c.send(&jute.RequestHeader{Op: jute.OpCloseSession})
		c.nc.Close()
		<-c.done
	}
	return nil
}

var world = []jute.ACL{{Perms: jute.PermAll, Scheme: "world", ID: "anyone"}}

// turn takes the lock and releases it.
func (c *conn) turn(dir string, piped bool, held func()) error {
	created := c.call(jute.OpCreate, &jute.CreateRequest{Path: dir + "/lock-", ACL: world, Flags: 3})
	list := func() func() ([]byte, error) {
		return c.call(jute.OpGetChildren, &jute.PathWatchRequest{Path: dir})
	}
	var listed func() ([]byte, error)
	if piped {
		listed = list()
	}
	body, err := created()
	if err != nil {
		return err
	}
	var node jute.PathResponse
	if err := jute.Unmarshal(body, &node); err != nil {
		return err
	}
	for {
		if listed == nil {
			listed = list()
		}
		body, err := listed()
		if err != nil {
			return err
		}
		listed = nil
		var names jute.ChildrenResponse
		if err := jute.Unmarshal(body, &names); err != nil {
			return err
		}
		before := ""
		for _, name := range names.Children {
			if name < path.Base(node.Path) && name > before {
				before = name
			}
		}
		if before == "" {
			break
		}
		gone, err := c.watch(dir + "/" + before)
		if err != nil {
			return err
		}
		if gone != nil {
			if err := gone(); err != nil {
				return err
			}
			if piped {
				break
			}
		}
	}
	held()
	deleted := c.call(jute.OpDelete, &jute.PathVersionRequest{Path: node.Path, Version: -1})
	if !piped {
		_, err = deleted()
	}
	return err
}

// conn is a connection with a separate session.
type conn struct {
	nc   net.Conn
	done chan struct{} // closed when nothing is read any more

	mu      sync.Mutex
	xid     int32
	waiting map[int32]chan answer
	watches map[string]chan struct{}
}

type answer struct {
	body []byte
	code int32
}

var (
	errExists = errors.New("the node exists")
	errNone   = errors.New("there is no such node")
	errGone   = errors.New("the connection is gone")
)

func dial() (*conn, error) {
	nc, err := net.Dial("tcp", *server)
	if err != nil {
		return nil, err
	}
	c := &conn{nc: nc, done: make(chan struct{}), waiting: map[int32]chan answer{},
		watches: map[string]chan struct{}{}}
	_, err = nc.Write(jute.Frame(&jute.ConnectRequest{Timeout: int32(sessionTimeout.Milliseconds()),
		Password: make([]byte, 16), HasReadOnly: true}))
	in := bufio.NewReaderSize(nc, 64<<10)
	if err == nil {
		_, err = frame(in)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	go c.read(in)
	return c, nil
}

func frame(in io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(in, body)
	return body, err
}

func (c *conn) send(records ...jute.Record) error {
	_, err := c.nc.Write(jute.Frame(records...))
	return err
}

// call sends a request; the function it returns waits for the answer.
func (c *conn) call(op int32, request jute.Record) func() ([]byte, error) {
	arrives := make(chan answer, 1)
	c.mu.Lock()
	c.xid++
	xid := c.xid
	c.waiting[xid] = arrives
	err := c.send(&jute.RequestHeader{Xid: xid, Op: op}, request)
	c.mu.Unlock()
	return func() ([]byte, error) {
		if err != nil {
			return nil, err
		}
		select {
		case a := <-arrives:
			switch a.code {
			case jute.CodeOK:
				return a.body, nil
			case jute.CodeNodeExists:
				return nil, errExists
			case jute.CodeNoNode:
				return nil, errNone
			}
			return nil, fmt.Errorf("error code %d", a.code)
		case <-c.done:
			return nil, errGone
		}
	}
}

// watch sets a watch on a node and returns a function that waits until the node is deleted. The function is nil if
// the node no longer exists: then a list must show whose turn it is.
func (c *conn) watch(path string) (gone func() error, err error) {
	event := make(chan struct{})
	c.mu.Lock()
	c.watches[path] = event
	c.mu.Unlock()
	_, err = c.call(jute.OpGetData, &jute.PathWatchRequest{Path: path, Watch: true})()
	if errors.Is(err, errNone) {
		c.mu.Lock()
		delete(c.watches, path)
		c.mu.Unlock()
		return nil, nil
	}
	return func() error {
		select {
		case <-event:
			return nil
		case <-c.done:
			return errGone
		}
	}, err
}

func (c *conn) read(in io.Reader) {
	defer close(c.done)
	for {
		body, err := frame(in)
		if err != nil {
			return
		}
		var header jute.ReplyHeader
		d := jute.NewDecoder(body)
		header.Fields(d)
		if d.Err() != nil {
			return
		}
		c.mu.Lock()
		if header.Xid == jute.XidNotification {
			var event jute.WatcherEvent
			event.Fields(d)
			if fired := c.watches[event.Path]; fired != nil {
				close(fired)
				delete(c.watches, event.Path)
			}
		} else if arrives := c.waiting[header.Xid]; arrives != nil {
			arrives <- answer{d.Rest(), header.Err}
			delete(c.waiting, header.Xid)
		}
		c.mu.Unlock()
	}
}
