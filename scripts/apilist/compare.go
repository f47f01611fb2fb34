package main

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// A line is "PACKAGE KIND SYMBOL DETAILS", such as "…/recipes/mutex method Lock.Release (*) func(context.Context) error".
func symbolOf(line string) (pkg, kind, symbol string) {
	f := strings.SplitN(line, " ", 4)
	if len(f) < 3 {
		return line, "", ""
	}
	return f[0], f[1], f[2]
}

// compare returns the incompatible changes that the changelog's section does not name.
func compare(was, is []string, changes string) (unnamed []string) {
	before, after := setOf(was), setOf(is)
	open := func(line string) bool { // a method more of an interface that was there
		pkg, kind, symbol := symbolOf(line)
		owner, _, _ := strings.Cut(symbol, ".")
		implementable := func(l string) bool { return strings.HasPrefix(l, pkg+" type "+owner+" interface") }
		return kind == "demand" && slices.ContainsFunc(was, implementable) && slices.ContainsFunc(is, implementable)
	}
	for _, line := range was {
		promoted := strings.Replace(line, " (*) ", " () ", 1) // of an embedded pointer: values have it, too
		if !after[line] && !after[promoted] && !named(line, changes, is) {
			unnamed = append(unnamed, "- "+line)
		}
	}
	for _, line := range is {
		if !before[line] && open(line) && !named(line, changes, is) {
			unnamed = append(unnamed, "+ "+line)
		}
	}
	return unnamed
}

func setOf(lines []string) map[string]bool {
	set := map[string]bool{}
	for _, l := range lines {
		set[l] = true
	}
	return set
}

// named says whether the changelog has the symbol in backquotes, such as `mutex.New`; of a type that is gone its name is enough.
func named(line, changes string, is []string) bool {
	pkg, _, symbol := symbolOf(line)
	has := func(symbol string) bool {
		return regexp.MustCompile("`" + regexp.QuoteMeta(path.Base(pkg)+"."+symbol) + `([^.\w][^` + "`" + `]*)?` + "`").MatchString(changes)
	}
	if has(symbol) {
		return true
	}
	owner, _, member := strings.Cut(symbol, ".")
	gone := !slices.ContainsFunc(is, func(l string) bool { return strings.HasPrefix(l, pkg+" type "+owner+" ") })
	return member && gone && has(owner)
}

// unreleased returns the first section of the changelog.
func unreleased(changelog string) string {
	_, rest, _ := strings.Cut(changelog, "\n## [Unreleased]")
	section, _, _ := strings.Cut(rest, "\n## [")
	return section
}
