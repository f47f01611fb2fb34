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

// text returns s as text: unprintable characters other than line breaks and tabs are escaped as in Go's strings.
func text(s string) string { return escaped(s, "\n\t") }

// name is s as text in one line.
func name(s string) string { return escaped(s, "") }

func escaped(s, but string) string {
	return replaced(s, but, func(part string) string {
		part = strconv.Quote(part)
		return part[1 : len(part)-1]
	})
}

// inJSON escapes the unprintable characters of encoded JSON, as JSON does.
func inJSON(s string) string {
	return replaced(s, "\n\t\r", func(part string) string {
		r, _ := utf8.DecodeRuneInString(part)
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// replaced is s with each rune that is neither printable nor in but, and each byte that is not UTF-8,
// replaced.
func replaced(s, but string, by func(part string) string) string {
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

// safe is a terminal that nothing written to it can control. It is the last guard: output has been escaped before, as
// its place requires.
type safe struct {
	to   io.Writer
	rest string // the beginning of a rune
}

func (s *safe) Write(p []byte) (int, error) {
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
	if _, err := io.WriteString(s.to, text(all[:end])); err != nil {
		return 0, err
	}
	return len(p), nil
}
