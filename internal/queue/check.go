package queue

import (
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// Check refuses what no recipe can be made with. The root is refused, too: a recipe takes all children of its directory for its own, and puts them
// there without being asked again. In a namespace "/" is the namespace's node, which somebody has named.
func Check(client *framework.Client, path string) error {
	if client == nil {
		return errors.New("the client is nil: make one with framework.New")
	}
	var fault *zkpath.Error
	if err := zkpath.Validate(path, false); errors.As(err, &fault) {
		return fmt.Errorf("%w %q: %s", framework.ErrInvalidPath, fault.Path, fault.Reason)
	}
	if path == "/" && client.Namespace() == "" {
		return fmt.Errorf("%w %q: a recipe needs a node of its own, and the root belongs to all; name one below it", framework.ErrInvalidPath, path)
	}
	return nil
}
