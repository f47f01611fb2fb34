package zktest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Quotas are nodes below /zookeeper/quota: for /a the limits are the data of /zookeeper/quota/a/zookeeper_limits, and
// the present use is the data of zookeeper_stats next to it.
const (
	limitsNode = "zookeeper_limits"
	statsNode  = "zookeeper_stats"
)

// quotaRecord is the data of a limits or stats node: "count=3,bytes=7", and hard limits after it as
// "=;byteHardLimit=9;countHardLimit=5".
type quotaRecord map[string]int64

func parseQuotaRecord(data []byte) quotaRecord {
	t := quotaRecord{"count": -1, "bytes": -1}
	for pair := range strings.FieldsFuncSeq(string(data), func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(strings.TrimSuffix(pair, "="), "=")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			t[key] = n
		}
	}
	return t
}

// effectiveLimit returns the hard limit if there is one, else the soft one, which refuses no write.
func (t quotaRecord) effectiveLimit(softKey, hardKey string) (n int64, hard bool) {
	if n, found := t[hardKey]; found && n > -1 {
		return n, true
	}
	return t[softKey], false
}

func (t quotaRecord) encodeRecord() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "count=%d,bytes=%d", t["count"], t["bytes"])
	var more []string
	for key, n := range t {
		if key != "count" && key != "bytes" {
			more = append(more, fmt.Sprintf(";%s=%d", key, n))
		}
	}
	if slices.Sort(more); len(more) > 0 {
		b.WriteString("=" + strings.Join(more, ""))
	}
	return []byte(b.String())
}

// quotaPathOf returns the deepest path at or above path that has limits, or "".
func (s *Server) quotaPathOf(path string) string {
	if s.tree.quotas == 0 {
		return ""
	}
	for at := path; at != rootPath && at != ""; at = parentOf(at) {
		if s.tree.nodes[quotaPath+at+"/"+limitsNode] != nil {
			return at
		}
	}
	return ""
}

// checkQuota refuses a write that would exceed a hard limit, when quotas are enforced.
func (s *Server) checkQuota(path string, bytes, count int64) Error {
	if !s.cfg.EnforceQuota || !s.cfg.Profile.behaviour().enforcesQuotas {
		return ok
	}
	at := s.quotaPathOf(path)
	if at == "" {
		return ok
	}
	node := s.tree.nodes[quotaPath+at+"/"+limitsNode]
	if node.data == nil {
		return ErrMarshalling // the real server fails on data that is null
	}
	limits, used := parseQuotaRecord(node.data), quotaRecord{}
	if stats := s.tree.nodes[quotaPath+at+"/"+statsNode]; stats != nil {
		used = parseQuotaRecord(stats.data)
	}
	limit, hard := limits.effectiveLimit("count", "countHardLimit")
	if hard && count != 0 && used["count"]+count > limit {
		return ErrQuotaExceeded
	}
	limit, hard = limits.effectiveLimit("bytes", "byteHardLimit")
	if hard && bytes != 0 && used["bytes"]+bytes > limit {
		return ErrQuotaExceeded
	}
	return ok
}

func (s *Server) quotaCreated(path string, n *treeNode) {
	if dir, name := splitPath(path); strings.HasPrefix(dir, quotaPath+"/") {
		switch name {
		case limitsNode:
			s.tree.quotas++
		case statsNode:
			used := quotaRecord{"count": 0, "bytes": 0}
			s.countTree(strings.TrimPrefix(dir, quotaPath), used)
			n.data = used.encodeRecord()
		}
	}
	s.quotaChanged(path, int64(len(n.data)), 1)
}

func (s *Server) countTree(path string, used quotaRecord) {
	n := s.tree.nodes[path]
	if n == nil {
		return
	}
	used["count"]++
	used["bytes"] += int64(len(n.data))
	for name := range n.children {
		s.countTree(path+"/"+name, used)
	}
}

func (s *Server) quotaDeleted(path string, n *treeNode) {
	if dir, name := splitPath(path); name == limitsNode && strings.HasPrefix(dir, quotaPath+"/") {
		s.tree.quotas--
	}
	s.quotaChanged(path, -int64(len(n.data)), -1)
}

// quotaChanged updates the stats node. This is not a transaction: its version stays, and no watch fires.
func (s *Server) quotaChanged(path string, bytes, count int64) {
	if at := s.quotaPathOf(path); at != "" {
		if stats := s.tree.nodes[quotaPath+at+"/"+statsNode]; stats != nil {
			used := parseQuotaRecord(stats.data)
			used["bytes"] += bytes
			used["count"] += count
			stats.data = used.encodeRecord()
		}
	}
}
