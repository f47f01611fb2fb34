package framework

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/retry"
)

// clientView is the part of the tree that a *Client sees, and the epoch of its operations.
type clientView struct {
	chroot    string        // of the connect string: "" or "/app"; others create and delete it
	namespace string        // "" or "/ns"
	prefix    string        // chroot and namespace: the prefix of every path
	fault     error         // the namespace is not valid: every operation fails with it
	epoch     *sessionEpoch // nil unless pinned
	retry     retry.Policy  // nil: the client's
	own       bool          // callbacks run on the goroutine for recipes, see ForRecipes
}

// newClientView returns the first view of a client. chroot and namespace may be empty.
func newClientView(chroot, namespace string) (clientView, error) {
	v := clientView{}
	if chroot = strings.TrimSuffix(chroot, "/"); chroot != "" {
		if err := zkpath.Validate(chroot, false); err != nil {
			return v, invalidPathError(err)
		}
		v.chroot = chroot
	}
	v = v.withNamespace(namespace)
	return v, v.fault
}

// withNamespace returns the view with another namespace.
func (v clientView) withNamespace(namespace string) clientView {
	v.namespace, v.prefix, v.fault = "", v.chroot, nil
	if namespace == "" {
		return v
	}
	if strings.HasPrefix(namespace, "/") {
		v.fault = fmt.Errorf("%w: the namespace %q begins with a slash; write it without", ErrInvalidPath,
			shortenText(namespace))
		return v
	}
	if err := zkpath.Validate("/"+namespace, false); err != nil {
		v.fault = fmt.Errorf("namespace: %w", invalidPathError(err))
		return v
	}
	v.namespace = "/" + namespace
	v.prefix += v.namespace
	return v
}

// UsingNamespace returns a view of the client in which every path is below the node named ns: all paths, given,
// returned and in events, are relative to that node. ns may have several levels ("team/app"). "" gives the view without
// a namespace; the chroot of the connect string stays. ns replaces the receiver's namespace and does not nest below it.
// The view shares everything with the client and need not be closed. An invalid ns makes every operation of the view
// fail with ErrInvalidPath.
//
// The namespace's root node is created, as a container, when an operation first fails because the root is
// missing. Corresponds to Curator's usingNamespace.
func (c *Client) UsingNamespace(ns string) *Client {
	if c.isZeroValue() {
		return &Client{}
	}
	return newClient(c.core, c.view.withNamespace(ns))
}

// Namespace returns the namespace of this view, without a leading "/"; "" if there is none.
func (c *Client) Namespace() string {
	if c.isZeroValue() {
		return ""
	}
	return strings.TrimPrefix(c.view.namespace, "/")
}

// fullPath validates a caller's path and returns the path that the server knows.
func (c *Client) fullPath(path string) (string, error) { return c.fullPathOf(path, false) }

// fullPathOf is fullPath; with sequential the path may end with "/".
func (c *Client) fullPathOf(path string, sequential bool) (string, error) {
	if c.isZeroValue() {
		return "", ErrNoClient
	}
	v := &c.view
	if v.fault != nil {
		return "", v.fault
	}
	if err := zkpath.Validate(path, sequential); err != nil {
		return "", invalidPathError(err)
	}
	if path == "/" && !sequential && v.prefix != "" {
		return v.prefix, nil
	}
	return v.prefix + path, nil
}

// userPath is the reverse of fullPath. A path that is not below the view's root is returned as it is.
func (c *Client) userPath(full string) string {
	if rest, ok := strings.CutPrefix(full, c.view.prefix); ok {
		switch {
		case rest == "":
			return "/"
		case rest[0] == '/':
			return rest
		}
	}
	return full
}

// ErrNoChroot means that the chroot, the path after the servers in the connect string, does not exist. It matches
// ErrNoNode, too. A client never creates its chroot: with a misspelt chroot, two programs that mean to share a tree
// would silently use two. Create the chroot once, with a client without a chroot, by hand, or in the deployment.
var ErrNoChroot = newSentinel("the chroot of the connect string does not exist", ErrNoNode, zk.ErrNoNode)

func (c *Client) noChrootError() error {
	return fmt.Errorf("%w: create %s, or correct the connect string", ErrNoChroot, c.view.chroot)
}

// addChrootHint adds the chroot to err if err is ErrNoNode. missing is the full path of the missing node, or "" if
// it is not known. A node below the chroot may be missing for any reason; then the chroot is only mentioned.
func (c *Client) addChrootHint(err error, missing string) error {
	_, said := err.(*OpError) // an earlier step of several has said it already
	switch {
	case said || c.isZeroValue() || c.view.chroot == "" || !errors.Is(err, ErrNoNode) || errors.Is(err, ErrNoChroot):
		return err
	case missing == c.view.chroot:
		return c.noChrootError()
	}
	return fmt.Errorf("%w (in the chroot %s)", err, c.view.chroot)
}

func (c *Client) addChrootHintAt(err error, path string) error {
	missing := ""
	if path == "/" && !c.isZeroValue() {
		missing = c.view.prefix
	}
	return c.addChrootHint(err, missing)
}
