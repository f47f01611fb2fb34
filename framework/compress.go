package framework

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"
)

var (
	// ErrDecompress says that a node's data are not what the compression provider writes: not compressed, damaged, or more than it allows.
	ErrDecompress = named("data cannot be decompressed")
	// ErrDecompressedTooLarge says that decompressed data would be larger than the provider allows. It matches ErrDecompress too.
	ErrDecompressedTooLarge = named("decompressed data would be larger than the limit", ErrDecompress)
)

// CompressionProvider packs and unpacks the data of nodes, see [WithCompressionProvider]. It is given the full path, chroot and namespace included,
// may be called from several goroutines at once and must not block, nor keep or change what it is given. What it returns belongs to the caller. An
// error of Decompress that is not ErrDecompress is wrapped into one. Corresponds to Curator's CompressionProvider.
type CompressionProvider interface {
	Compress(path string, data []byte) ([]byte, error)
	Decompress(path string, data []byte) ([]byte, error)
}

// Gzip is the default [CompressionProvider]. It writes what Curator's GzipCompressionProvider writes, up to the choices that any deflater is free to
// make, and reads what that reads: one gzip member with nothing behind it. Its zero value is ready for use.
type Gzip struct {
	// Limit is how many bytes Decompress returns at most; beyond that the error is ErrDecompressedTooLarge. A node of a megabyte may stand for a
	// gigabyte, and whoever may write it need not be a friend. Default (0 or less): 64 MiB.
	Limit int
}

const defaultGzipLimit = 64 << 20

// emptyGzip is how Java packs nothing.
var emptyGzip = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// gzipWriters keeps packers, which are large and take long to make.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// Compress packs data.
func (g Gzip) Compress(_ string, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return bytes.Clone(emptyGzip), nil
	}
	var out bytes.Buffer
	w := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(w)
	w.Reset(&out)
	w.OS = 0 // as Java before 16
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Decompress unpacks data.
func (g Gzip) Decompress(_ string, data []byte) ([]byte, error) {
	limit := g.Limit
	if limit <= 0 {
		limit = defaultGzipLimit
	}
	in := bytes.NewReader(data)
	r, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDecompress, notEOF(err))
	}
	r.Multistream(false)
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDecompress, notEOF(err))
	case len(out) > limit:
		return nil, fmt.Errorf("%w: %d bytes", ErrDecompressedTooLarge, limit)
	case in.Len() > 0:
		return nil, fmt.Errorf("%w: %d bytes behind the end", ErrDecompress, in.Len())
	}
	return out, nil
}

// notEOF spares callers an error that loops of readers take for the end.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// packing is whether an operation packs or unpacks data: as the client does by default, or as the builder was told.
type packing int8

const (
	packDefault packing = iota
	packYes
	packNo
)

func (c *Client) packs(p packing) bool {
	return p == packYes || p == packDefault && c.core.cfg.compressed
}

// calledBack says whether the end of an operation calls functions of the user's.
func (o *options) calledBack() bool {
	_, ours := o.compression.(Gzip)
	return !ours || o.observer.Active()
}

// outgoing returns the data to be sent for the node: the client's default data for nil, packed if need be.
func (c *Client) outgoing(full string, data []byte, p packing) ([]byte, error) {
	data = c.dataOr(data)
	if !c.packs(p) {
		return data, nil
	}
	packed, err := c.core.cfg.compression.Compress(full, data)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if packed == nil {
		packed = []byte{}
	}
	return packed, nil
}

// incoming returns a node's data as the caller wants them. A node without data, as parents are, has nothing to unpack.
func (c *Client) incoming(full string, data []byte, p packing) ([]byte, error) {
	if len(data) == 0 || !c.packs(p) {
		return data, nil
	}
	plain, err := c.core.cfg.compression.Decompress(full, data)
	if err != nil && !errors.Is(err, ErrDecompress) {
		err = fmt.Errorf("%w: %w", ErrDecompress, err)
	}
	return plain, err
}
