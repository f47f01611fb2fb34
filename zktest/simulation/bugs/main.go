// Command bugs makes the overlay with which the simulation is built for its deliberate bugs (bugs.txt): it writes the
// changed files and overlay.json, for go test's -overlay, into the directory that it is given. It runs in the module's
// root, as scripts/sim does.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed bugs.txt
var text string

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: bugs DIR"))
	}
	if err := overlay(".", os.Args[1]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bugs:", err)
	os.Exit(1)
}

// replacement is one change of a file.
type replacement struct{ file, old, new string }

// parse reads the form that the head of bugs.txt describes.
func parse(text string) (all []replacement, err error) {
	_, text, _ = strings.Cut(text, "\n== ")
	for _, part := range strings.Split(text, "\n== ") {
		lines := strings.Split(strings.TrimRight(part, "\n"), "\n")
		r := replacement{file: lines[0]}
		for _, line := range lines[1:] {
			kind, rest := line[:min(1, len(line))], line[min(1, len(line)):]
			if kind != "-" && kind != "+" && kind != " " {
				return nil, fmt.Errorf("%s: %q begins with none of -, +, space", r.file, line)
			}
			if kind != "+" {
				r.old += rest + "\n"
			}
			if kind != "-" {
				r.new += rest + "\n"
			}
		}
		all = append(all, r)
	}
	return all, nil
}

// apply makes the replacements that are for one file in its source.
func apply(source string, all []replacement) (string, error) {
	for _, r := range all {
		switch n := strings.Count("\n"+source, "\n"+r.old); {
		case r.old == "":
			return "", fmt.Errorf("%s: nothing to replace", r.file)
		case n != 1:
			return "", fmt.Errorf("%s: found %d times instead of once:\n%s", r.file, n, r.old)
		}
		source = strings.TrimPrefix(strings.Replace("\n"+source, "\n"+r.old, "\n"+r.new, 1), "\n")
	}
	// The import goes on the package's line, so that all lines keep their numbers up to the first bug.
	head, rest, ok := strings.Cut("\n"+source, "\npackage ")
	if !ok {
		return "", fmt.Errorf("%s: no package clause", all[0].file)
	}
	name, rest, _ := strings.Cut(rest, "\n")
	return strings.TrimPrefix(head+"\npackage "+name+`; import "github.com/go-curator/curator/internal/mutant"`+"\n"+rest, "\n"), nil
}

// overlay writes the changed files and overlay.json into dir.
func overlay(root, dir string) error {
	all, err := parse(text)
	if err != nil {
		return err
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return err
	}
	byFile := map[string][]replacement{}
	for _, r := range all {
		byFile[r.file] = append(byFile[r.file], r)
	}
	replace := map[string]string{}
	for file, changes := range byFile {
		from := filepath.Join(root, filepath.FromSlash(file))
		source, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		changed, err := apply(string(source), changes)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(to, []byte(changed), 0o600); err != nil {
			return err
		}
		replace[from] = to
	}
	out, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), out, 0o600)
}
