package cache

import (
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
)

// Node is a node in a cache.
type Node struct {
	Path string // relative to the namespace of the client
	// Data is shared with the cache and with others: do not change it. It is nil if there is none, and with
	// [WithoutData].
	Data []byte
	Stat framework.Stat
}

// Name returns the last part of the path.
func (n Node) Name() string { return zkpath.Base(n.Path) }

// EventType is the type of an [Event].
type EventType int8

const (
	// Created reports that the node New now exists at Path. Before, no node existed there, or its deletion was
	// reported.
	Created EventType = iota + 1
	Changed           // the data of the node at Path were set; Old and New are the node before and after
	Deleted           // the node at Path is gone; Old is that node
	// Initialized reports that all nodes that existed at the beginning have been reported. It comes once in a stream.
	Initialized
	// ConnectionChanged reports that the state of the client's connection is now State. The cache keeps its nodes in
	// every state.
	ConnectionChanged
	// Failed reports that the node at Path cannot be read or decoded; Err has the reason. The cache keeps the last
	// version of the node that it had. It tries the node again: within a minute if the client has no permission to read
	// it, after its next change if it cannot be decoded, when there is room again if the data limit was reached
	// (ErrDataLimit). Failures lists the nodes that fail at present. When a node recovers, there is an event only if it
	// has changed.
	Failed
)

var eventNames = [...]string{
	Created: "Created", Changed: "Changed", Deleted: "Deleted",
	Initialized: "Initialized", ConnectionChanged: "ConnectionChanged", Failed: "Failed",
}

func (t EventType) String() string {
	if t < Created || t > Failed {
		return fmt.Sprintf("EventType(%d)", int8(t))
	}
	return eventNames[t]
}

// Event is one event of a stream.
type Event struct {
	Type EventType
	Path string // of the node, for Created, Changed, Deleted and Failed
	// Old is the node before, for Changed and Deleted. New is the node now, for Created and Changed. Do not change the
	// nodes.
	Old, New *Node
	State    framework.StateChange // set for ConnectionChanged
	Err      error                 // set for Failed
}

// String returns a printable text: unprintable characters, in names that others have chosen, are escaped.
func (e Event) String() string {
	switch e.Type {
	case ConnectionChanged:
		return fmt.Sprintf("%v: %v", e.Type, e.State)
	case Failed:
		return fmt.Sprintf("%v %s: %s", e.Type, plain.Text(e.Path), plain.Lines(fmt.Sprint(e.Err)))
	case Initialized:
		return e.Type.String()
	}
	return fmt.Sprintf("%v %s", e.Type, plain.Text(e.Path))
}
