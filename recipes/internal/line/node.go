package line

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/go-curator/curator/framework"
)

// StatOwnNode returns the result of an exists, stat and err, of a node that should be the caller's. Since ZooKeeper 3.8.4
// and 3.9.2 exists needs READ. If it was refused, StatOwnNode sends a getACL, which returns the same Stat and needs READ or
// ADMIN. If that is refused, too, the error matches framework.ErrNoAuth and names the missing permission: the node exists,
// but its owner is not known.
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

// UnpackData returns the data of a read Undecompressed as the client would have decompressed them; unchanged if they are
// not compressed. err is the read's error.
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

// QueueDelete has the client delete a node, and does not wait: the client repeats the delete until it has succeeded or the
// session has ended.
func QueueDelete(view *framework.Client, path string) *framework.Pending[struct{}] {
	return view.Delete().Quietly().Guaranteed().InBackground().ForPath(context.Background(), path)
}
