package shell

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
)

// printableText returns s as text: unprintable characters other than line breaks and tabs are escaped as in Go's strings.
func printableText(s string) string { return escapeText(s, "\n\t") }

// printableName is s as text in one line.
func printableName(s string) string { return escapeText(s, "") }

func escapeText(s, but string) string {
	return replaceRunes(s, but, func(part string) string {
		part = strconv.Quote(part)
		return part[1 : len(part)-1]
	})
}

// inJSON escapes the unprintable characters of encoded JSON, as JSON does.
func inJSON(s string) string {
	return replaceRunes(s, "\n\t\r", func(part string) string {
		r, _ := utf8.DecodeRuneInString(part)
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// replaceRunes is s with each rune that is neither printable nor in but, and each byte that is not UTF-8,
// replaced.
func replaceRunes(s, but string, by func(part string) string) string {
	var b strings.Builder
	from := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || !strconv.IsPrint(r) && !strings.ContainsRune(but, r) {
			b.WriteString(s[from:i])
			b.WriteString(by(s[i : i+size]))
			from = i + size
		}
		i += size
	}
	if from == 0 {
		return s
	}
	b.WriteString(s[from:])
	return b.String()
}

// isTerminal reports whether f, a reader or a writer, is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// safeTerminal is a terminal that nothing written to it can control. It is the last guard: output has been escaped before, as
// its place requires.
type safeTerminal struct {
	to   io.Writer
	rest string // the beginning of a rune
}

func (s *safeTerminal) Write(p []byte) (int, error) {
	all := s.rest + string(p)
	end := len(all)
	for i := 1; i < utf8.UTFMax && i <= len(all); i++ {
		if utf8.RuneStart(all[len(all)-i]) {
			if !utf8.FullRuneInString(all[len(all)-i:]) {
				end = len(all) - i
			}
			break
		}
	}
	s.rest = all[end:]
	if _, err := io.WriteString(s.to, printableText(all[:end])); err != nil {
		return 0, err
	}
	return len(p), nil
}
