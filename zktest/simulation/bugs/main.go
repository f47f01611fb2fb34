// Command bugs makes the overlay with which the simulation is built for its deliberate bugs (bugs.txt): it writes the
// changed files and overlay.json, for go test's -overlay, into the directory that it is given. It runs in the module's
// root, as scripts/sim does.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

// replacement is one change of a file, or of a function wherever its package has it.
type replacement struct{ place, function, old, new string }

// parse reads the form that the head of bugs.txt describes.
func parse(text string) (all []replacement, err error) {
	_, text, _ = strings.Cut(text, "\n== ")
	for _, part := range strings.Split(text, "\n== ") {
		lines := strings.Split(strings.TrimRight(part, "\n"), "\n")
		var r replacement
		r.place, r.function, _ = strings.Cut(lines[0], " ")
		for _, line := range lines[1:] {
			kind, rest := line[:min(1, len(line))], line[min(1, len(line)):]
			if kind != "-" && kind != "+" && kind != " " {
				return nil, fmt.Errorf("%s: %q begins with none of -, +, space", lines[0], line)
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

// file returns the file of a replacement, below root.
func (r replacement) file(root string) (string, error) {
	if r.function == "" {
		return r.place, nil
	}
	dir := filepath.Join(root, filepath.FromSlash(r.place))
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var found []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return "", err
		}
		if begin, _, err := function(string(source), r.function); err != nil {
			return "", fmt.Errorf("%s/%s: %w", r.place, f.Name(), err)
		} else if begin >= 0 {
			found = append(found, r.place+"/"+f.Name())
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s %s: in %d files instead of one %v", r.place, r.function, len(found), found)
	}
	return found[0], nil
}

// function returns where a function's lines begin and end in a source; -1 if it is not there. Its name is as in Go: name,
// (receiver).name or (*receiver).name.
func function(source, name string) (begin, end int, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return -1, -1, err
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || called(f) != name {
			continue
		}
		begin, end = int(f.Pos()-parsed.FileStart), int(f.End()-parsed.FileStart)
		if i := strings.Index(source[end:], "\n"); i >= 0 {
			end += i + 1
		}
		return begin, end, nil
	}
	return -1, -1, nil
}

// called is the name of a function, without type parameters.
func called(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	star, receiver := "", f.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			star, receiver = "*", r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.IndexListExpr:
			receiver = r.X
		case *ast.Ident:
			return "(" + star + r.Name + ")." + f.Name.Name
		default:
			return ""
		}
	}
}

// in makes the replacement in the source of its file.
func (r replacement) in(source string) (string, error) {
	where, begin, end := strings.TrimSpace(r.place+" "+r.function), 0, len(source)
	if r.function != "" {
		var err error
		if begin, end, err = function(source, r.function); err != nil {
			return "", fmt.Errorf("%s: %w", where, err)
		}
	}
	text := "\n" + source[begin:end]
	switch n := strings.Count(text, "\n"+r.old); {
	case r.old == "":
		return "", fmt.Errorf("%s: nothing to replace", where)
	case n != 1:
		return "", fmt.Errorf("%s: found %d times instead of once:\n%s", where, n, r.old)
	}
	return source[:begin] + strings.Replace(text, "\n"+r.old, "\n"+r.new, 1)[1:] + source[end:], nil
}

// apply makes the replacements that are for one file in its source.
func apply(source string, all []replacement) (_ string, err error) {
	for _, r := range all {
		if source, err = r.in(source); err != nil {
			return "", err
		}
	}
	// The import goes on the package's line, so that all lines keep their numbers up to the first bug.
	head, rest, ok := strings.Cut("\n"+source, "\npackage ")
	if !ok {
		return "", fmt.Errorf("%s: no package clause", all[0].place)
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
		file, err := r.file(root)
		if err != nil {
			return err
		}
		byFile[file] = append(byFile[file], r)
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
