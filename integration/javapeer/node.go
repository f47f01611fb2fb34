package javapeer

import (
	"context"
	"strconv"
	"time"
)

// Node is a PersistentNode or a PersistentTtlNode of the peer.
type Node struct {
	peer *Peer
	name string
	kind string // of its commands
	// Path is the node's path.
	Path string
}

// Node starts a PersistentNode of the mode (EPHEMERAL, …) at path, known to
// the peer by name, and waits until it is there.
func (p *Peer) Node(ctx context.Context, name, path, mode string, protected bool, data string) (*Node, error) {
	at, err := p.word(ctx, "node", name, path, mode, strconv.FormatBool(protected), data)
	return &Node{p, name, "node", at}, err
}

// TTLNode starts a PersistentTtlNode and waits until it is there.
func (p *Peer) TTLNode(ctx context.Context, name, path string, ttl time.Duration, data string) (*Node, error) {
	_, err := p.Call(ctx, "ttl-node", name, path, strconv.FormatInt(ttl.Milliseconds(), 10), data)
	return &Node{p, name, "ttl-node", path}, err
}

// Set sets its data.
func (n *Node) Set(ctx context.Context, data string) error {
	_, err := n.peer.Call(ctx, "node-set", n.name, data)
	return err
}

// Close closes it.
func (n *Node) Close(ctx context.Context) error {
	_, err := n.peer.Call(ctx, n.kind+"-close", n.name)
	return err
}

// Member is a GroupMember of the peer.
type Member struct {
	peer *Peer
	name string
}

// Member starts one of the group at path, known to the peer by name.
func (p *Peer) Member(ctx context.Context, name, path, id, data string) (*Member, error) {
	_, err := p.Call(ctx, "member", name, path, id, data)
	return &Member{p, name}, err
}

// Set sets its data.
func (m *Member) Set(ctx context.Context, data string) error {
	_, err := m.peer.Call(ctx, "member-set", m.name, data)
	return err
}

// All are the members as Java sees them: "a=data b=data", by id.
func (m *Member) All(ctx context.Context) (string, error) { return m.peer.word(ctx, "members", m.name) }

// Close ends it.
func (m *Member) Close(ctx context.Context) error {
	_, err := m.peer.Call(ctx, "member-close", m.name)
	return err
}
