package private

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDir(t *testing.T) {
	at := func(name string) string { return filepath.Join(t.TempDir(), name) }
	path := at("new/cache")
	require.NoError(t, Dir(path))
	require.NoError(t, Dir(path), "it is there")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	link := at("link")
	require.NoError(t, os.Symlink(path, link))
	assert.ErrorIs(t, Dir(link), ErrNotPrivate)
	assert.ErrorContains(t, Dir(link), link)
	open := at("open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777|os.ModeSticky))
	assert.ErrorIs(t, Dir(open), ErrNotPrivate)
	if os.Geteuid() == 0 {
		theirs := at("theirs")
		require.NoError(t, os.Mkdir(theirs, 0o700))
		require.NoError(t, os.Chown(theirs, 12345, 12345))
		assert.ErrorIs(t, Dir(theirs), ErrNotPrivate)
	}
	file := at("file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Error(t, Dir(file))
}
