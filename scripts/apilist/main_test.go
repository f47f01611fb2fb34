package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module writes a module with one package, and returns its API.
func module(t *testing.T, source string) []string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GOWORK", "off")
	for name, text := range map[string]string{"go.mod": "module example.com/api\n\ngo 1.25.0\n", "api.go": "package api\n\n" + source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestCompare(t *testing.T) {
	const open, sealed = "type I interface { A() }", "type I interface { A(); a() }"
	for _, c := range []struct{ name, was, is, changelog, want string }{
		{"nothing", "func F(a int) {}", "func F(b int) {}", "", ""},
		{"more", "func F() {}", "func F() {}\nfunc G() {}\ntype T struct{ A int }", "", ""},
		{"gone", "func F() {}", "func G() {}", "", "- F"},
		{"gone and named", "func F() {}", "func G() {}", "`api.F` is `api.G`", ""},
		{"another is named", "func F() {}", "func G() {}", "`api.FF` and `api.F.G`, api.F", "- F"},
		{"another parameter", "func F() {}", "func F(int) {}", "", "- F"},
		{"another type parameter", "func F[T any](T) {}", "func F[T comparable](T) {}", "", "- F"},
		{"another value", "const C = 1", "const C = 2", "", "- C"},
		{"a field is gone", "type T struct { A, B int }", "type T struct { A int }", "", "- T.B"},
		{"a method is gone", "type T int\nfunc (T) M() {}", "type T int", "", "- T.M"},
		{"a method of another receiver", "type T int\nfunc (T) M() {}", "type T int\nfunc (*T) M() {}", "", "- T.M"},
		{"a promoted method", "type T struct{ t }\ntype t int\nfunc (t) M() {}", "type T struct{ t }\ntype t int", "", "- T.M"},
		{"a method of values, too", "type T int\nfunc (*T) M() {}", "type T int\nfunc (T) M() {}", "", ""},
		{"no longer comparable", "type T struct{}", "type T struct{ f func() }", "", "- T"},
		{"a type is gone and named", "type T int\nfunc (T) M() {}", "", "without `api.T`", ""},
		{"a type is named, a method is gone", "type T int\nfunc (T) M() {}", "type T int", "`api.T` is better", "- T.M"},
		{"an interface demands more", open, "type I interface { A(); B() }", "", "+ I.B"},
		{"a new interface", "", open, "", ""},
		{"a sealed interface has more", sealed, "type I interface { A(); B(); a() }", "", ""},
		{"an interface is sealed", open, sealed, "", "- I - I.A"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := "# Changelog\n\n## [Unreleased]\n" + c.changelog + "\n\n## [0.1.0]\n`api.F`, `api.T`, `api.I.B`\n"
			var got []string
			for _, line := range compare(module(t, c.was), module(t, c.is), unreleased(log)) {
				_, _, symbol := symbolOf(line[2:])
				got = append(got, line[:2]+symbol)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
