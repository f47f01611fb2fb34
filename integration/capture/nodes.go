package capture

var nodeRecordings = []recording{
	{"create", "create (1) in all modes that it knows, and its errors", func(r *recorder) {
		c := r.open()
		c.call(0, "create persistent", opCreate, create("/create", []byte("data"), persistent))
		c.call(0, "create with data null", opCreate, create("/create/null", nil, persistent))
		c.call(0, "create with empty data", opCreate, create("/create/empty", []byte{}, persistent))
		c.call(0, "create ephemeral", opCreate, create("/create/e", []byte("data"), ephemeral))
		c.call(0, "create sequential", opCreate, create("/create/s-", []byte("data"), persistentSequential))
		c.call(0, "create ephemeral sequential", opCreate,
			create("/create/es-", []byte("data"), ephemeralSequential))
		c.call(0, "create sequential, name empty", opCreate, create("/create/", nil, persistentSequential))
		c.call(0, "create with a name outside ASCII", opCreate, create("/create/größe-锁", nil, persistent))
		c.call(-110, "node exists", opCreate, create("/create", nil, persistent))
		c.call(-101, "no parent", opCreate, create("/create/no/node", nil, persistent))
		c.call(-108, "parent is ephemeral", opCreate, create("/create/e/child", nil, persistent))
		c.call(-8, "path ends with a slash", opCreate, create("/create/", nil, persistent))
		c.call(-114, "empty ACL", opCreate, body{}.str("/create/acl").bytes(nil).acls(nil).int(persistent))
		c.closeSession()
	}},
	{"create2", "create2 (15) in its modes: the reply has a Stat", func(r *recorder) {
		c := r.open()
		c.call(0, "create2 persistent", opCreate2, create("/create2", []byte("data"), persistent))
		c.call(0, "create2 ephemeral", opCreate2, create("/create2/e", []byte("data"), ephemeral))
		c.call(0, "create2 sequential", opCreate2, create("/create2/s-", nil, persistentSequential))
		c.call(0, "create2 ephemeral sequential, protected", opCreate2,
			create("/create2/_c_8d1f5a0e-3a52-4c0e-9a52-0f6d1b1c2d3e-lock-", []byte("data"), ephemeralSequential))
		c.call(-110, "node exists", opCreate2, create("/create2", nil, persistent))
		c.call(-101, "no parent", opCreate2, create("/create2/no/node", nil, persistent))
		c.closeSession()
	}},
	{"create_container", "createContainer (19)", func(r *recorder) {
		c := r.open()
		c.call(0, "createContainer", opCreateContainer, create("/container", []byte("data"), container))
		c.call(-110, "node exists", opCreateContainer, create("/container", nil, container))
		c.call(0, "exists: the Stat does not show that it is a container", opExists, read("/container", false))
		c.closeSession()
	}},
	{"create_ttl", "createTTL (21)", func(r *recorder) {
		c := r.open()
		c.call(0, "createTTL", opCreateTTL, createTTL("/ttl", []byte("data"), persistentTTL, 600_000))
		c.call(0, "createTTL sequential", opCreateTTL, createTTL("/ttl-", nil, sequentialTTL, 600_000))
		c.call(-110, "node exists", opCreateTTL, createTTL("/ttl", nil, persistentTTL, 600_000))
		c.call(-8, "TTL 0", opCreateTTL, createTTL("/ttl-0", nil, persistentTTL, 0))
		c.call(0, "exists: the Stat does not show the TTL", opExists, read("/ttl", false))
		c.closeSession()
	}},
	{"delete", "delete (2) and its errors", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/delete", nil, persistent))
		c.call(0, "create", opCreate, create("/delete/child", nil, persistent))
		c.call(-111, "not empty", opDelete, remove("/delete", -1))
		c.call(-103, "bad version", opDelete, remove("/delete/child", 5))
		c.call(0, "delete of version 0", opDelete, remove("/delete/child", 0))
		c.call(0, "delete of any version", opDelete, remove("/delete", -1))
		c.call(-101, "no node", opDelete, remove("/delete", -1))
		c.call(-8, "the root", opDelete, remove("/", -1))
		c.closeSession()
	}},
	{"set_data", "setData (5) and its errors", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/set", []byte("data"), persistent))
		c.call(0, "setData of any version", opSetData, set("/set", []byte("new"), -1))
		c.call(0, "setData of version 1", opSetData, set("/set", []byte{}, 1))
		c.call(0, "setData null", opSetData, set("/set", nil, 2))
		c.call(-103, "bad version", opSetData, set("/set", []byte("new"), 1))
		c.call(-101, "no node", opSetData, set("/none", []byte("new"), -1))
		c.closeSession()
	}},
}

var readRecordings = []recording{
	{"exists", "exists (3): present, absent, ephemeral", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/exists", []byte("data"), persistent))
		c.call(0, "create", opCreate, create("/exists/e", nil, ephemeral))
		c.call(0, "present", opExists, read("/exists", false))
		c.call(0, "present and ephemeral", opExists, read("/exists/e", false))
		c.call(-101, "absent", opExists, read("/none", false))
		c.call(-101, "no leading slash: not looked at, just not there", opExists, read("exists", false))
		c.closeSession()
	}},
	{"get_data", "getData (4): data, empty, null, no node", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/get", []byte("data"), persistent))
		c.call(0, "create", opCreate, create("/get/empty", []byte{}, persistent))
		c.call(0, "create", opCreate, create("/get/null", nil, persistent))
		c.call(0, "getData", opGetData, read("/get", false))
		c.call(0, "empty data", opGetData, read("/get/empty", false))
		c.call(0, "data null", opGetData, read("/get/null", false))
		c.call(-101, "no node", opGetData, read("/none", false))
		c.closeSession()
	}},
	{"get_config", "getData of /zookeeper/config on a standalone server", func(r *recorder) {
		c := r.open()
		c.call(0, "getData", opGetData, read("/zookeeper/config", false))
		c.closeSession()
	}},
	{"get_children", "getChildren (8): some, none, no node", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/children", nil, persistent))
		c.call(0, "getChildren, none", opGetChildren, read("/children", false))
		c.call(0, "create", opCreate, create("/children/a", nil, persistent))
		c.call(0, "create", opCreate, create("/children/b", nil, persistent))
		c.call(0, "getChildren", opGetChildren, read("/children", false))
		c.call(-101, "no node", opGetChildren, read("/none", false))
		c.closeSession()
	}},
	{"get_children2", "getChildren2 (12): some, none, no node", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/children2", nil, persistent))
		c.call(0, "getChildren2, none", opGetChildren2, read("/children2", false))
		c.call(0, "create", opCreate, create("/children2/a", nil, persistent))
		c.call(0, "create", opCreate, create("/children2/b", nil, persistent))
		c.call(0, "getChildren2", opGetChildren2, read("/children2", false))
		c.call(-101, "no node", opGetChildren2, read("/none", false))
		c.closeSession()
	}},
	{"sync", "sync (9); the node need not exist", func(r *recorder) {
		c := r.open()
		c.call(0, "sync", opSync, pathOnly("/sync"))
		c.call(0, "sync of the root", opSync, pathOnly("/"))
		c.closeSession()
	}},
	{"get_ephemerals", "getEphemerals (103) of the own session", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/ephemerals", nil, persistent))
		c.call(0, "none", opGetEphemerals, pathOnly("/"))
		c.call(0, "create", opCreate, create("/ephemerals/a", nil, ephemeral))
		c.call(0, "create", opCreate, create("/ephemerals/b", nil, ephemeral))
		c.call(0, "all", opGetEphemerals, pathOnly("/"))
		c.call(0, "under a prefix", opGetEphemerals, pathOnly("/ephemerals/a"))
		c.closeSession()
	}},
	{"get_all_children_number", "getAllChildrenNumber (104): all descendants", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/number", nil, persistent))
		c.call(0, "create", opCreate, create("/number/a", nil, persistent))
		c.call(0, "create", opCreate, create("/number/a/b", nil, persistent))
		c.call(0, "number", opAllChildren, pathOnly("/number"))
		c.call(-101, "no node", opAllChildren, pathOnly("/none"))
		c.closeSession()
	}},
}
