package capture

// peculiarRecordings are behaviours that one would not guess.
var peculiarRecordings = []recording{
	{"watch_collision", "a persistent watch and a one-shot watch on one path, of one connection: before 3.9 " +
		"the one-shot's end takes the persistent one along", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/collision", nil, persistent))
		c.call(0, "addWatch persistent", opAddWatch, typed("/collision", modePersistent))
		c.call(0, "getData with watch", opGetData, read("/collision", true))
		c.call(0, "setData fires once", opSetData, set("/collision", []byte("x"), -1))
		c.call(0, "setData again", opSetData, set("/collision", []byte("y"), -1))
		c.closeSession()
	}},
	{"delete_watched_parent", "the events of a delete: deleted for the node, children changed for its " +
		"parent", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/parent", nil, persistent))
		c.call(0, "create", opCreate, create("/parent/a", nil, persistent))
		c.call(0, "getData of the node with watch", opGetData, read("/parent/a", true))
		c.call(0, "getChildren of the node with watch", opGetChildren, read("/parent/a", true))
		c.call(0, "getChildren of the parent with watch", opGetChildren, read("/parent", true))
		c.call(0, "delete", opDelete, remove("/parent/a", -1))
		c.closeSession()
	}},
	{"multi_watched", "the events of a multi: all before its reply", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/events", nil, persistent))
		c.call(0, "getData with watch", opGetData, read("/events", true))
		c.call(0, "getChildren with watch", opGetChildren, read("/events", true))
		c.call(-101, "exists with watch, absent", opExists, read("/events/a", true))
		c.call(0, "multi", opMulti, body{}.
			sub(opCreate, create("/events/a", nil, persistent)).
			sub(opSetData, set("/events", []byte("x"), -1)).
			end())
		c.closeSession()
	}},
	{"close_session_watched", "the events of another session's end: its ephemeral nodes go", func(r *recorder) {
		c := r.open()
		const path = "/ephemeral-of-another"
		other := dial(r.t, r.addr, nil)
		other.connect("", session{}, 0, sessionTimeout, true)
		r.log.knows(other.session)
		other.call(0, "", opCreate, create(path, nil, ephemeral))
		c.call(0, "getData with watch", opGetData, read(path, true))
		c.call(0, "getChildren of the root with watch", opGetChildren2, read("/", true))
		other.closeSession()
		c.event()
		c.event()
		c.closeSession()
	}},
	{"reconfig", "reconfig (16) where it is not enabled", func(r *recorder) {
		c := r.open()
		c.call(-123, "reconfig", opReconfig, body{}.str("").str("3").str("").long(-1))
		c.closeSession()
	}},
	{"multi_no_right", "multi (14) refused for lack of rights: the error is in the list, as any other", func(
		r *recorder,
	) {
		c := r.open()
		c.call(0, "create, readable only", opCreate,
			body{}.str("/readable").bytes(nil).acls([]acl{{1, "world", "anyone"}}).int(persistent))
		c.call(0, "multi", opMulti, body{}.sub(opCheck, check("/readable", -1)).sub(opSetData,
			set("/readable", nil, -1)).end())
		c.closeSession()
	}},
}
