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
	// ErrDecompress means that the compression provider cannot decompress a node's data: the data are not compressed, or
	// damaged, or would be larger than the provider allows.
	ErrDecompress = newSentinel("data cannot be decompressed")
	// ErrDecompressedTooLarge means that the decompressed data would be larger than the provider's limit ([Gzip]) or the
	// limit for one call ([WithDecompressedLimit]). It matches ErrDecompress, too.
	ErrDecompressedTooLarge = newSentinel("decompressed data would be larger than the limit", ErrDecompress)
)

// CompressionProvider compresses and decompresses the data of nodes, see [WithCompressionProvider]. path is the full
// path, chroot and namespace included. Its methods may be called from several goroutines concurrently, and must not
// keep or change data. The slices that they return belong to the caller. They should not block: the operation's caller
// waits for them, and in the background the results of later operations wait, too. If an error of Decompress does not
// match ErrDecompress, the client wraps it in ErrDecompress. Corresponds to Curator's CompressionProvider.
type CompressionProvider interface {
	Compress(path string, data []byte) ([]byte, error)
	Decompress(path string, data []byte) ([]byte, error)
}

// Gzip is the default [CompressionProvider]. It writes the same format as Curator's GzipCompressionProvider (the
// compressed bytes may differ, as between any two compressors), and accepts the same data: one gzip member with nothing
// after it. The zero value is ready for use.
type Gzip struct {
	// Limit is the largest number of bytes that Decompress returns; if there are more, the error is
	// ErrDecompressedTooLarge. Without a limit, any client that may write a node could exhaust the memory of its
	// readers: a compressed megabyte may expand to a gigabyte. 0 or less means the default of 8 MiB.
	// [WithDecompressedLimit] limits the total of one call.
	Limit int
}

const (
	defaultGzipLimit         = 8 << 20
	defaultDecompressedLimit = 64 << 20
)

// emptyGzip is the output of Java's GZIPOutputStream for no data.
var emptyGzip = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// gzipWriters has gzip writers to use again, because they are large and take long to make.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// Compress implements [CompressionProvider].
func (g Gzip) Compress(_ string, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return bytes.Clone(emptyGzip), nil
	}
	var out bytes.Buffer
	w := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(w)
	w.Reset(&out)
	w.OS = 0 // the header's operating system, as Java before 16 writes it
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (g Gzip) sizeLimit() int {
	if g.Limit > 0 {
		return g.Limit
	}
	return defaultGzipLimit
}

// Decompress implements [CompressionProvider].
func (g Gzip) Decompress(_ string, data []byte) ([]byte, error) {
	limit := g.sizeLimit()
	in := bytes.NewReader(data)
	r, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDecompress, replaceEOF(err))
	}
	r.Multistream(false)
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDecompress, replaceEOF(err))
	case len(out) > limit:
		return nil, fmt.Errorf("%w of %d bytes", ErrDecompressedTooLarge, limit)
	case in.Len() > 0:
		return nil, fmt.Errorf("%w: %d bytes follow the end of the compressed data", ErrDecompress, in.Len())
	}
	return out, nil
}

// replaceEOF replaces io.EOF of truncated data: a caller's read loop would take io.EOF for the regular end.
func replaceEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// decompressUpTo decompresses data, and fails with ErrDecompressedTooLarge if the result has more than limit bytes. Gzip
// stops at the limit; another provider has decompressed everything before the client can check the size.
func decompressUpTo(p CompressionProvider, full string, data []byte, limit int) ([]byte, error) {
	if g, ours := p.(*Gzip); ours && g != nil {
		p = *g
	}
	if g, ours := p.(Gzip); ours {
		p = Gzip{Limit: min(g.sizeLimit(), max(limit, 1))}
	}
	plain, err := p.Decompress(full, data)
	if err == nil && len(plain) > limit {
		return nil, fmt.Errorf("%w of %d bytes: they have %d", ErrDecompressedTooLarge, limit, len(plain))
	}
	return plain, err
}
