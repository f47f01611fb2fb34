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

var opByName = map[Op]int32{"": 0, OpConnect: jute.OpCreateSession}

func init() {
	for op := int32(1); op < 128; op++ {
		if name := jute.OpName(op); name != "" {
			opByName[name] = op
		}
	}
	opByName[jute.OpName(jute.OpCloseSession)] = jute.OpCloseSession
}

// opName is the name of an opcode.
func opName(op int32) Op {
	if op == jute.OpCreateSession {
		return OpConnect
	}
	if name := jute.OpName(op); name != "" && opByName[name] == op {
		return name
	}
	return fmt.Sprintf("op %d", op)
}
