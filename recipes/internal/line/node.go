package line

import (
	"context"
	"errors"
	"fmt"
	"math"

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

// UnpackData returns the data of a node that were read Undecompressed with an error or none, as the client would read
// them; as they are if the client compresses and they are not compressed.
func UnpackData(client *framework.Client, path string, data []byte, err error) ([]byte, error) {
	if err != nil {
		return data, err
	}
	plain, err := client.UnpackedUpTo(path, data, math.MaxInt)
	if errors.Is(err, framework.ErrDecompressedTooLarge) {
		return nil, err
	}
	return plain, nil
}

// QueueDelete makes the client delete a node, and does not wait: the client repeats that until it is done or the session has
// ended.
func QueueDelete(view *framework.Client, path string) *framework.Pending[struct{}] {
	return view.Delete().Quietly().Guaranteed().InBackground().ForPath(context.Background(), path)
}
