package wirecount

import "strconv"

// Op is an operation code of the protocol.
type Op int32

// Operation codes, as in ZooKeeper's ZooDefs.OpCode. Connect stands for the handshake, which has no code in the
// protocol.
const (
	Create               Op = 1
	Delete               Op = 2
	Exists               Op = 3
	GetData              Op = 4
	SetData              Op = 5
	GetACL               Op = 6
	SetACL               Op = 7
	GetChildren          Op = 8
	Sync                 Op = 9
	Ping                 Op = 11
	GetChildren2         Op = 12
	Check                Op = 13
	Multi                Op = 14
	Create2              Op = 15
	Reconfig             Op = 16
	CheckWatches         Op = 17
	RemoveWatches        Op = 18
	CreateContainer      Op = 19
	CreateTTL            Op = 21
	MultiRead            Op = 22
	Auth                 Op = 100
	SetWatches           Op = 101
	SASL                 Op = 102
	GetEphemerals        Op = 103
	GetAllChildrenNumber Op = 104
	SetWatches2          Op = 105
	AddWatch             Op = 106
	WhoAmI               Op = 107
	CloseSession         Op = -11
	Connect              Op = -10
)

var names = map[Op]string{
	Create: "create", Delete: "delete", Exists: "exists", GetData: "getData", SetData: "setData",
	GetACL: "getACL", SetACL: "setACL",
	GetChildren: "getChildren", Sync: "sync", Ping: "ping", GetChildren2: "getChildren2", Check: "check",
	Multi:   "multi",
	Create2: "create2", Reconfig: "reconfig", CheckWatches: "checkWatches", RemoveWatches: "removeWatches",
	CreateContainer: "createContainer", CreateTTL: "createTTL", MultiRead: "multiRead", Auth: "auth",
	SetWatches: "setWatches",
	SASL:       "sasl", GetEphemerals: "getEphemerals", GetAllChildrenNumber: "getAllChildrenNumber",
	SetWatches2: "setWatches2",
	AddWatch:    "addWatch", WhoAmI: "whoAmI", CloseSession: "closeSession", Connect: "connect",
}

// String is the name ZooKeeper gives the operation.
func (op Op) String() string {
	if name, known := names[op]; known {
		return name
	}
	return "op " + strconv.Itoa(int(op))
}
