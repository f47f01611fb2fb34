package curatorotel

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
)

// maxTextBytes limits a text in a span.
const maxTextBytes = 1024

// printable returns the first maxTextBytes bytes of s, escaped if they are not printable UTF-8: because of invalid UTF-8
// an exporter would drop the whole batch.
func printable(s string) string {
	if len(s) > maxTextBytes {
		s = s[:maxTextBytes]
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	s = strconv.Quote(s)
	return s[1 : len(s)-1]
}

// text returns an attribute with a text that other clients may have chosen.
func text(key, s string) attribute.KeyValue { return attribute.String(key, printable(s)) }
