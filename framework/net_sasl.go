package framework

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"unicode/utf8"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/wire"
)

// SASLMechanism is a way to log in by SASL. DIGEST-MD5 is built in, see [WithSASLDigest]. Implement SASLMechanism for
// others, such as GSSAPI (Kerberos), and give it to [WithSASL]. (Kerberos is not built in, because all importers of this
// module would inherit the dozen modules of a Kerberos library.) Its methods may be called from several goroutines
// concurrently.
type SASLMechanism interface {
	// Name returns the mechanism's registered name, for logs and errors; the client does not send it, because the
	// server's configuration determines the mechanism. [New] calls Name once.
	Name() string
	// Start begins a login to the server on host, which is spelt as in the connect string. It may block, for a Kerberos
	// ticket for example, but must return when ctx ends, which is at the latest when the time limit of the attempt to
	// connect has passed.
	Start(ctx context.Context, host string) (SASLLogin, error)
}

// SASLLogin is one login in progress. Only one goroutine uses it.
type SASLLogin interface {
	// Step returns the response to the server's challenge. In the first call challenge is nil, because the client sends
	// the first message. If the mechanism begins with a challenge of the server, that message must be empty, not nil. If
	// the server ends the login without a last message, challenge is nil, too.
	//
	// done means that the login is complete for the mechanism; then nothing is sent if response is nil. After an error
	// the client closes the connection. Callers that wait for a connection find that error together with
	// [ErrAuthFailed], so it must not contain secrets.
	Step(challenge []byte) (response []byte, done bool, err error)
}

// loginName describes the login in errors: the user, if known, and the mechanism.
func loginName(m SASLMechanism, name string) string {
	if d, ok := m.(*digestMD5); ok {
		return fmt.Sprintf("user %q by %s", d.user, name)
	}
	if m != nil {
		return "the client by " + name
	}
	return ""
}

// loginStarter returns the mechanism as the function that the session layer calls; nil if there is none.
func loginStarter(m SASLMechanism, name string) func(context.Context, string) (wire.LoginStep, error) {
	if m == nil {
		return nil
	}
	return func(ctx context.Context, server string) (wire.LoginStep, error) {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			host = server
		}
		var login SASLLogin
		err = apart.ErrNoReturn
		apart.Call(func() { login, err = m.Start(ctx, host) })
		if err == nil && login == nil {
			err = fmt.Errorf("Start returned neither a login nor an error")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return func(challenge []byte) (response []byte, done bool, err error) {
			err = apart.ErrNoReturn
			apart.Call(func() { response, done, err = login.Step(challenge) })
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return response, done, err
		}, nil
	}
}

// digestMD5 is the client's side of RFC 2831 as ZooKeeper uses it: authentication only, for the service
// "zookeeper" on the host "zk-sasl-md5", which is the same for all servers.
type digestMD5 struct {
	user     string
	password secretText
}

// Format prints the user only.
func (m digestMD5) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "{DIGEST-MD5 %s [redacted]}", m.user) }

// secretText is a string that is never printed, whatever the verb.
type secretText string

// Format implements [fmt.Formatter].
func (secretText) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[redacted]") }

// LogValue implements [slog.LogValuer].
func (secretText) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalText implements encoding.TextMarshaler, for encoders such as JSON's.
func (secretText) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

const digestURI = "zookeeper/zk-sasl-md5"

// maxChallenge is the limit of RFC 2831 for a challenge, in bytes.
const maxChallenge = 2048

var (
	errNoSASL = errors.New("the server offers no SASL login (does its JVM have a JAAS section named " +
		"Server, and is the SASLAuthenticationProvider configured?)")
	errServerUnproven     = errors.New("the server did not prove that it knows the password")
	errMalformedChallenge = errors.New("malformed challenge")
)

func (m *digestMD5) Name() string { return "DIGEST-MD5" }

func (m *digestMD5) Start(context.Context, string) (SASLLogin, error) {
	var nonce [24]byte
	rand.Read(nonce[:]) // never fails
	return &digestLogin{digestMD5: m, cnonce: base64.StdEncoding.EncodeToString(nonce[:])}, nil
}

// digestLogin is one login, of three steps: an empty message, the response to the server's challenge, and the check of
// the server's proof that it knows the password.
type digestLogin struct {
	*digestMD5
	cnonce        string // the client's nonce
	step          int
	expectedProof string // the server's rspauth
}

func (l *digestLogin) Step(challenge []byte) (response []byte, done bool, err error) {
	l.step++
	switch {
	case l.step == 1:
		return []byte{}, false, nil
	case l.step == 2 && len(challenge) == 0:
		return nil, false, errNoSASL
	case l.step == 2:
		response, err = l.answerChallenge(challenge)
		return response, false, err
	}
	d, err := parseDirectives(challenge)
	if err != nil || subtle.ConstantTimeCompare([]byte(d["rspauth"]), []byte(l.expectedProof)) != 1 {
		return nil, false, errServerUnproven
	}
	return nil, true, nil
}

// answerChallenge returns the digest-response of RFC 2831, and sets expectedProof.
func (l *digestLogin) answerChallenge(challenge []byte) ([]byte, error) {
	d, err := parseDirectives(challenge)
	switch {
	case err != nil:
		return nil, err
	case d["nonce"] == "":
		return nil, fmt.Errorf("%w: it contains no nonce", errMalformedChallenge)
	case !strings.EqualFold(d["algorithm"], "md5-sess"):
		return nil, fmt.Errorf("%w: it names the algorithm %q instead of md5-sess",
			errMalformedChallenge, d["algorithm"])
	case !offersOption(d["qop"], "auth"):
		return nil, fmt.Errorf("the server demands the protection %q, and this client offers only auth: "+
			"use TLS for protection", d["qop"])
	}
	user, password := l.user, string(l.password)
	realm, named := d["realm"]
	hashed := toLatin1 // for the hash; the response itself has UTF-8
	unicode := strings.EqualFold(d["charset"], "utf-8")
	if !unicode {
		if !isLatin1(user) || !isLatin1(password) {
			return nil, errors.New("the user or the password needs UTF-8, which the server does not support")
		}
		user, password = toLatin1(user), toLatin1(password)
		hashed = func(s string) string { return s }
	}
	identity := hashed(user) + ":" + hashed(realm) + ":" + hashed(password)
	proof := func(a2 string) string { return digestProof(identity, d["nonce"], l.cnonce, a2) }
	l.expectedProof = proof(":" + digestURI)
	var b strings.Builder
	if unicode {
		b.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&b, "username=%s,", quoteValue(user))
	if named {
		fmt.Fprintf(&b, "realm=%s,", quoteValue(realm))
	}
	fmt.Fprintf(&b, `nonce=%s,nc=%s,cnonce=%s,digest-uri="%s",response=%s,qop=auth`, quoteValue(d["nonce"]), nonceCount,
		quoteValue(l.cnonce), digestURI,
		proof("AUTHENTICATE:"+digestURI))
	return []byte(b.String()), nil
}

// nonceCount is RFC 2831's nc, the number of uses of a nonce: each is used once.
const nonceCount = "00000001"

// digestProof returns RFC 2831's response-value, which proves knowledge of identity: the secret user:realm:password. a2
// is the RFC's A2, which differs between the client's proof and the server's.
func digestProof(identity, nonce, cnonce, a2 string) string {
	inner := md5.Sum([]byte(identity))
	a1 := hexMD5(string(inner[:]) + ":" + nonce + ":" + cnonce)
	return hexMD5(a1 + ":" + nonce + ":" + nonceCount + ":" + cnonce + ":auth:" + hexMD5(a2))
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// offersOption reports whether a comma-separated list of quality-of-protection options contains option. An empty list
// stands for the default, auth, which is the only option that the client requests.
func offersOption(list, option string) bool {
	for offered := range strings.SplitSeq(list, ",") {
		if list == "" || strings.EqualFold(strings.TrimSpace(offered), option) {
			return true
		}
	}
	return false
}

func isLatin1(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r > 0xff }) }

// toLatin1 encodes s in ISO 8859-1 if possible, and otherwise leaves it in UTF-8, as RFC 2831 requires for the hash.
func toLatin1(s string) string {
	if !utf8.ValidString(s) || !isLatin1(s) {
		return s
	}
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

func quoteValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// parseDirectives parses a challenge: key=value pairs, with or without quotes around the value. If a key is repeated,
// its first value counts: a server may offer several realms.
func parseDirectives(challenge []byte) (map[string]string, error) {
	if len(challenge) > maxChallenge {
		return nil, fmt.Errorf("%w: it has %d bytes", errMalformedChallenge, len(challenge))
	}
	found := map[string]string{}
	rest := string(challenge)
	for {
		rest = strings.TrimLeft(rest, ", \t\r\n")
		if rest == "" {
			return found, nil
		}
		key, value, ok := strings.Cut(rest, "=")
		if key = strings.ToLower(strings.TrimRight(key, " \t")); !ok || key == "" ||
			strings.ContainsAny(key, `,"`) {
			return nil, fmt.Errorf("%w: it contains a directive without a value", errMalformedChallenge)
		}
		value = strings.TrimLeft(value, " \t")
		if strings.HasPrefix(value, `"`) {
			if value, rest, ok = unquoteValue(value[1:]); !ok {
				return nil, fmt.Errorf("%w: the value of %s has no closing quote",
					errMalformedChallenge, plain.Text(key))
			}
		} else if end := strings.IndexByte(value, ','); end >= 0 {
			value, rest = strings.TrimRight(value[:end], " \t"), value[end:]
		} else {
			value, rest = strings.TrimRight(value, " \t"), ""
		}
		if _, again := found[key]; !again {
			found[key] = value
		}
	}
}

func unquoteValue(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], true
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
