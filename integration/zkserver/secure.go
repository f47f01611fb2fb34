package zkserver

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// WithSASL returns the options of a server that knows these users and their
// passwords, and lets them log in by SASL DIGEST-MD5.
func (o Options) WithSASL(t testing.TB, users map[string]string) Options {
	t.Helper()
	var lines []string
	for user, password := range users {
		lines = append(lines, fmt.Sprintf("  user_%s=%s", user, quoteJAAS(password)))
	}
	sort.Strings(lines)
	file := JAAS(t, "Server", strings.Join(lines, "\n"))
	o.JVMFlags = append(o.JVMFlags[:len(o.JVMFlags):len(o.JVMFlags)], file)
	o.Config = append(o.Config[:len(o.Config):len(o.Config)],
		"authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
	return o
}

// JAASClient is a Java client's flag for logging in as the user by SASL DIGEST-MD5.
func JAASClient(t testing.TB, user, password string) (flag string) {
	t.Helper()
	return JAAS(t, "Client", fmt.Sprintf("  username=%s\n  password=%s", quoteJAAS(user), quoteJAAS(password)))
}

// JAAS writes a JAAS configuration with one section and returns the flag that
// makes a JVM read it.
func JAAS(t testing.TB, section, settings string) (flag string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jaas.conf")
	text := section + " {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n" + settings +
		";\n};\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "-Djava.security.auth.login.config=" + file
}

func quoteJAAS(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
