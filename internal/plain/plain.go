// Package plain makes text from outside safe to print: names of nodes, addresses of servers, messages of
// servers and login mechanisms. Such text may contain characters that move a terminal's cursor, begin a new
// line in a log, or reverse the direction of writing.
package plain

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limit is how many bytes Text returns at most.
const Limit = 2048

// more stands for what is cut off.
const more = "…"

// Text is s with everything that is not printable escaped as in Go's string literals: control characters,
// line breaks, invisible characters, those that change the direction of writing, and bytes that are not
// UTF-8. Printable text stays as it is, so Text may be applied twice. The result has at most Limit bytes;
// longer text is cut.
func Text(s string) string {
	if len(s) <= Limit && Is(s) {
		return s
	}
	var b strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		part := rest[:size]
		if r == utf8.RuneError && size == 1 || !strconv.IsPrint(r) {
			part = strconv.Quote(part)
			part = part[1 : len(part)-1]
		}
		if b.Len()+len(part) > Limit-len(more) && b.Len()+len(part)+len(rest)-size > Limit {
			b.WriteString(more)
			break
		}
		b.WriteString(part)
		rest = rest[size:]
	}
	return b.String()
}

// Is says whether s is printable throughout.
func Is(s string) bool {
	for i, r := range s {
		if !strconv.IsPrint(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) {
			return false
		}
	}
	return true
}

// Error is err with a text that is safe to print; err itself if its text is, or if err is nil.
func Error(err error) error {
	if err == nil || Is(err.Error()) && len(err.Error()) <= Limit {
		return err
	}
	return &plainError{err}
}

type plainError struct{ err error }

func (e *plainError) Error() string { return Text(e.err.Error()) }
func (e *plainError) Unwrap() error { return e.err }

// Lines is Text for each line of s. Joined errors have several.
func Lines(s string) string {
	if Is(s) && len(s) <= Limit {
		return s
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Text(lines[i])
	}
	return strings.Join(lines, "\n")
}
