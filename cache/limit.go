package cache

import (
	"errors"
	"fmt"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
)

// ErrDataLimit says that there is no room for a node's data: see [WithDataLimit].
var ErrDataLimit = errors.New("no room for the node's data: the cache holds as much as WithDataLimit allows")

// unpackedLimit is how much one node may become with WithCompressedData.
const unpackedLimit = 8 << 20

// gunzip stops unpacking where there is no room for more.
func gunzip(path string, data []byte, room int) ([]byte, error) {
	if len(data) == 0 {
		return data, nil
	}
	plain, err := framework.Gzip{Limit: max(1, min(room, unpackedLimit))}.Decompress(path, data)
	if room < unpackedLimit && errors.Is(err, framework.ErrDecompressedTooLarge) {
		// Without figures: an error that differs each time would be reported each time.
		err = fmt.Errorf("%w: %w", ErrDataLimit, framework.ErrDecompressedTooLarge)
	}
	return plain, err
}

// decode turns what is stored in a node into what the cache holds, if there is room for it.
func (e *engine) decode(n *node, data []byte) ([]byte, error) {
	if e.cfg.noData {
		return nil, nil
	}
	room := e.cfg.dataLimit - e.store.bytes + len(n.data())
	if e.cfg.decode != nil {
		decoded, err := e.cfg.decode(e.store.path(n), data, room)
		if err != nil {
			return nil, fmt.Errorf("decode: %w", plain.Error(err))
		}
		data = decoded
	}
	if len(data) > room {
		return nil, fmt.Errorf("%w: %d bytes", ErrDataLimit, len(data))
	}
	return data, nil
}
