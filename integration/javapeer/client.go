package javapeer

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Connect starts the peer's client and waits until it is connected. It can be
// done once.
func (p *Peer) Connect(ctx context.Context, connectString string, sessionTimeout time.Duration) error {
	_, err := p.Call(ctx, "connect", connectString, milliseconds(sessionTimeout))
	return err
}

// ConnectAs is Connect with a digest login, "user:password". Its nodes have the ACL of docs/security.md: the ids
// of others, "user:hash", may contend with it.
func (p *Peer) ConnectAs(
	ctx context.Context, connectString string, sessionTimeout time.Duration, login string, others ...string,
) error {
	_, err := p.Call(ctx, "connect", append([]string{connectString, milliseconds(sessionTimeout), login}, others...)...)
	return err
}

// ConnectCompressing is Connect with Curator's enableCompression, which Curator has since 5.8.
func (p *Peer) ConnectCompressing(ctx context.Context, connectString string, sessionTimeout time.Duration) error {
	_, err := p.Call(ctx, "connect-compressing", connectString, milliseconds(sessionTimeout))
	return err
}

// SessionID is the id of the current session.
func (p *Peer) SessionID(ctx context.Context) (int64, error) {
	return p.number(ctx, "session")
}

// KillSession ends the session at the server, as an expiry does. It returns when
// the server has done it; the peer's client learns of it afterwards.
func (p *Peer) KillSession(ctx context.Context) error {
	_, err := p.Call(ctx, "kill-session")
	return err
}

// Clock returns the time of the peer's wall clock.
func (p *Peer) Clock(ctx context.Context) (time.Time, error) {
	n, err := p.number(ctx, "clock")
	return time.UnixMilli(n), err
}

// Create creates a node, with container parents, in a mode of CreateMode in Java, and returns its path.
func (p *Peer) Create(ctx context.Context, path string, data []byte, mode string) (string, error) {
	return p.word(ctx, "create", path, string(data), mode)
}

// Get returns the data of a node.
func (p *Peer) Get(ctx context.Context, path string) ([]byte, error) {
	data, err := p.word(ctx, "get", path)
	return []byte(data), err
}

// Set sets the data of a node and returns its new version.
func (p *Peer) Set(ctx context.Context, path string, data []byte) (int64, error) {
	return p.number(ctx, "set", path, string(data))
}

// Delete deletes a node.
func (p *Peer) Delete(ctx context.Context, path string) error {
	_, err := p.Call(ctx, "delete", path)
	return err
}

// Exists reports whether the node exists.
func (p *Peer) Exists(ctx context.Context, path string) (bool, error) {
	return p.truth(ctx, "exists", path)
}

// Children are the names of a node's children, sorted.
func (p *Peer) Children(ctx context.Context, path string) ([]string, error) {
	return p.Call(ctx, "children", path)
}

func (p *Peer) word(ctx context.Context, command string, arguments ...string) (string, error) {
	words, err := p.Call(ctx, command, arguments...)
	if err != nil {
		return "", err
	}
	if len(words) != 1 {
		return "", fmt.Errorf("javapeer: %s: %q is not one word", command, words)
	}
	return words[0], nil
}

func (p *Peer) number(ctx context.Context, command string, arguments ...string) (int64, error) {
	word, err := p.word(ctx, command, arguments...)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(word, 10, 64)
}

func (p *Peer) truth(ctx context.Context, command string, arguments ...string) (bool, error) {
	word, err := p.word(ctx, command, arguments...)
	if err != nil {
		return false, err
	}
	return strconv.ParseBool(word)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
