package zktest

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// reconfig (16). It refuses the same requests as the real server, and of several reasons it gives the same one.

// reconfig is a write to /zookeeper/config whose commit also changes the voters.
func (s *Server) reconfig(r *clientRequest, e *logEntry) Error {
	var req jute.ReconfigRequest
	if err := r.decodeRecord(&req); err != ok {
		return err
	}
	m := s.member
	switch {
	case !s.cfg.Reconfig:
		return ErrReconfigDisabled
	case m == nil:
		return ErrUnimplemented
	case m.pendingMembership() != nil:
		return ErrReconfigInProgress
	case req.CurConfigID != -1 && req.CurConfigID != m.config.version:
		return ErrBadVersion
	}
	next := &membership{version: e.zxid}
	var err Error
	if req.NewMembers != jute.Null {
		err = next.parseMembers(strings.ReplaceAll(req.NewMembers, ",", "\n"))
	} else {
		next.members = m.config.members
		err = next.applyReconfig(splitMemberList(req.Joining), splitMemberList(req.Leaving))
	}
	switch {
	case err != ok:
		return err
	case next.voters() < 2: // as with standaloneEnabled, the default
		return ErrBadArguments
	case !next.hasMajority(m.followerSet()):
		return ErrNewConfigNoQuorum
	}
	p := s.newPreparation(r, e)
	n, err := p.lookup(configPath)
	if err != ok {
		return err
	}
	if err := p.checkPermission(n, jute.PermWrite); err != ok {
		return err
	}
	data := []byte(next.String())
	n.version, n.mzxid, n.mtime, n.size = configVersion, p.zxid, p.now, len(data)
	p.recordFuture(configPath, n)
	p.publishFuture()
	e.config = next
	e.txns = []*transaction{{op: jute.OpReconfig, path: configPath, data: data, cversion: configVersion}}
	return ok
}

// configVersion is the version of the node's data after a reconfiguration.
const configVersion = -1

// reconfigReply returns the reply: the new configuration.
func reconfigReply(r *clientRequest, results []applyResult) jute.Record {
	r.path = configPath
	data := r.conn.s.tree.lookup(configPath).data
	return &jute.GetDataResponse{Data: data, Stat: *results[0].stat}
}

// applyReconfig writes the node twice, as the real server does: when the configuration takes effect, and as the
// transaction. So a persistent watch gets two events.
func (s *Server) applyReconfig(t *transaction, zxid, now int64) *jute.Stat {
	s.applySetData(t, zxid, now)
	return s.applySetData(t, zxid, now)
}

// splitMemberList splits a list as Java's servers do. A null list is an empty one.
func splitMemberList(list string) (parts []string) {
	if list == jute.Null {
		return nil
	}
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// applyReconfig removes the leaving members, and then adds the joining ones.
func (c *membership) applyReconfig(joining, leaving []string) Error {
	for _, text := range leaving {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return ErrMarshalling
		}
		c.withoutMember(id)
	}
	for _, text := range joining {
		parts := strings.Split(text, "=")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		if parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" }); len(parts) != 2 {
			return ErrBadArguments
		}
		id, err := strconv.ParseInt(parts[0][strings.LastIndexByte(parts[0], '.')+1:], 10, 64)
		if err != nil {
			return ErrMarshalling
		}
		line, bad := parseMember(id, parts[1])
		if bad != ok {
			return bad
		}
		if !line.client {
			return ErrBadArguments
		}
		c.withoutMember(id)
		if slices.ContainsFunc(c.members, line.sharesAddress) {
			return ErrBadArguments
		}
		c.withMember(line)
	}
	return ok
}

// parseMembers reads all the members, one a line. It refuses groups and weights, which real servers support. Of
// several mistakes it reports the first in the order of the keys; a real server checks them in the order of a hash
// table.
func (c *membership) parseMembers(text string) Error {
	properties := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value := parseProperty(line); key != "" {
			properties[key] = value
		}
	}
	keys := slices.Sorted(maps.Keys(properties))
	for _, key := range keys {
		if key != "version" && !strings.HasPrefix(key, "server.") {
			return ErrBadArguments
		}
	}
	for _, key := range keys {
		value := properties[key]
		if key == "version" {
			if _, err := strconv.ParseInt(value, 16, 64); err != nil {
				return ErrMarshalling
			}
			continue
		}
		id, err := strconv.ParseInt(strings.TrimPrefix(key, "server."), 10, 64)
		if err != nil {
			return ErrMarshalling
		}
		line, bad := parseMember(id, value)
		if bad != ok {
			return bad
		}
		c.withMember(line)
	}
	if observers := len(c.members) - c.voters(); c.voters() < 2 && observers > 0 {
		return ErrMarshalling
	}
	return ok
}

// parseProperty reads a line as Java's Properties do, but for escapes.
func parseProperty(line string) (key, value string) {
	line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t\f")
	if line == "" || line[0] == '#' || line[0] == '!' {
		return "", ""
	}
	end := strings.IndexAny(line, "=: \t\f")
	if end < 0 {
		return line, ""
	}
	key, value = line[:end], strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return key, value
}
