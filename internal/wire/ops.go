package wire

import "github.com/go-curator/curator/internal/jute"

// operation has the properties of an operation of the protocol. zktest has a separate table: with a common one, both
// would make the same mistake.
type operation struct {
	name string // in ZooKeeper's spelling
	// mutates: a request without a reply may have changed something, so its outcome is unknown.
	mutates bool
	// commits: a success proves that a quorum has committed it, see [Liveness]. A reconfig mutates and does not commit:
	// it replaces the quorum, and possibly the leader, that the proof relies on.
	commits bool
	// large: the reply has data or a list, whose size is not known beforehand: up to Limits.MaxReply.
	large bool
	// arms is the kind of watch that the request can arm, 0 if it arms none or many.
	arms WatchKind
	// since is the minor number of the first release that has it: 7 for 3.7, 0 if 3.5 has it. Releases before 3.6 close
	// the connection on it, see mustAwaitProbe.
	since int
}

// operations are the operations that can be sent; without a row, Submit refuses a call with ErrNoOperation. A check is
// part of a multi, and createSession and deleteContainer are the servers' own.
var operations = map[int32]operation{
	jute.OpCreate:          {name: "create", mutates: true, commits: true},
	jute.OpCreate2:         {name: "create2", mutates: true, commits: true},
	jute.OpCreateContainer: {name: "createContainer", mutates: true, commits: true},
	jute.OpCreateTTL:       {name: "createTTL", mutates: true, commits: true},
	jute.OpDelete:          {name: "delete", mutates: true, commits: true},
	jute.OpSetData:         {name: "setData", mutates: true, commits: true},
	jute.OpSetACL:          {name: "setACL", mutates: true, commits: true},
	jute.OpMulti:           {name: "multi", mutates: true, commits: true, large: true},
	jute.OpReconfig:        {name: "reconfig", mutates: true, large: true},

	jute.OpExists:               {name: "exists", arms: Data},
	jute.OpGetData:              {name: "getData", large: true, arms: Data},
	jute.OpGetACL:               {name: "getACL", large: true},
	jute.OpGetChildren:          {name: "getChildren", large: true, arms: Child},
	jute.OpGetChildren2:         {name: "getChildren2", large: true, arms: Child},
	jute.OpMultiRead:            {name: "multiRead", large: true, since: 6},
	jute.OpGetEphemerals:        {name: "getEphemerals", large: true, since: 6},
	jute.OpGetAllChildrenNumber: {name: "getAllChildrenNumber", since: 6},
	jute.OpSync:                 {name: "sync"},

	jute.OpSetWatches:    {name: "setWatches"},
	jute.OpSetWatches2:   {name: "setWatches2", since: 6},
	jute.OpAddWatch:      {name: "addWatch", arms: Persistent, since: 6},
	jute.OpCheckWatches:  {name: "checkWatches"},
	jute.OpRemoveWatches: {name: "removeWatches"},

	jute.OpPing:         {name: "ping"},
	jute.OpAuth:         {name: "auth"},
	jute.OpSASL:         {name: "sasl"},
	jute.OpWhoAmI:       {name: "whoAmI", large: true, since: 7},
	jute.OpCloseSession: {name: "closeSession"},
}

// OpName returns the name of an operation, "" if it has no row.
func OpName(code int32) string { return operations[code].name }

// Mutates reports whether the outcome of a request without a reply is unknown.
func Mutates(code int32) bool { return operations[code].mutates }

// Since returns the minor number of the first release that has an operation, 0 if 3.5 has it.
func Since(code int32) (minor int) { return operations[code].since }
