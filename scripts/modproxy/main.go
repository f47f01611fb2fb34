// Modproxy writes modules of a git clone, as they lie there, as a module proxy into a directory: what users would
// get if that were tagged now.
//
//	modproxy -out DIR -version v0.1.0 -root CLONE MODULE_DIR…
//
// GOPROXY=file://DIR,… then serves them. Files that git ignores are left out. It prints a line for each module: its
// path, and the bytes of its zip.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("modproxy: ")
	out := flag.String("out", "", "directory to write the proxy to")
	version := flag.String("version", "", "version of all modules")
	root := flag.String("root", ".", "top of the clone")
	flag.Parse()
	if *out == "" || *version == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	for _, dir := range flag.Args() {
		mod, size, err := pack(*out, *root, dir, *version)
		if err != nil {
			log.Fatalf("%s: %v", dir, err)
		}
		fmt.Println(mod.Path, size)
	}
}

// pack writes the module of a directory below root, and returns the size of its zip.
func pack(out, root, dir, version string) (module.Version, int, error) {
	modFile, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
	if err != nil {
		return module.Version{}, 0, err
	}
	parsed, err := modfile.Parse("go.mod", modFile, nil)
	if err != nil {
		return module.Version{}, 0, err
	}
	if len(parsed.Replace) > 0 {
		return module.Version{}, 0, errors.New("go.mod has a replace directive: go install refuses such a module")
	}
	mod := module.Version{Path: parsed.Module.Mod.Path, Version: version}
	files, err := filesOf(root, dir)
	if err != nil {
		return mod, 0, err
	}
	var zipped bytes.Buffer
	if err := zip.Create(&zipped, mod, files); err != nil {
		return mod, 0, err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, version, time.Now().UTC().Format(time.RFC3339))
	return mod, zipped.Len(), write(out, mod, map[string][]byte{
		".mod": modFile, ".zip": zipped.Bytes(), ".info": []byte(info),
	})
}

// write puts what the go command asks for into the module's directory of the proxy.
func write(out string, mod module.Version, parts map[string][]byte) error {
	escaped, err := module.EscapePath(mod.Path)
	if err != nil {
		return err
	}
	at := filepath.Join(out, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for suffix, data := range parts {
		if err := os.WriteFile(filepath.Join(at, mod.Version+suffix), data, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(at, "list"), []byte(mod.Version+"\n"), 0o644)
}

// filesOf lists the files of a module as zip wants them; zip leaves out those of modules further below. As go does, it adds the
// licence of the clone to a module that has none.
func filesOf(root, dir string) ([]zip.File, error) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	list.Dir = filepath.Join(root, dir)
	list.Stderr = os.Stderr
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []zip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		on := filepath.Join(list.Dir, filepath.FromSlash(name))
		if _, err := os.Lstat(on); errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		files = append(files, file{name, on})
	}
	licensed := func(f zip.File) bool { return f.Path() == "LICENSE" }
	if !slices.ContainsFunc(files, licensed) {
		files = append(files, file{"LICENSE", filepath.Join(root, "LICENSE")})
	}
	return files, nil
}

// file implements zip.File.
type file struct{ name, on string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.on) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.on) }
