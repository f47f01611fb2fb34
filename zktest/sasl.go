package zktest

import (
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// SASL (102) with the one mechanism that a plain server offers, DIGEST-MD5. Like auth it is answered before
// the request pipeline: it does not touch the session.

const saslRealm = "zk-sasl-md5"

// saslToken is the only field of both records.
type saslToken struct{ token []byte }

func (t *saslToken) Fields(c *jute.Coder) { c.Buffer(&t.token) }

// serveLogin serves one step of a login. Without SASLUsers it replies like a server without a JAAS section: no
// error, no token.
func (s *Server) serveLogin(r *clientRequest) {
	var said saslToken
	if r.decodeRecord(&said) != ok {
		r.conn.closeConn(false)
		return
	}
	c := r.conn
	switch {
	case len(s.cfg.SASLUsers) == 0 || c.isLoggedIn():
		s.replyWithZxid(r, 0, ok, &saslToken{})
	case c.nonce == "" && len(said.token) == 0:
		var nonce [20]byte
		rand.Read(nonce[:]) // never fails
		c.nonce = hex.EncodeToString(nonce[:])
		s.replyWithZxid(r, 0, ok, &saslToken{fmt.Appendf(nil,
			`realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess`, saslRealm, c.nonce)})
	default:
		user, proof := s.checkDigest(c.nonce, string(said.token))
		c.nonce = ""
		if user != "" {
			c.addIdentity(provedIdentity{Scheme: "sasl", User: user})
			s.replyWithZxid(r, 0, ok, &saslToken{[]byte("rspauth=" + proof)})
			return
		}
		err := ErrAuthFailed
		if s.cfg.RequireSASL {
			err = ErrSessionClosedRequireAuth
		}
		s.replyWithZxid(r, 0, err, &saslToken{})
		c.closeConn(true)
	}
}

func (c *clientConn) isLoggedIn() bool {
	for _, id := range c.auth {
		if id.Scheme == "sasl" {
			return true
		}
	}
	return false
}

var saslDirective = regexp.MustCompile(`([a-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^",]*))(?:,|$)`)

// checkDigest returns the user whose proof of the password is right, and the server's own proof; "" if it is wrong.
func (s *Server) checkDigest(nonce, response string) (user, proof string) {
	d := map[string]string{}
	for _, m := range saslDirective.FindAllStringSubmatch(response, -1) {
		d[m[1]] = regexp.MustCompile(`\\(.)`).ReplaceAllString(m[2], "$1") + m[3]
	}
	password, known := s.cfg.SASLUsers[d["username"]]
	fresh := nonce != "" && d["nonce"] == nonce && d["nc"] == "00000001"
	if !known || !fresh || d["realm"] != saslRealm || d["digest-uri"] != "zookeeper/"+saslRealm {
		return "", ""
	}
	secret := md5.Sum([]byte(encodeLatin1(d["username"]) + ":" + saslRealm + ":" + encodeLatin1(password)))
	digest := func(s string) string {
		sum := md5.Sum([]byte(s))
		return hex.EncodeToString(sum[:])
	}
	value := func(method string) string {
		return digest(strings.Join([]string{
			digest(string(secret[:]) + ":" + nonce + ":" + d["cnonce"]), nonce, d["nc"], d["cnonce"], "auth",
			digest(method + ":zookeeper/" + saslRealm),
		}, ":"))
	}
	if d["response"] != value("AUTHENTICATE") {
		return "", ""
	}
	return d["username"], value("")
}

// encodeLatin1 returns the string in ISO 8859-1 if that can encode it, in UTF-8 otherwise.
func encodeLatin1(s string) string {
	var b []byte
	for _, r := range s {
		if r > 0xff {
			return s
		}
		b = append(b, byte(r))
	}
	return string(b)
}
