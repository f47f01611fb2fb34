package shell

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// promptWord is a word of a line.
type promptWord struct {
	value string
	start int // where it begins in the line
}

// splitWords splits a line of the prompt into words. Blanks separate them. 'text' is taken as it is, "text" as in Go's
// strings, and a backslash takes the next character as it is. open reports whether the line ends in a word or in a
// quotation, so that the last word is still being written.
func splitWords(line string) (found []promptWord, open bool, err error) {
	var value strings.Builder
	in, start := false, 0
	begin := func(i int) {
		if !in {
			in, start = true, i
		}
	}
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case c == ' ' || c == '\t':
			if in {
				found = append(found, promptWord{value.String(), start})
				value.Reset()
				in = false
			}
			i++
		case c == '\'':
			begin(i)
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				value.WriteString(line[i+1:])
				return append(found, promptWord{value.String(), start}), true, fmt.Errorf("a ' is missing")
			}
			value.WriteString(line[i+1 : i+1+end])
			i += end + 2
		case c == '"':
			begin(i)
			quoted, err := strconv.QuotedPrefix(line[i:])
			if err != nil {
				part, err := strconv.Unquote(line[i:] + `"`)
				if err != nil {
					part = line[i+1:]
				}
				value.WriteString(part)
				return append(found, promptWord{value.String(), start}), true,
					fmt.Errorf(`a " is missing, or something after a \ is not as in Go's strings`)
			}
			part, _ := strconv.Unquote(quoted)
			value.WriteString(part)
			i += len(quoted)
		case c == '\\':
			begin(i)
			if i++; i == len(line) {
				return append(found, promptWord{value.String(), start}), true, fmt.Errorf(`a character is missing after \`)
			}
			_, size := utf8.DecodeRuneInString(line[i:])
			value.WriteString(line[i : i+size])
			i += size
		default:
			begin(i)
			value.WriteByte(c)
			i++
		}
	}
	if in {
		found = append(found, promptWord{value.String(), start})
	}
	return found, in, nil
}

// quoteWord quotes a word if splitWords would change it.
func quoteWord(s string) string {
	if s == "" || strings.ContainsAny(s, " \"'\\") || printableName(s) != s {
		return strconv.Quote(s)
	}
	return s
}
