package framework

import (
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// Stat is a node's metadata.
type Stat struct {
	// Czxid and Mzxid are the transactions that created and last changed the node.
	Czxid, Mzxid int64
	// Ctime and Mtime are their times by the server's clock, in milliseconds since 1970.
	Ctime, Mtime int64
	// Version counts changes of the data, Cversion of the list of children, Aversion of the ACL.
	Version, Cversion, Aversion int32
	// EphemeralOwner is the session of an ephemeral node, and 0 for any other: servers do not tell containers
	// and TTL nodes from persistent ones.
	EphemeralOwner int64
	// DataLength is the length of the data in bytes.
	DataLength, NumChildren int32
	// Pzxid is the transaction that last changed the list of children.
	Pzxid int64
}

// Created returns the time of creation by the server's clock.
func (s Stat) Created() time.Time { return time.UnixMilli(s.Ctime) }

// Modified returns the time of the last change of the data by the server's clock.
func (s Stat) Modified() time.Time { return time.UnixMilli(s.Mtime) }

// store fills the Stat of StoringStatIn.
func store(dst *Stat, s Stat) {
	if dst != nil {
		*dst = s
	}
}

// statDecoder decodes replies that are a Stat and nothing else.
func statDecoder(_ int64, body []byte) (Stat, error) {
	var res jute.StatResponse
	err := decode(body, &res)
	return Stat(res.Stat), err
}
