//go:build !unix

package private

import "io/fs"

// ours cannot be decided here; the user's cache directory is in his profile.
func ours(fs.FileInfo) bool { return true }
