package jute

import "fmt"

// Operation codes.
const (
	OpNotification         int32 = 0
	OpCreate               int32 = 1
	OpDelete               int32 = 2
	OpExists               int32 = 3
	OpGetData              int32 = 4
	OpSetData              int32 = 5
	OpGetACL               int32 = 6
	OpSetACL               int32 = 7
	OpGetChildren          int32 = 8
	OpSync                 int32 = 9
	OpPing                 int32 = 11
	OpGetChildren2         int32 = 12
	OpCheck                int32 = 13
	OpMulti                int32 = 14
	OpCreate2              int32 = 15
	OpReconfig             int32 = 16
	OpCheckWatches         int32 = 17
	OpRemoveWatches        int32 = 18
	OpCreateContainer      int32 = 19
	OpDeleteContainer      int32 = 20
	OpCreateTTL            int32 = 21
	OpMultiRead            int32 = 22
	OpAuth                 int32 = 100
	OpSetWatches           int32 = 101
	OpSASL                 int32 = 102
	OpGetEphemerals        int32 = 103
	OpGetAllChildrenNumber int32 = 104
	OpSetWatches2          int32 = 105
	OpAddWatch             int32 = 106
	OpWhoAmI               int32 = 107
	OpCreateSession        int32 = -10
	OpCloseSession         int32 = -11
	OpError                int32 = -1
)

// Reserved xids. Replies to requests carry the request's own xid.
const (
	XidNotification int32 = -1
	XidPing         int32 = -2
	XidAuth         int32 = -4
	XidSetWatches   int32 = -8
)

// Error codes of a ReplyHeader.
const (
	CodeOK                       int32 = 0
	CodeSystemError              int32 = -1
	CodeRuntimeInconsistency     int32 = -2
	CodeDataInconsistency        int32 = -3
	CodeConnectionLoss           int32 = -4
	CodeMarshallingError         int32 = -5
	CodeUnimplemented            int32 = -6
	CodeOperationTimeout         int32 = -7
	CodeBadArguments             int32 = -8
	CodeNewConfigNoQuorum        int32 = -13
	CodeReconfigInProgress       int32 = -14
	CodeUnknownSession           int32 = -12
	CodeAPIError                 int32 = -100
	CodeNoNode                   int32 = -101
	CodeNoAuth                   int32 = -102
	CodeBadVersion               int32 = -103
	CodeNoChildrenForEphemerals  int32 = -108
	CodeNodeExists               int32 = -110
	CodeNotEmpty                 int32 = -111
	CodeSessionExpired           int32 = -112
	CodeInvalidCallback          int32 = -113
	CodeInvalidACL               int32 = -114
	CodeAuthFailed               int32 = -115
	CodeSessionMoved             int32 = -118
	CodeNotReadOnly              int32 = -119
	CodeEphemeralOnLocalSession  int32 = -120
	CodeNoWatcher                int32 = -121
	CodeRequestTimeout           int32 = -122
	CodeReconfigDisabled         int32 = -123
	CodeSessionClosedRequireSASL int32 = -124
	CodeQuotaExceeded            int32 = -125
	CodeThrottledOp              int32 = -127
)

var codeNames = map[int32]string{
	CodeOK: "success", CodeSystemError: "a system error", CodeRuntimeInconsistency: "a runtime inconsistency",
	CodeDataInconsistency: "a data inconsistency", CodeConnectionLoss: "connection loss",
	CodeMarshallingError: "unreadable request",
	CodeUnimplemented:    "unknown operation", CodeOperationTimeout: "operation timed out",
	CodeBadArguments: "bad arguments", CodeNewConfigNoQuorum: "no quorum of the new configuration",
	CodeReconfigInProgress: "a reconfiguration in progress", CodeUnknownSession: "unknown session",
	CodeAPIError: "an API error", CodeNoNode: "no node", CodeNoAuth: "no permission",
	CodeBadVersion: "bad version", CodeNoChildrenForEphemerals: "no children for ephemeral nodes",
	CodeNodeExists: "node exists", CodeNotEmpty: "not empty", CodeSessionExpired: "session expired",
	CodeInvalidCallback: "invalid callback", CodeInvalidACL: "invalid ACL",
	CodeAuthFailed: "authentication failed", CodeSessionMoved: "session moved",
	CodeNotReadOnly:             "no quorum, serving reads only",
	CodeEphemeralOnLocalSession: "an ephemeral node in a local session", CodeNoWatcher: "no such watch",
	CodeRequestTimeout: "request timed out", CodeReconfigDisabled: "reconfiguration disabled",
	CodeSessionClosedRequireSASL: "authentication required", CodeQuotaExceeded: "quota exceeded",
	CodeThrottledOp: "throttled",
}

// CodeName returns the meaning of an error code in words, which include the number if the code is unknown.
func CodeName(code int32) string {
	if name, known := codeNames[code]; known {
		return name
	}
	return fmt.Sprintf("an error that this client does not know (%d)", code)
}

// Create modes, as the flags field of a create request carries them.
const (
	ModePersistent              int32 = 0
	ModeEphemeral               int32 = 1
	ModePersistentSequential    int32 = 2
	ModeEphemeralSequential     int32 = 3
	ModeContainer               int32 = 4
	ModePersistentTTL           int32 = 5
	ModePersistentSequentialTTL int32 = 6
)

// Event types of a WatcherEvent.
const (
	EventNone                int32 = -1
	EventNodeCreated         int32 = 1
	EventNodeDeleted         int32 = 2
	EventNodeDataChanged     int32 = 3
	EventNodeChildrenChanged int32 = 4
	EventDataWatchRemoved    int32 = 5
	EventChildWatchRemoved   int32 = 6
	EventPersistentRemoved   int32 = 7
)

// Keeper states of a WatcherEvent.
const (
	StateDisconnected      int32 = 0
	StateSyncConnected     int32 = 3
	StateAuthFailed        int32 = 4
	StateConnectedReadOnly int32 = 5
	StateExpired           int32 = -112
)

// AddWatch modes.
const (
	WatchPersistent          int32 = 0
	WatchPersistentRecursive int32 = 1
)

// Watcher types of checkWatches and removeWatches. 3.8 knows 1 to 3; later servers add 4 and 5.
const (
	WatcherChildren            int32 = 1
	WatcherData                int32 = 2
	WatcherAny                 int32 = 3
	WatcherPersistent          int32 = 4
	WatcherPersistentRecursive int32 = 5
)

// Permissions of an ACL entry.
const (
	PermRead   int32 = 1
	PermWrite  int32 = 2
	PermCreate int32 = 4
	PermDelete int32 = 8
	PermAdmin  int32 = 16
	PermAll    int32 = 31
)
