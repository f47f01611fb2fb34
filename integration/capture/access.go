package capture

var accessRecordings = []recording{
	{"auth", "auth (100) with digest, the right it gives, and who the server thinks we are (107)", func(
		r *recorder,
	) {
		c := r.open()
		c.call(0, "whoAmI before", opWhoAmI, nil)
		c.callXid(0, "auth", xidAuth, opAuth, auth("digest", "user:secret"))
		c.call(0, "whoAmI after", opWhoAmI, nil)
		c.call(0, "create with the ACL of its creator", opCreate,
			body{}.str("/auth").bytes([]byte("data")).acls([]acl{{31, "auth", ""}}).int(persistent))
		c.call(0, "getACL", opGetACL, pathOnly("/auth"))
		c.call(0, "getData", opGetData, read("/auth", false))
		other := r.open()
		other.call(-102, "getData without the right", opGetData, read("/auth", false))
		other.call(-102, "setData without the right", opSetData, set("/auth", nil, -1))
		other.log = nil
		other.closeSession()
		c.closeSession()
	}},
	{"auth_failed", "auth (100) with a scheme the server does not know: -115, and the connection is " +
		"closed", func(r *recorder) {
		c := r.open()
		c.callXid(-115, "auth", xidAuth, opAuth, auth("nosuchscheme", "user:secret"))
		c.closedByServer()
		r.end(c.session)
	}},
	{"acl", "getACL (6) and setACL (7)", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/acl", nil, persistent))
		c.call(0, "getACL", opGetACL, pathOnly("/acl"))
		c.call(0, "setACL", opSetACL, body{}.str("/acl").acls([]acl{{31, "world", "anyone"},
			{1, "ip", "127.0.0.1"}}).int(0))
		c.call(0, "getACL", opGetACL, pathOnly("/acl"))
		c.call(-103, "bad version", opSetACL, body{}.str("/acl").acls(world).int(7))
		c.call(-114, "invalid ACL", opSetACL, body{}.str("/acl").acls([]acl{{31, "nosuchscheme", "x"}}).int(-1))
		c.call(-101, "getACL, no node", opGetACL, pathOnly("/none"))
		c.call(-101, "setACL, no node", opSetACL, body{}.str("/none").acls(world).int(-1))
		c.closeSession()
	}},
}
