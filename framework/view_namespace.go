package framework

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/retry"
)

// view is how a *Client sees the tree: below which node, and in which epoch.
type view struct {
	chroot    string       // of the connect string: "" or "/app"
	namespace string       // "" or "/ns"
	fault     error        // the namespace is not valid: every operation fails with it
	epoch     *epoch       // nil unless pinned
	retry     retry.Policy // nil: the client's
	own       bool         // callbacks are those of recipes, see ForRecipes
}

// newView returns the first view of a client. chroot and namespace may be empty.
func newView(chroot, namespace string) (view, error) {
	v := view{}
	if chroot = strings.TrimSuffix(chroot, "/"); chroot != "" {
		if err := zkpath.Validate(chroot, false); err != nil {
			return v, pathError(err)
		}
		v.chroot = chroot
	}
	v = v.within(namespace)
	return v, v.fault
}

// within returns the view with another namespace.
func (v view) within(namespace string) view {
	v.namespace, v.fault = "", nil
	if namespace == "" {
		return v
	}
	if strings.HasPrefix(namespace, "/") {
		v.fault = fmt.Errorf("%w: the namespace %q: write it without the leading slash", ErrInvalidPath,
			shortened(namespace))
		return v
	}
	if err := zkpath.Validate("/"+namespace, false); err != nil {
		v.fault = fmt.Errorf("namespace: %w", pathError(err))
		return v
	}
	v.namespace = "/" + namespace
	return v
}

// in returns the view bound to an epoch.
func (v view) in(e *epoch) view {
	v.epoch = e
	return v
}

// UsingNamespace returns a view of the client in which every path stands below the node named ns: paths
// given are below it, paths returned and those of events are relative to it. ns may have several levels
// ("team/app"); "" is the view without a namespace (the chroot of the connect string stays). It replaces
// the receiver's namespace and does not nest. The view shares everything with the client and needs no
// closing. An invalid ns makes every operation of the view fail with ErrInvalidPath.
//
// The namespace's root node is made, as a container, when an operation first fails because it is missing.
// Corresponds to Curator's usingNamespace.
func (c *Client) UsingNamespace(ns string) *Client {
	if c.none() {
		return &Client{}
	}
	return &Client{core: c.core, view: c.view.within(ns)}
}

// Namespace returns the namespace of this view, without a leading "/"; "" if there is none.
func (c *Client) Namespace() string {
	if c.none() {
		return ""
	}
	return strings.TrimPrefix(c.view.namespace, "/")
}

// fullPath validates a caller's path and returns the one that the server knows.
func (c *Client) fullPath(path string) (string, error) { return c.fullPathOf(path, false) }

// fullPathOf is fullPath; with sequential the path may end with "/".
func (c *Client) fullPathOf(path string, sequential bool) (string, error) {
	if c.none() {
		return "", ErrNoClient
	}
	return c.view.full(path, sequential)
}

// userPath is the reverse of fullPath. A path that is not below the view's root is returned as it is.
func (c *Client) userPath(full string) string { return c.view.user(full) }

// full is fullPath; with sequential the path may end with "/".
func (v view) full(path string, sequential bool) (string, error) {
	if v.fault != nil {
		return "", v.fault
	}
	if err := zkpath.Validate(path, sequential); err != nil {
		return "", pathError(err)
	}
	if prefix := v.prefix(); prefix != "" {
		if path == "/" && !sequential {
			return prefix, nil
		}
		return prefix + path, nil
	}
	return path, nil
}

func (v view) user(full string) string {
	prefix := v.prefix()
	if rest, ok := strings.CutPrefix(full, prefix); ok {
		switch {
		case rest == "":
			return "/"
		case rest[0] == '/':
			return rest
		}
	}
	return full
}

// prefix is what comes before every path.
func (v view) prefix() string { return v.chroot + v.namespace }

// root makes the namespace's root node, which may have been removed since the last time. made is false if
// it exists or there is no namespace.
func (c *Client) root(ctx context.Context, e *epoch) (made bool, err error) {
	if c.view.namespace == "" {
		return false, nil
	}
	return c.mkdirs(ctx, e, c.view.prefix(), parents{mode: Container})
}
