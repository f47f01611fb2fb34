package curatorotel

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
)

// mostText is how many bytes of a text go into a span.
const mostText = 1024

// printable is s, or, if others have put into it what is not, s with that escaped: an exporter loses the
// whole batch for what is no UTF-8.
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
