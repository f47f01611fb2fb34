package capture

import "encoding/binary"

// body builds the part of a request after its header. It is written without the project's own codec, which is checked
// against the result.
type body []byte

func (b body) bool(v bool) body {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}
func (b body) int(v int32) body  { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func (b body) long(v int64) body { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// bytes appends a buffer; nil is sent as the length -1.
func (b body) bytes(v []byte) body {
	if v == nil {
		return b.int(-1)
	}
	return append(b.int(int32(len(v))), v...)
}
func (b body) str(v string) body { return append(b.int(int32(len(v))), v...) }

func (b body) strs(values ...string) body {
	b = b.int(int32(len(values)))
	for _, v := range values {
		b = b.str(v)
	}
	return b
}

type acl struct {
	perms      int32
	scheme, id string
}

var world = []acl{{31, "world", "anyone"}}

func (b body) acls(list []acl) body {
	b = b.int(int32(len(list)))
	for _, a := range list {
		b = b.int(a.perms).str(a.scheme).str(a.id)
	}
	return b
}

// The flags of a create request.
const (
	persistent           = 0
	ephemeral            = 1
	persistentSequential = 2
	ephemeralSequential  = 3
	container            = 4
	persistentTTL        = 5
	sequentialTTL        = 6
)

func create(path string, data []byte, flags int32) body {
	return body{}.str(path).bytes(data).acls(world).int(flags)
}
func createTTL(path string, data []byte, flags int32, ttl int64) body {
	return create(path, data, flags).long(ttl)
}
func remove(path string, version int32) body { return body{}.str(path).int(version) }
func set(path string, data []byte, version int32) body {
	return body{}.str(path).bytes(data).int(version)
}
func read(path string, watch bool) body      { return body{}.str(path).bool(watch) }
func pathOnly(path string) body              { return body{}.str(path) }
func typed(path string, kind int32) body     { return body{}.str(path).int(kind) }
func (b body) sub(op int32, rest body) body  { return append(b.int(op).bool(false).int(-1), rest...) }
func (b body) end() body                     { return b.int(-1).bool(true).int(-1) }
func auth(scheme string, secret string) body { return body{}.int(0).str(scheme).bytes([]byte(secret)) }
