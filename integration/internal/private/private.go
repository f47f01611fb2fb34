// Package private makes directories whose contents are trusted later.
package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrNotPrivate means that other users may access a directory. The message has advice.
var ErrNotPrivate = errors.New("not a private directory")

// Dir makes the directory, and its parents, if it does not exist, with mode 0700. It is refused (ErrNotPrivate) if it
// is a link, belongs to another user, or if others may write to it: they could have put anything there.
func Dir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0 || !ours(info):
		return fmt.Errorf("%w: %s is a link, or somebody else's: look at it, and remove it", ErrNotPrivate, path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%w: %s can be written by others: look into it, then chmod go-w it or remove it",
			ErrNotPrivate, path)
	}
	return nil
}
