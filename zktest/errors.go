package zktest

import (
	"fmt"

	"github.com/go-curator/curator/internal/jute"
)

// Error is an error code of ZooKeeper's protocol, as replies carry it and as the direct methods of [Server]
// return it. Compare with errors.Is.
type Error int32

// The codes that a server sends.
const (
	ErrSystemError              = Error(jute.CodeSystemError)
	ErrRuntimeInconsistency     = Error(jute.CodeRuntimeInconsistency)
	ErrConnectionLoss           = Error(jute.CodeConnectionLoss)
	ErrMarshalling              = Error(jute.CodeMarshallingError)
	ErrUnimplemented            = Error(jute.CodeUnimplemented)
	ErrOperationTimeout         = Error(jute.CodeOperationTimeout)
	ErrBadArguments             = Error(jute.CodeBadArguments)
	ErrNewConfigNoQuorum        = Error(jute.CodeNewConfigNoQuorum)
	ErrReconfigInProgress       = Error(jute.CodeReconfigInProgress)
	ErrNoNode                   = Error(jute.CodeNoNode)
	ErrNoAuth                   = Error(jute.CodeNoAuth)
	ErrBadVersion               = Error(jute.CodeBadVersion)
	ErrNoChildrenForEphemerals  = Error(jute.CodeNoChildrenForEphemerals)
	ErrNodeExists               = Error(jute.CodeNodeExists)
	ErrNotEmpty                 = Error(jute.CodeNotEmpty)
	ErrSessionExpired           = Error(jute.CodeSessionExpired)
	ErrInvalidACL               = Error(jute.CodeInvalidACL)
	ErrAuthFailed               = Error(jute.CodeAuthFailed)
	ErrSessionMoved             = Error(jute.CodeSessionMoved)
	ErrNotReadOnly              = Error(jute.CodeNotReadOnly)
	ErrNoWatcher                = Error(jute.CodeNoWatcher)
	ErrRequestTimeout           = Error(jute.CodeRequestTimeout)
	ErrReconfigDisabled         = Error(jute.CodeReconfigDisabled)
	ErrSessionClosedRequireAuth = Error(jute.CodeSessionClosedRequireSASL)
	ErrQuotaExceeded            = Error(jute.CodeQuotaExceeded)
	ErrThrottledOp              = Error(jute.CodeThrottledOp)

	ok Error = 0
)

var errorTexts = map[Error]string{
	ok:                          "ok",
	ErrSystemError:              "system error",
	ErrRuntimeInconsistency:     "runtime inconsistency",
	ErrConnectionLoss:           "connection loss",
	ErrMarshalling:              "marshalling error",
	ErrUnimplemented:            "unimplemented",
	ErrOperationTimeout:         "operation timeout",
	ErrBadArguments:             "bad arguments",
	ErrNewConfigNoQuorum:        "no quorum of the new configuration",
	ErrReconfigInProgress:       "reconfiguration in progress",
	ErrNoNode:                   "no node",
	ErrNoAuth:                   "not authorized",
	ErrBadVersion:               "bad version",
	ErrNoChildrenForEphemerals:  "no children for ephemerals",
	ErrNodeExists:               "node exists",
	ErrNotEmpty:                 "not empty",
	ErrSessionExpired:           "session expired",
	ErrInvalidACL:               "invalid acl",
	ErrAuthFailed:               "auth failed",
	ErrSessionMoved:             "session moved",
	ErrNotReadOnly:              "not read-only",
	ErrNoWatcher:                "no watcher",
	ErrRequestTimeout:           "request timeout",
	ErrReconfigDisabled:         "reconfig disabled",
	ErrSessionClosedRequireAuth: "session closed: authentication required",
	ErrQuotaExceeded:            "quota exceeded",
	ErrThrottledOp:              "throttled",
}

func (e Error) Error() string { return "zktest: " + e.description() }

func (e Error) description() string {
	if s, found := errorTexts[e]; found {
		return fmt.Sprintf("%s (%d)", s, int32(e))
	}
	return fmt.Sprintf("error %d", int32(e))
}

// asError returns e as a Go error: nil for ok.
func (e Error) asError() error {
	if e == ok {
		return nil
	}
	return e
}

func configError(format string, args ...any) error {
	return fmt.Errorf("zktest: config: "+format, args...)
}
