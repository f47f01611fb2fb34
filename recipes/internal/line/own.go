package line

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
)

// StatOwnNode completes the reply to an exists, stat and err, of a node that should be the caller's. Since ZooKeeper 3.8.4 and
// 3.9.2 exists needs READ. getACL, which returns the same Stat, needs READ or ADMIN, so StatOwnNode asks for that if exists was
// refused. If that is refused, too, the error matches framework.ErrNoAuth and names the missing permission: the node
// exists, but its owner is not known.
func StatOwnNode(
	ctx context.Context, view *framework.Client, path string, stat *framework.Stat, err error,
) (*framework.Stat, error) {
	if !errors.Is(err, framework.ErrNoAuth) {
		return stat, err
	}
	node, err := AwaitResult(view.GetACL().InBackground().ForPath(ctx, path))
	switch {
	case err == nil:
		return &node.Stat, nil
	case errors.Is(err, framework.ErrNoNode):
		return nil, nil
	case errors.Is(err, framework.ErrNoAuth):
		return nil, fmt.Errorf("%w; a client needs READ, or ADMIN, on its own nodes", err)
	}
	return nil, err
}
