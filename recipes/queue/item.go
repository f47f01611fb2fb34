package queue

import (
	"encoding/binary"
	"fmt"
)

// The data of an item's node, as Curator's ItemSerializer writes them: a version, then each item as an
// opcode, its length and its bytes, then another opcode. All numbers are big-endian.
const (
	layoutVersion = 0x00010001
	opItem        = 0x01
	opEnd         = 0x02
)

func encodeItems(items [][]byte) []byte {
	data := binary.BigEndian.AppendUint32(nil, layoutVersion)
	for _, item := range items {
		data = append(data, opItem)
		data = binary.BigEndian.AppendUint32(data, uint32(len(item)))
		data = append(data, item...)
	}
	return append(data, opEnd)
}

// decodeItems returns the items of a node; they are parts of data. Like Curator it ignores bytes after the end.
func decodeItems(data []byte) (items [][]byte, _ error) {
	if len(data) < 4 {
		return nil, fmt.Errorf("%w: %d bytes", ErrUnreadable, len(data))
	}
	if v := binary.BigEndian.Uint32(data); v != layoutVersion {
		return nil, fmt.Errorf("%w: version %#x", ErrUnreadable, v)
	}
	for data = data[4:]; ; {
		switch {
		case len(data) == 0:
			return nil, fmt.Errorf("%w: no end", ErrUnreadable)
		case data[0] == opEnd:
			return items, nil
		case data[0] != opItem:
			return nil, fmt.Errorf("%w: opcode %#x", ErrUnreadable, data[0])
		case len(data) < 5:
			return nil, fmt.Errorf("%w: no length", ErrUnreadable)
		}
		n := int32(binary.BigEndian.Uint32(data[1:]))
		if data = data[5:]; n < 0 || int(n) > len(data) {
			return nil, fmt.Errorf("%w: length %d with %d bytes left", ErrUnreadable, n, len(data))
		}
		items, data = append(items, data[:n:n]), data[n:]
	}
}
