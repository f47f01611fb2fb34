// Apilist writes and compares the exported API of modules, one line for each thing that a user can name.
//
//	apilist list MODULE_DIR…              writes the lines
//	apilist compare OLD NEW CHANGELOG     fails on an incompatible change that the changelog does not name
//
// A change is incompatible if a line is gone, or if an interface that users can implement has a method more.
// The API is a text, as Go's own api/go1.txt: a change is a diff that reviewers see, branches merge, and the comparison needs
// neither tags nor a network.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("apilist: ")
	switch args := os.Args[1:]; {
	case len(args) > 1 && args[0] == "list":
		var lines []string
		for _, dir := range args[1:] {
			more, err := list(dir)
			if err != nil {
				log.Fatalf("%s: %v", dir, err)
			}
			lines = append(lines, more...)
		}
		slices.Sort(lines)
		fmt.Println(strings.Join(lines, "\n"))
	case len(args) == 4 && args[0] == "compare":
		if !compareFiles(os.Stdout, args[1], args[2], args[3]) {
			os.Exit(1)
		}
	default:
		log.Fatal("usage: apilist list MODULE_DIR… | apilist compare OLD NEW CHANGELOG")
	}
}

// pkg is a package as go list prints it.
type pkg struct {
	path, export, name string
	ours               bool
}

// packages builds the packages of a module, and lists them with all they need.
func packages(dir string) ([]pkg, error) {
	const format = "{{.ImportPath}}\t{{.Export}}\t{{.Name}}\t{{with .Module}}{{.Main}}{{end}}"
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", format, "./...")
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []pkg
	for line := range bytes.Lines(out) {
		f := strings.Split(strings.TrimSuffix(string(line), "\n"), "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("go list: unexpected line %q", line)
		}
		all = append(all, pkg{path: f[0], export: f[1], name: f[2], ours: f[3] == "true"})
	}
	return all, nil
}

// public says whether users can import it.
func (p pkg) public() bool {
	return p.ours && p.name != "main" && !slices.Contains(strings.Split(p.path, "/"), "internal")
}

func compareFiles(w io.Writer, old, now, changelog string) (ok bool) {
	was, err := linesOf(old)
	is, err2 := linesOf(now)
	changes, err3 := os.ReadFile(changelog)
	for _, err := range []error{err, err2, err3} {
		if err != nil {
			log.Fatal(err)
		}
	}
	unnamed := compare(was, is, unreleased(string(changes)))
	for _, line := range unnamed {
		fmt.Fprintln(w, line)
	}
	return len(unnamed) == 0
}

func linesOf(file string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []string
	for in := bufio.NewScanner(f); in.Scan(); {
		lines = append(lines, in.Text())
	}
	return lines, nil
}
