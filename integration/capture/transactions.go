package capture

func check(path string, version int32) body { return body{}.str(path).int(version) }

var transactionRecordings = []recording{
	{"multi", "multi (14) that succeeds, with every operation it takes", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/multi", []byte("data"), persistent))
		c.call(0, "multi", opMulti, body{}.
			sub(opCheck, check("/multi", 0)).
			sub(opCreate, create("/multi/a", []byte("data"), persistent)).
			sub(opCreate2, create("/multi/b-", []byte("data"), ephemeralSequential)).
			sub(opCreateContainer, create("/multi/c", nil, container)).
			sub(opCreateTTL, createTTL("/multi/d", nil, persistentTTL, 600_000)).
			sub(opSetData, set("/multi", []byte("new"), 0)).
			sub(opDelete, remove("/multi/a", -1)).
			end())
		c.call(0, "multi with one check, as a heartbeat", opMulti, body{}.sub(opCheck, check("/multi", -1)).end())
		c.call(0, "multi of nothing", opMulti, body{}.end())
		c.closeSession()
	}},
	{"multi_failed", "multi (14) whose third operation fails: an error for each operation, in the order " +
		"given: those before it 0, itself its own, those after it -2", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/failed", nil, persistent))
		c.call(0, "multi, bad version at the third", opMulti, body{}.
			sub(opCreate, create("/failed/a", nil, persistent)).
			sub(opCheck, check("/failed", 0)).
			sub(opSetData, set("/failed", []byte("new"), 7)).
			sub(opDelete, remove("/failed/a", -1)).
			sub(opCreate, create("/failed/b", nil, persistent)).
			end())
		c.call(0, "multi, no node at the first", opMulti, body{}.
			sub(opCheck, check("/none", -1)).
			sub(opCreate, create("/failed/a", nil, persistent)).
			end())
		c.call(-101, "nothing was done", opExists, read("/failed/a", false))
		c.closeSession()
	}},
	{"multi_read", "multiRead (22): each result or error by itself", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/multiread", []byte("data"), persistent))
		c.call(0, "create", opCreate, create("/multiread/a", []byte("a"), persistent))
		c.call(0, "multiRead", opMultiRead, body{}.
			sub(opGetData, read("/multiread", false)).
			sub(opGetChildren, read("/multiread", false)).
			sub(opGetData, read("/none", false)).
			sub(opGetChildren, read("/none", false)).
			sub(opGetData, read("/multiread/a", false)).
			end())
		c.call(0, "multiRead of nothing", opMultiRead, body{}.end())
		c.closeSession()
	}},
}
