package framework

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/go-curator/curator/internal/wire"
)

// secret is a string that is never printed, whatever the verb.
type secret string

// Format hides it.
func (secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[redacted]") }

// LogValue hides it from structured logs.
func (secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalText hides it from encoders.
func (secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// Format hides the options, which contain credentials: fmt prints unexported fields without asking them.
func (options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "{options [redacted]}") }

// Format prints the user only.
func (m digestMD5) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{DIGEST-MD5 %s [redacted]}", m.user) }

// presented returns the credentials as the wire takes them.
func (o *options) presented() []wire.Credential {
	var out []wire.Credential
	for _, c := range o.credentials {
		out = append(out, *c)
	}
	return out
}

// Format prints that it is a client and nothing of it, whatever the verb: fmt would read what other
// goroutines write.
func (Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "{ZooKeeper client}") }

// Format prints the session's epoch, whatever the verb.
func (s Session) Format(f fmt.State, _ rune) {
	if s.e == nil {
		_, _ = io.WriteString(f, "{no ZooKeeper session}")
		return
	}
	fmt.Fprintf(f, "{ZooKeeper session of epoch %d}", s.e.n)
}
