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
	"strings"
	"unicode/utf8"

	"github.com/go-curator/curator/internal/plain"
)

// digestMD5 is the client's side of RFC 2831 as ZooKeeper uses it: authentication only, for the service
// "zookeeper" on the host "zk-sasl-md5", which is the same for all servers.
type digestMD5 struct {
	user     string
	password secret
}

const digestURI = "zookeeper/zk-sasl-md5"

// maxChallenge is the limit of RFC 2831.
const maxChallenge = 2048

var (
	errNoLogin = errors.New("the server offers no SASL login (has its JVM a JAAS section Server, and the " +
		"SASLAuthenticationProvider?)")
	errImpostor  = errors.New("the server does not prove that it knows the password")
	errChallenge = errors.New("malformed challenge")
)

func (m *digestMD5) Name() string { return "DIGEST-MD5" }

func (m *digestMD5) Start(context.Context, string) (SASLLogin, error) {
	var nonce [24]byte
	rand.Read(nonce[:]) // never fails
	return &digestLogin{digestMD5: m, cnonce: base64.StdEncoding.EncodeToString(nonce[:])}, nil
}

// digestLogin is one login. The server begins it with a challenge, so the client's first response is empty.
type digestLogin struct {
	*digestMD5
	cnonce string
	step   int
	expect string // the server's proof
}

func (l *digestLogin) Step(challenge []byte) (response []byte, done bool, err error) {
	l.step++
	switch {
	case l.step == 1:
		return []byte{}, false, nil
	case l.step == 2 && len(challenge) == 0:
		return nil, false, errNoLogin
	case l.step == 2:
		response, err = l.respond(challenge)
		return response, false, err
	}
	d, err := directives(challenge)
	if err != nil || subtle.ConstantTimeCompare([]byte(d["rspauth"]), []byte(l.expect)) != 1 {
		return nil, false, errImpostor
	}
	return nil, true, nil
}

// respond answers the challenge.
func (l *digestLogin) respond(challenge []byte) ([]byte, error) {
	d, err := directives(challenge)
	switch {
	case err != nil:
		return nil, err
	case d["nonce"] == "":
		return nil, fmt.Errorf("%w: no nonce", errChallenge)
	case !strings.EqualFold(d["algorithm"], "md5-sess"):
		return nil, fmt.Errorf("%w: algorithm %q instead of md5-sess", errChallenge, d["algorithm"])
	case !offers(d["qop"], "auth"):
		return nil, fmt.Errorf("the server demands a protection other than auth, of %q: use TLS instead", d["qop"])
	}
	user, password := l.user, string(l.password)
	realm, named := d["realm"]
	hashed := latin // on the wire it is UTF-8
	unicode := strings.EqualFold(d["charset"], "utf-8")
	if !unicode {
		if !isLatin(user) || !isLatin(password) {
			return nil, errors.New("the server does not know UTF-8, and the user or the password needs it")
		}
		user, password = latin(user), latin(password)
		hashed = func(s string) string { return s }
	}
	identity := hashed(user) + ":" + hashed(realm) + ":" + hashed(password)
	proof := func(what string) string { return proofOf(identity, d["nonce"], l.cnonce, what) }
	l.expect = proof(":" + digestURI)
	var b strings.Builder
	if unicode {
		b.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&b, "username=%s,", quoted(user))
	if named {
		fmt.Fprintf(&b, "realm=%s,", quoted(realm))
	}
	fmt.Fprintf(&b, `nonce=%s,nc=%s,cnonce=%s,digest-uri="%s",response=%s,qop=auth`, quoted(d["nonce"]), nc,
		quoted(l.cnonce), digestURI,
		proof("AUTHENTICATE:"+digestURI))
	return []byte(b.String()), nil
}

// nc counts the uses of a nonce. There is only one.
const nc = "00000001"

// proofOf is the RFC's response-value: only those who know user:realm:password can compute it.
func proofOf(identity, nonce, cnonce, what string) string {
	inner := md5.Sum([]byte(identity))
	a1 := hexMD5(string(inner[:]) + ":" + nonce + ":" + cnonce)
	return hexMD5(a1 + ":" + nonce + ":" + nc + ":" + cnonce + ":auth:" + hexMD5(what))
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// offers says whether a comma-separated list contains the word. An empty list stands for the default, which
// is the word asked for.
func offers(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if list == "" || strings.EqualFold(strings.TrimSpace(w), word) {
			return true
		}
	}
	return false
}

func isLatin(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r > 0xff }) }

// latin encodes s in ISO 8859-1 if that is possible, and leaves it in UTF-8 otherwise, as the RFC demands
// for the hash.
func latin(s string) string {
	if !utf8.ValidString(s) || !isLatin(s) {
		return s
	}
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// directives reads key=value pairs, values quoted or not. Of a repeated key the first counts, because a
// server may offer several realms.
func directives(challenge []byte) (map[string]string, error) {
	if len(challenge) > maxChallenge {
		return nil, fmt.Errorf("%w: %d bytes", errChallenge, len(challenge))
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
			return nil, fmt.Errorf("%w: a directive without a value", errChallenge)
		}
		value = strings.TrimLeft(value, " \t")
		if strings.HasPrefix(value, `"`) {
			if value, rest, ok = unquote(value[1:]); !ok {
				return nil, fmt.Errorf("%w: %s is not ended", errChallenge, plain.Text(key))
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

// unquote reads up to the closing quote.
func unquote(s string) (value, rest string, ok bool) {
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
