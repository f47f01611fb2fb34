package zktest

import (
	"cmp"
	"crypto/sha1"
	"encoding/base64"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// provedIdentity is a scheme and an id that a connection has proved.
type provedIdentity = jute.ClientInfo

var openACL = []jute.ACL{{Perms: jute.PermAll, Scheme: "world", ID: "anyone"}}

// hasPermission reports whether the connection has one of the permissions. A nil ACL allows everything.
func (c *clientConn) hasPermission(s *Server, acl []jute.ACL, perms int32) bool {
	return aclAllows(acl, perms, c.auth)
}

func aclAllows(acl []jute.ACL, perms int32, ids []provedIdentity) bool {
	if len(acl) == 0 || slices.ContainsFunc(ids, func(id provedIdentity) bool { return id.Scheme == "super" }) {
		return true
	}
	for _, a := range acl {
		if a.Perms&perms == 0 {
			continue
		}
		if a.Scheme == "world" && a.ID == "anyone" {
			return true
		}
		for _, id := range ids {
			if id.Scheme == a.Scheme && idMatches(a.Scheme, id.User, a.ID) {
				return true
			}
		}
	}
	return false
}

// idMatches compares an identity with an ACL's id by the rules of its scheme.
func idMatches(scheme, id, aclID string) bool {
	switch scheme {
	case "digest", "sasl":
		return id == aclID
	case "ip":
		prefix, valid := parseIPPrefix(aclID)
		addr, err := netip.ParseAddr(id)
		return valid && err == nil && prefix.Contains(addr)
	}
	return false
}

// parseIPPrefix reads "10.0.0.1" or "10.0.0.0/8". Like the real provider of 3.8 it accepts IPv4 only.
func parseIPPrefix(s string) (netip.Prefix, bool) {
	host, bits, cut := strings.Cut(s, "/")
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Is4() {
		return netip.Prefix{}, false
	}
	n := 32
	if cut {
		if n, err = strconv.Atoi(bits); err != nil || n < 0 || n > 32 {
			return netip.Prefix{}, false
		}
	}
	return netip.PrefixFrom(addr, n), true
}

func (s *Server) isValidID(scheme, id string) bool {
	switch scheme {
	case "digest":
		// Like Java's split, which drops empty parts at the end.
		return strings.Count(strings.TrimRight(id, ":"), ":") == 1
	case "sasl":
		return len(s.cfg.SASLUsers) > 0 // else the server has no such provider
	case "ip":
		_, valid := parseIPPrefix(id)
		return valid
	}
	return false
}

// hasAuthProvider reports whether the server has a provider for the scheme.
func (s *Server) hasAuthProvider(scheme string) bool {
	switch scheme {
	case "world", "digest", "ip":
		return true
	case "sasl":
		return len(s.cfg.SASLUsers) > 0
	}
	return false
}

// resolveACL validates a request's ACL and replaces "auth" by the identities that the requester has proved.
func (s *Server) resolveACL(acl []jute.ACL, ids []provedIdentity) ([]jute.ACL, Error) {
	if acl == nil && s.cfg.Profile.behaviour().nullACLFails {
		return nil, ErrMarshalling
	}
	var fixed []jute.ACL
	for i, a := range acl {
		if slices.Contains(acl[:i], a) {
			continue
		}
		switch {
		case a.Scheme == "world" && a.ID == "anyone":
			fixed = append(fixed, a)
		case a.Scheme == "auth":
			proved := false
			for _, id := range ids {
				if id.Scheme == "digest" || id.Scheme == "sasl" || id.Scheme == "super" && id.User != "" {
					proved = true
					fixed = append(fixed, jute.ACL{Perms: a.Perms, Scheme: id.Scheme, ID: id.User})
				}
			}
			if !proved {
				return nil, ErrInvalidACL
			}
		case a.ID == jute.Null && s.hasAuthProvider(a.Scheme):
			return nil, ErrMarshalling
		case s.isValidID(a.Scheme, a.ID):
			fixed = append(fixed, a)
		default:
			return nil, ErrInvalidACL
		}
	}
	if len(fixed) == 0 {
		return nil, ErrInvalidACL
	}
	return fixed, ok
}

// digestUserID returns the id that "user:password" proves: the user and a hash of both.
func digestUserID(credentials []byte) string {
	user, _, _ := strings.Cut(string(credentials), ":")
	sum := sha1.Sum(credentials)
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// authenticate serves auth (100), which is answered before the request pipeline: it does not touch the
// session.
func (s *Server) authenticate(c *clientConn, xid int32, d *jute.Coder) {
	var p jute.AuthPacket
	p.Fields(d)
	if d.Err() != nil {
		c.closeConn(false)
		return
	}
	result := ok
	switch {
	case p.Scheme == "digest" && p.Auth != nil:
		id := digestUserID(p.Auth)
		if s.cfg.SuperDigest != "" && id == s.cfg.SuperDigest {
			c.addIdentity(provedIdentity{Scheme: "super"})
		}
		c.addIdentity(provedIdentity{Scheme: "digest", User: id})
	case p.Scheme == "ip":
		c.addIdentity(provedIdentity{Scheme: "ip", User: c.host})
	default:
		result = ErrAuthFailed
	}
	s.trace.addEntry(traceEntry{
		kind: traceReply, conn: c.id, session: c.sessionID,
		xid: xid, op: jute.OpAuth, path: p.Scheme, err: result,
	})
	c.queueFrame(jute.Frame(&jute.ReplyHeader{Xid: xid, Err: int32(result)}))
	if result != ok {
		c.closeConn(true)
	}
}

// addIdentity adds an identity. The identities stay in the order of the real server's hash set: the order of
// whoAmI's reply and of the entries that replace "auth" in an ACL.
func (c *clientConn) addIdentity(id provedIdentity) {
	if slices.Contains(c.auth, id) {
		return
	}
	c.auth = append(c.auth, id)
	slices.SortStableFunc(c.auth, func(a, b provedIdentity) int {
		return cmp.Compare(identityBucket(a), identityBucket(b))
	})
}

// identityBucket returns the bucket of an identity in a hash table of 16, which Java enlarges only from 13
// identities on.
func identityBucket(id provedIdentity) uint32 {
	return spreadHash((17*37+javaStringHash(id.Scheme))*37+javaStringHash(id.User)) & 15
}

func (c *clientConn) hasProvedDigest() bool {
	return slices.ContainsFunc(c.auth, func(id provedIdentity) bool { return id.Scheme == "digest" })
}
