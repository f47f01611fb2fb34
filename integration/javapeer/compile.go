package javapeer

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/go-curator/curator/integration/internal/jvm"
	"github.com/go-curator/curator/integration/internal/private"
	"github.com/go-curator/curator/integration/java"
)

// compiled returns the directory of the classes. They are compiled once for
// each state of the sources and kept in the user's cache directory.
var compiled = sync.OnceValues(func() (string, error) {
	classpath, err := jvm.CuratorClasspath()
	if err != nil {
		return "", err
	}
	names, err := fs.Glob(java.Sources, "*.java")
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, classpath)
	for _, name := range names {
		source, err := java.Sources.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, name, len(source))
		hash.Write(source)
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, fmt.Sprintf("java-%x", hash.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, compile(dir, classpath, names)
})

// cacheDir returns the directory of the compiled classes, which are run from there later: a directory that only this
// user may access. There is no fallback.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("javapeer: no place for compiled classes, set HOME or XDG_CACHE_HOME: %w", err)
	}
	dir := filepath.Join(cache, "go-curator")
	return dir, private.Dir(dir)
}

// compile makes dir appear complete or not at all, however many test processes
// compile at the same time.
func compile(dir, classpath string, names []string) error {
	javac, err := jvm.Javac()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "compiling-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(filepath.Join(work, "source"), java.Sources); err != nil {
		return err
	}
	classes := filepath.Join(work, "classes")
	args := []string{"-Xlint:all,-path", "-Werror", "--release", "17", "-cp", classpath, "-d", classes}
	for _, name := range names {
		args = append(args, filepath.Join(work, "source", name))
	}
	if output, err := exec.Command(javac, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("javac: %w\n%s", err, output)
	}
	if err := os.Rename(classes, dir); err != nil {
		if _, missing := os.Stat(dir); missing != nil {
			return err
		}
	}
	return nil
}
