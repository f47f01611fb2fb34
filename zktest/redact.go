package zktest

import (
	"fmt"
	"log/slog"
	"strings"
)

const redacted = "[redacted]"

// Format prints the configuration without the passwords of SASLUsers and the hash of SuperDigest, whatever
// the verb. (fmt does not call it for a Config in an unexported field of your struct.)
func (c Config) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), plainConfig(c.redacted()))
}

// LogValue does the same for structured logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", c)) }

// MarshalText does the same for encoders.
func (c Config) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%+v", c), nil }

// plainConfig is a Config that fmt prints as a struct.
type plainConfig Config

func (c Config) redacted() Config {
	users := make(map[string]string, len(c.SASLUsers))
	for name := range c.SASLUsers {
		users[name] = redacted
	}
	c.SASLUsers = users
	if user, _, ok := strings.Cut(c.SuperDigest, ":"); ok {
		c.SuperDigest = user + ":" + redacted
	} else if c.SuperDigest != "" {
		c.SuperDigest = redacted
	}
	return c
}

// Format prints only the address, whatever the verb: fmt would read fields that other goroutines write.
func (s *Server) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{zktest server %s}", s.Addr()) }

// Format prints the members, whatever the verb.
func (e *Ensemble) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "{zktest ensemble %s}", e.ConnectString())
}
