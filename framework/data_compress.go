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
	// ErrDecompressedTooLarge says that decompressed data would be larger than the provider, or what is left of the call's budget, allows: see
	// [Gzip] and [WithDecompressedLimit]. It matches ErrDecompress too.
	ErrDecompressedTooLarge = named("decompressed data would be larger than the limit", ErrDecompress)
)

// CompressionProvider packs and unpacks the data of nodes, see [WithCompressionProvider]. It is given the full path, chroot and namespace included,
// may be called from several goroutines at once and must not keep or change what it is given. It should not block: callers wait for it, and in the
// background whatever else is to be unpacked. What it returns belongs to the caller. An
// error of Decompress that is not ErrDecompress is wrapped into one. Corresponds to Curator's CompressionProvider.
type CompressionProvider interface {
	Compress(path string, data []byte) ([]byte, error)
	Decompress(path string, data []byte) ([]byte, error)
}

// Gzip is the default [CompressionProvider]. It writes what Curator's GzipCompressionProvider writes, up to the choices that any deflater is free to
// make, and reads what that reads: one gzip member with nothing behind it. Its zero value is ready for use.
type Gzip struct {
	// Limit is how many bytes Decompress returns at most; beyond that the error is ErrDecompressedTooLarge. A node of a megabyte may stand for a
	// gigabyte, and whoever may write it need not be a friend. Default (0 or less): 8 MiB. How much one call unpacks in sum is [WithDecompressedLimit].
	Limit int
}

const (
	defaultGzipLimit         = 8 << 20
	defaultDecompressedLimit = 64 << 20
)

// WithDecompressedLimit bounds how many bytes one call makes of compressed data, in sum over its nodes: a [Client.MultiRead], or a read of one node. A node
// for which no room is left fails by itself, with ErrDecompressedTooLarge; the others are not affected, smaller ones behind it included. A [Client.Walk]
// unpacks one node at a time and keeps none: there it bounds each node. [Gzip], which has a limit for each node besides, stops unpacking there; another
// [CompressionProvider] is let finish, and what turns out to be too large is thrown away: then it bounds what is kept. Default 64 MiB.
func WithDecompressedLimit(bytes int) Option {
	return func(o *options) error {
		if bytes <= 0 {
			return invalid("WithDecompressedLimit", "%d; give a positive number of bytes, or leave the option out", bytes)
		}
		o.decompressed = bytes
		return nil
	}
}

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

func (g Gzip) limit() int {
	if g.Limit > 0 {
		return g.Limit
	}
	return defaultGzipLimit
}

// Decompress unpacks data.
func (g Gzip) Decompress(_ string, data []byte) ([]byte, error) {
	limit := g.limit()
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
	return p == packYes || p == packDefault && !c.none() && c.core.cfg.compressed
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
	return c.incomingUpTo(full, data, p, c.core.cfg.decompressed)
}

// incomingUpTo is incoming with so much room for what is unpacked.
func (c *Client) incomingUpTo(full string, data []byte, p packing, limit int) ([]byte, error) {
	if len(data) == 0 || !c.packs(p) {
		return data, nil
	}
	plain, err := unpack(c.core.cfg.compression, full, data, limit)
	if err != nil && !errors.Is(err, ErrDecompress) {
		err = fmt.Errorf("%w: %w", ErrDecompress, err)
	}
	return plain, err
}

// unpack has a provider unpack data, and takes no more than limit bytes from it. Gzip stops there; another one is let finish first.
func unpack(p CompressionProvider, full string, data []byte, limit int) ([]byte, error) {
	if g, ours := p.(*Gzip); ours && g != nil {
		p = *g
	}
	if g, ours := p.(Gzip); ours {
		p = Gzip{Limit: min(g.limit(), max(limit, 1))}
	}
	plain, err := p.Decompress(full, data)
	if err == nil && len(plain) > limit {
		return nil, fmt.Errorf("%w: %d bytes, with room for %d", ErrDecompressedTooLarge, len(plain), limit)
	}
	return plain, err
}
