package curatorotel

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
)

// mostText is the most bytes of a text in a span.
const mostText = 1024

// printable returns the first mostText bytes of s, escaped if they are not printable UTF-8: with invalid UTF-8 an
// exporter loses the whole batch.
func printable(s string) string {
	if len(s) > mostText {
		s = s[:mostText]
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	s = strconv.Quote(s)
	return s[1 : len(s)-1]
}

// text is an attribute with a text that others may have chosen.
func text(key, s string) attribute.KeyValue { return attribute.String(key, printable(s)) }
