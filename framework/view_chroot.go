package framework

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/go-curator/curator/internal/zkpath"
)

// ErrNoChroot says that the chroot, the path after the servers in the connect string, does not exist. It
// matches ErrNoNode, too. A client never makes its chroot, because a misspelt one would split what two
// programs mean to share. Make it once, by a client without a chroot, by hand, or with the deployment.
var ErrNoChroot = named("the chroot of the connect string does not exist", ErrNoNode, zk.ErrNoNode)

// noChroot is ErrNoChroot with the chroot's name.
func (v view) noChroot() error {
	return fmt.Errorf("%w: create %s, or correct the connect string", ErrNoChroot, v.chroot)
}

// isChroot says whether a full path is that of the chroot, which others make and delete.
func (v view) isChroot(full string) bool { return v.chroot != "" && full == v.chroot }

// below says whether a full path is below the chroot. Nothing else is ever made.
func (v view) below(full string) bool { return v.chroot == "" || strings.HasPrefix(full, v.chroot+"/") }

// absent names the chroot in an error that says that a node does not exist. missing is the full path of
// that node, or "" if it is not known. A node further down may be missing for any reason; then the chroot
// is only mentioned.
func (v view) absent(err error, missing string) error {
	_, said := err.(*OpError) // one of several steps has said it already
	switch {
	case said:
		return err
	case v.chroot == "" || !errors.Is(err, ErrNoNode) || errors.Is(err, ErrNoChroot):
		return err
	case v.isChroot(missing):
		return v.noChroot()
	}
	return fmt.Errorf("%w (in the chroot %s)", err, v.chroot)
}

// absent is that of the client's view, if there is a client.
func (c *Client) absent(err error, missing string) error {
	if c.none() {
		return err
	}
	return c.view.absent(err, missing)
}

// absentAt is absent for the node at a caller's path.
func (v view) absentAt(err error, path string) error {
	if path == "/" {
		return v.absent(err, v.prefix())
	}
	return v.absent(err, "")
}

// needed returns the full path of the node that must exist for an operation of a transaction.
func (op *TransactionOp) needed() string {
	if op.name == "create" {
		return zkpath.Parent(op.full)
	}
	return op.full
}
