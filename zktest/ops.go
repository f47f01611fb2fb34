package zktest

import (
	"fmt"

	"github.com/go-curator/curator/internal/jute"
)

// Op is the name of an operation, as [Fault] takes it and [Server.Counts] gives it. It is a plain string:
// "create2" is [OpCreate2].
type Op = string

// The operations. OpConnect is the handshake.
const (
	OpConnect              Op = "connect"
	OpCreate               Op = "create"
	OpDelete               Op = "delete"
	OpExists               Op = "exists"
	OpGetData              Op = "getData"
	OpSetData              Op = "setData"
	OpGetACL               Op = "getACL"
	OpSetACL               Op = "setACL"
	OpGetChildren          Op = "getChildren"
	OpSync                 Op = "sync"
	OpPing                 Op = "ping"
	OpGetChildren2         Op = "getChildren2"
	OpCheck                Op = "check"
	OpMulti                Op = "multi"
	OpCreate2              Op = "create2"
	OpReconfig             Op = "reconfig"
	OpCheckWatches         Op = "checkWatches"
	OpRemoveWatches        Op = "removeWatches"
	OpCreateContainer      Op = "createContainer"
	OpDeleteContainer      Op = "deleteContainer"
	OpCreateTTL            Op = "createTTL"
	OpMultiRead            Op = "multiRead"
	OpAuth                 Op = "auth"
	OpSetWatches           Op = "setWatches"
	OpSASL                 Op = "sasl"
	OpGetEphemerals        Op = "getEphemerals"
	OpGetAllChildrenNumber Op = "getAllChildrenNumber"
	OpSetWatches2          Op = "setWatches2"
	OpAddWatch             Op = "addWatch"
	OpWhoAmI               Op = "whoAmI"
	OpCloseSession         Op = "closeSession"
)

// opByName has the opcodes. A test compares it with the client's table (internal/wire/ops.go).
var opByName = map[Op]int32{
	"": 0, OpConnect: jute.OpCreateSession,
	OpCreate:               jute.OpCreate,
	OpDelete:               jute.OpDelete,
	OpExists:               jute.OpExists,
	OpGetData:              jute.OpGetData,
	OpSetData:              jute.OpSetData,
	OpGetACL:               jute.OpGetACL,
	OpSetACL:               jute.OpSetACL,
	OpGetChildren:          jute.OpGetChildren,
	OpSync:                 jute.OpSync,
	OpPing:                 jute.OpPing,
	OpGetChildren2:         jute.OpGetChildren2,
	OpCheck:                jute.OpCheck,
	OpMulti:                jute.OpMulti,
	OpCreate2:              jute.OpCreate2,
	OpReconfig:             jute.OpReconfig,
	OpCheckWatches:         jute.OpCheckWatches,
	OpRemoveWatches:        jute.OpRemoveWatches,
	OpCreateContainer:      jute.OpCreateContainer,
	OpDeleteContainer:      jute.OpDeleteContainer,
	OpCreateTTL:            jute.OpCreateTTL,
	OpMultiRead:            jute.OpMultiRead,
	OpAuth:                 jute.OpAuth,
	OpSetWatches:           jute.OpSetWatches,
	OpSASL:                 jute.OpSASL,
	OpGetEphemerals:        jute.OpGetEphemerals,
	OpGetAllChildrenNumber: jute.OpGetAllChildrenNumber,
	OpSetWatches2:          jute.OpSetWatches2,
	OpAddWatch:             jute.OpAddWatch,
	OpWhoAmI:               jute.OpWhoAmI,
	OpCloseSession:         jute.OpCloseSession,
}

var nameOfOp = map[int32]Op{}

func init() {
	for name, op := range opByName {
		nameOfOp[op] = name
	}
}

// opName returns the name of an opcode.
func opName(op int32) Op {
	if name := nameOfOp[op]; name != "" {
		return name
	}
	return fmt.Sprintf("op %d", op)
}
