package capture

// Kinds of watches for checkWatches and removeWatches, modes for addWatch.
const (
	childWatches   = 1
	dataWatches    = 2
	anyWatches     = 3
	modePersistent = 0
	modeRecursive  = 1
)

var watchRecordings = []recording{
	{"watch_events", "one-shot watches: the event arrives before the reply to the change", func(r *recorder) {
		c := r.open()
		c.call(-101, "exists with watch, absent", opExists, read("/watch", true))
		c.call(0, "create fires created", opCreate, create("/watch", nil, persistent))
		c.call(0, "exists with watch, present", opExists, read("/watch", true))
		c.call(0, "setData fires data changed", opSetData, set("/watch", []byte("x"), -1))
		c.call(0, "setData again fires nothing", opSetData, set("/watch", []byte("y"), -1))
		c.call(0, "getChildren with watch", opGetChildren, read("/watch", true))
		c.call(0, "create of a child fires children changed", opCreate, create("/watch/a", nil, persistent))
		c.call(0, "delete of the child", opDelete, remove("/watch/a", -1))
		c.call(0, "getChildren2 with watch", opGetChildren2, read("/watch", true))
		c.call(0, "getData with watch", opGetData, read("/watch", true))
		c.call(0, "delete fires deleted, once for both watches", opDelete, remove("/watch", -1))
		c.closeSession()
	}},
	{"add_watch", "addWatch (106), persistent and persistent recursive, and their events", func(r *recorder) {
		c := r.open()
		c.call(0, "addWatch persistent, node absent", opAddWatch, typed("/add", modePersistent))
		c.call(0, "create fires created", opCreate, create("/add", nil, persistent))
		c.call(0, "setData fires data changed", opSetData, set("/add", []byte("x"), -1))
		c.call(0, "create of a child fires children changed", opCreate, create("/add/a", nil, persistent))
		c.call(0, "addWatch recursive", opAddWatch, typed("/add/a", modeRecursive))
		c.call(0, "create below fires created", opCreate, create("/add/a/b", nil, persistent))
		c.call(0, "create further below fires created", opCreate, create("/add/a/b/c", nil, persistent))
		c.call(0, "setData below fires data changed", opSetData, set("/add/a/b/c", []byte("x"), -1))
		c.call(0, "delete below fires deleted", opDelete, remove("/add/a/b/c", -1))
		c.call(-5, "unknown mode", opAddWatch, typed("/add", 9))
		c.closeSession()
	}},
	{"remove_watches", "removeWatches (18): present, absent", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/remove", nil, persistent))
		c.call(-121, "none there", opRemoveWatches, typed("/remove", dataWatches))
		c.call(0, "getData with watch", opGetData, read("/remove", true))
		c.call(-121, "of the wrong kind", opRemoveWatches, typed("/remove", childWatches))
		c.call(0, "removed", opRemoveWatches, typed("/remove", dataWatches))
		c.call(-121, "removed already", opRemoveWatches, typed("/remove", dataWatches))
		c.call(0, "getChildren with watch", opGetChildren, read("/remove", true))
		c.call(0, "of any kind", opRemoveWatches, typed("/remove", anyWatches))
		c.call(0, "addWatch", opAddWatch, typed("/remove", modePersistent))
		c.call(0, "of any kind, persistent", opRemoveWatches, typed("/remove", anyWatches))
		c.call(0, "setData fires nothing", opSetData, set("/remove", []byte("x"), -1))
		c.closeSession()
	}},
	{"check_watches", "checkWatches (17): present, absent; the watch stays", func(r *recorder) {
		c := r.open()
		c.call(0, "create", opCreate, create("/check", nil, persistent))
		c.call(-121, "none there", opCheckWatches, typed("/check", dataWatches))
		c.call(0, "getData with watch", opGetData, read("/check", true))
		c.call(0, "there", opCheckWatches, typed("/check", dataWatches))
		c.call(-121, "of the wrong kind", opCheckWatches, typed("/check", childWatches))
		c.call(0, "setData fires data changed", opSetData, set("/check", []byte("x"), -1))
		c.closeSession()
	}},
	{"set_watches", "setWatches (101) after a reconnect: events for what changed meanwhile, then the " +
		"reply", func(r *recorder) {
		c := r.open()
		for _, path := range []string{"/setw", "/setw/changed", "/setw/deleted", "/setw/parent", "/setw/same"} {
			c.call(0, "create", opCreate, create(path, nil, persistent))
		}
		zxid := c.zxid
		c.net.Close()
		r.unrecorded(func(c *conn) {
			c.call(0, "", opSetData, set("/setw/changed", []byte("x"), -1))
			c.call(0, "", opDelete, remove("/setw/deleted", -1))
			c.call(0, "", opCreate, create("/setw/created", nil, persistent))
			c.call(0, "", opCreate, create("/setw/parent/child", nil, persistent))
		})
		c = r.reopen(c.session)
		c.callXid(0, "setWatches", xidSetWatches, opSetWatches, body{}.long(zxid).
			strs("/setw/changed", "/setw/deleted", "/setw/same").
			strs("/setw/created", "/setw/absent").
			strs("/setw/parent", "/setw/same"))
		c.call(0, "a watch that was kept fires", opSetData, set("/setw/same", []byte("x"), -1))
		c.closeSession()
	}},
	{"set_watches2", "setWatches2 (105): as setWatches, with persistent watches, which get no event for what " +
		"they missed", func(r *recorder) {
		c := r.open()
		for _, path := range []string{"/setw2", "/setw2/data", "/setw2/persistent", "/setw2/recursive"} {
			c.call(0, "create", opCreate, create(path, nil, persistent))
		}
		zxid := c.zxid
		c.net.Close()
		r.unrecorded(func(c *conn) {
			c.call(0, "", opSetData, set("/setw2/data", []byte("x"), -1))
			c.call(0, "", opSetData, set("/setw2/persistent", []byte("x"), -1))
			c.call(0, "", opCreate, create("/setw2/recursive/a", nil, persistent))
		})
		c = r.reopen(c.session)
		c.callXid(0, "setWatches2", xidSetWatches, opSetWatches2, body{}.long(zxid).
			strs("/setw2/data").strs("/setw2/absent").strs("/setw2").
			strs("/setw2/persistent").strs("/setw2/recursive"))
		c.call(0, "a persistent watch fires", opSetData, set("/setw2/persistent", []byte("y"), -1))
		c.call(0, "a recursive watch fires", opSetData, set("/setw2/recursive/a", []byte("y"), -1))
		c.closeSession()
	}},
	{"event_alone", "an event for what another session did", func(r *recorder) {
		c := r.open()
		c.call(-101, "exists with watch, absent", opExists, read("/alone", true))
		r.unrecorded(func(c *conn) { c.call(0, "", opCreate, create("/alone", nil, persistent)) })
		c.event()
		c.closeSession()
	}},
}
