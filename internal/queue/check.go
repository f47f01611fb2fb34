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
	if err := Made(client, nil); err != nil {
		return err
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

// Made is fault, or framework.ErrNoClient if the client of a recipe is nil or not one, as that of a recipe's zero value.
func Made(client *framework.Client, fault error) error {
	if fault == nil && errors.Is(client.Over(), framework.ErrNoClient) {
		return framework.ErrNoClient
	}
	return fault
}
