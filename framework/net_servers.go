package framework

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-curator/curator/internal/zkpath"
)

// ErrInvalidConnectString means that the connect string given to [New] or [Client.SetServers] is not valid. The message
// has the remedy.
var ErrInvalidConnectString = newSentinel("invalid connect string")

const defaultPort = "2181"

const maxHostLength = 253 // bytes, as in DNS

// shortenText returns s, or its first 100 bytes and "…" if it is longer than that.
func shortenText(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// describePathFault returns the text of an error of package zkpath, with a long path shortened.
func describePathFault(err error) string {
	var fault *zkpath.Error
	if errors.As(err, &fault) {
		return fmt.Sprintf("%q: %s", shortenText(fault.Path), fault.Reason)
	}
	return err.Error()
}

// redactConnectString returns a connect string for errors, without the text before an "@", which may contain a password.
func redactConnectString(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		s = "[redacted]" + s[i:]
	}
	return shortenText(s)
}

// parseConnectString is parseServersAndChroot, but its error shows no text before an "@", which may contain a password.
func parseConnectString(s string) (servers []string, chroot string, err error) {
	if servers, chroot, err = parseServersAndChroot(s); err != nil && strings.Contains(s, "@") {
		err = fmt.Errorf("%w %q: a host name cannot contain '@' (the text before the '@' is not shown); "+
			"give user and password by WithAuth or WithSASLDigest", ErrInvalidConnectString, redactConnectString(s))
	}
	return servers, chroot, err
}

// parseServersAndChroot parses "host:port,host:port/chroot". The port may be left out, an IPv6 address is in brackets, and
// spaces around entries and servers that were listed before are ignored. It returns the servers as host:port, and the
// chroot as "" or "/app".
func parseServersAndChroot(s string) (servers []string, chroot string, err error) {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w %q: %s", ErrInvalidConnectString, shortenText(s), fmt.Sprintf(format, args...))
	}
	if !utf8.ValidString(s) {
		return nil, "", invalid("it is not UTF-8")
	}
	if strings.TrimSpace(s) == "" {
		return nil, "", invalid("it names no server; " +
			`write "host:2181", or "host1:2181,host2:2181,host3:2181/chroot"`)
	}
	if scheme, _, ok := strings.Cut(s, "://"); ok {
		return nil, "", invalid(`it is not a URL; leave out "%s://"`, shortenText(strings.TrimSpace(scheme)))
	}
	list := s
	if i := strings.IndexByte(s, '/'); i >= 0 {
		list, chroot = s[:i], strings.TrimSpace(s[i:])
		if strings.Contains(chroot, ",") {
			return nil, "", invalid("it names several chroots; write one for all servers, after the last " +
				"server: " +
				`"host1:2181,host2:2181/chroot"`)
		}
		if chroot != "/" && chroot != "//" {
			chroot = strings.TrimSuffix(chroot, "/")
		}
		if chroot != strings.TrimSpace(chroot) {
			return nil, "", invalid("the chroot ends with a space before its last slash; remove the space")
		}
		if err := zkpath.Validate(chroot, false); err != nil {
			return nil, "", invalid("the chroot: %s", describePathFault(err))
		}
		if chroot == "/" {
			chroot = ""
		}
	}
	seen := map[string]bool{}
	for n, entry := range strings.Split(list, ",") {
		entry = strings.TrimSpace(entry)
		if corrected := insertCommas(entry); corrected != "" {
			return nil, "", invalid("servers are not separated by commas; write %q", shortenText(corrected))
		}
		if entry == "" {
			return nil, "", invalid("server %d is empty; remove the comma, or write a host there", n+1)
		}
		server, fault := parseServerEntry(entry)
		if fault != "" {
			return nil, "", invalid("server %q: %s", shortenText(entry), fault)
		}
		if !seen[server] {
			seen[server] = true
			servers = append(servers, server)
		}
	}
	return servers, chroot, nil
}

// warnOfDoubles logs if a valid connect string lists more servers than it names different ones.
func warnOfDoubles(log *slog.Logger, connect string, servers []string) {
	list, _, _ := strings.Cut(connect, "/")
	if n := strings.Count(list, ",") + 1; n > len(servers) {
		log.Warn("the connect string lists a server more than once; it counts once", "listed", n,
			"list", joinServers(servers, ","))
	}
}

// insertCommas suggests a correction for an entry with several servers that spaces or semicolons separate: the servers
// with commas between them. It returns "" for any other entry.
func insertCommas(entry string) string {
	servers := strings.FieldsFunc(entry, func(r rune) bool { return unicode.IsSpace(r) || r == ';' })
	for _, server := range servers {
		if _, fault := parseServerEntry(server); fault != "" || len(servers) < 2 {
			return ""
		}
	}
	return strings.Join(servers, ",")
}

// parseServerEntry returns the server of an entry as host:port. If the entry is not valid, fault is the reason, with the
// remedy.
func parseServerEntry(entry string) (server, fault string) {
	host, port := entry, defaultPort
	switch {
	case entry[0] == '[':
		end := strings.IndexByte(entry, ']')
		if end < 0 {
			return "", `the "]" is missing; write an IPv6 address as "[::1]:2181"`
		}
		rest := entry[end+1:]
		if host = entry[1:end]; rest != "" {
			if rest[0] != ':' {
				return "", `only a port can follow the "]"; write "[::1]:2181"`
			}
			port = rest[1:]
		}
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Is6() || strings.ContainsFunc(host, isUnprintable) {
			return "", "there is no IPv6 address between the brackets"
		}
		host = addr.String() // the usual form; a zone keeps its case, which matters
	case strings.Count(entry, ":") > 1:
		return "",
			`it has several colons; write an IPv6 address in brackets: "[::1]:2181"; separate servers by commas`
	case strings.Contains(entry, ":"):
		host, port, _ = strings.Cut(entry, ":")
	}
	if host == "" {
		return "", `the host is missing; write "host:2181"`
	}
	if len(host) > maxHostLength {
		return "", fmt.Sprintf("the host name has %d bytes; the limit is %d", len(host), maxHostLength)
	}
	if i := strings.IndexFunc(host, func(r rune) bool {
		return isUnprintable(r) || strings.ContainsRune(" @;[]", r)
	}); i >= 0 {
		r, _ := utf8.DecodeRuneInString(host[i:])
		return "", fmt.Sprintf("a host name cannot contain %q; separate servers by commas", r)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", fmt.Sprintf("%q is not a port; write a number from 1 to 65535, or leave it out for %s",
			shortenText(port), defaultPort)
	}
	if entry[0] != '[' {
		host = strings.ToLower(host)
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), ""
}

func isUnprintable(r rune) bool { return !unicode.IsPrint(r) }

// serverLists has the lists of servers to connect to. The slices are replaced, and never changed.
type serverLists struct {
	mu      sync.Mutex
	given   []string // to New or SetServers; guarded by mu
	tracked []string // from the ensemble's configuration, nil if there is none; guarded by mu
}

// currentServers returns the servers to connect to, and further servers to try when none of the first can be
// reached.
func (s *serverLists) currentServers() (list, further []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracked != nil {
		return s.tracked, s.given
	}
	return s.given, nil
}

// maxListedServers limits the servers that a log line or an error names.
const maxListedServers = 16

// joinServers returns the servers as text, at most maxListedServers of them.
func joinServers(servers []string, separator string) string {
	if more := len(servers) - maxListedServers; more > 0 {
		return fmt.Sprintf("%s%sand %d more", strings.Join(servers[:maxListedServers], separator), separator, more)
	}
	return strings.Join(servers, separator)
}
