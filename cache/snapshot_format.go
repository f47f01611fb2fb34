package cache

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"math"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// A written snapshot is snapshotMagic; how data were kept, in a byte; the root; the nodes; and a checksum of
// all that. A node begins with a byte of its bits, its depth and its name. If it is live, its Stat and its
// data follow. Numbers are varints of encoding/binary, texts have their length before them.
const (
	snapshotMagic = "curator cache snapshot 1\n"

	bitLive, bitListed, bitEnd = 1, 2, 4
)

var snapshotSums = crc64.MakeTable(crc64.ECMA)

// WriteTo writes the snapshot in a form that [ReadSnapshot] reads. It returns the bytes written, and w's
// error. Write to a new file and rename it when it is closed, so that a crash does not leave half a snapshot.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	sum := crc64.New(snapshotSums)
	out := &countingWriter{writer: w}
	b := bufio.NewWriterSize(io.MultiWriter(out, sum), 64<<10)
	var buf []byte
	put := func() { // errors stay in b
		_, _ = b.Write(buf)
		buf = buf[:0]
	}
	text := func(s []byte) {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		put()
		_, _ = b.Write(s)
	}
	buf = append(append(buf, snapshotMagic...), byte(s.dataForm))
	text([]byte(s.root))
	for i := range s.nodes {
		n := &s.nodes[i]
		bits := byte(0)
		if n.live {
			bits |= bitLive
		}
		if n.listed {
			bits |= bitListed
		}
		buf = binary.AppendUvarint(append(buf, bits), uint64(n.depth))
		text([]byte(n.name))
		if n.live {
			for _, v := range statFields(&n.stat) {
				buf = binary.AppendVarint(buf, v.get())
			}
			text(n.data)
		}
	}
	buf = append(buf, bitEnd)
	put()
	if err := b.Flush(); err != nil {
		return out.written, fmt.Errorf("write the snapshot: %w", err)
	}
	if _, err := out.Write(binary.BigEndian.AppendUint64(nil, sum.Sum64())); err != nil {
		return out.written, fmt.Errorf("write the snapshot: %w", err)
	}
	return out.written, nil
}

type countingWriter struct {
	writer  io.Writer
	written int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.writer.Write(b)
	c.written += int64(n)
	return n, err
}

// statField is a number of a Stat: of 64 bits or of 32.
type statField struct {
	long  *int64
	short *int32
}

func (f statField) get() int64 {
	if f.long != nil {
		return *f.long
	}
	return int64(*f.short)
}

func (f statField) set(v int64) bool {
	if f.long != nil {
		*f.long = v
		return true
	}
	*f.short = int32(v)
	return v >= math.MinInt32 && v <= math.MaxInt32
}

func statFields(s *framework.Stat) [11]statField {
	return [...]statField{
		{long: &s.Czxid}, {long: &s.Mzxid}, {long: &s.Ctime}, {long: &s.Mtime}, {long: &s.Pzxid},
		{long: &s.EphemeralOwner}, {short: &s.Version}, {short: &s.Cversion}, {short: &s.Aversion},
		{short: &s.DataLength}, {short: &s.NumChildren},
	}
}

// ReadSnapshot reads a snapshot that [Snapshot.WriteTo] has written, and nothing after it, but may read ahead. The
// error matches ErrSnapshot if the input is damaged, incomplete or not a snapshot, and otherwise is r's. It uses no
// more memory than the snapshot.
//
//	snapshot, err := cache.ReadSnapshot(file)
//	if err != nil { log.Print(err) } // snapshot is nil: the cache loads as usual
//	c, err := cache.New(client, "/config", cache.WithSnapshot(snapshot))
func ReadSnapshot(r io.Reader) (*Snapshot, error) {
	if r == nil {
		return nil, fmt.Errorf("read a snapshot: %w: there is no reader", ErrSnapshot)
	}
	in := &snapshotReader{r: bufio.NewReaderSize(r, 64<<10), sum: crc64.New(snapshotSums)}
	s := in.readSnapshot()
	if in.err != nil {
		return nil, fmt.Errorf("read a snapshot: %w", in.err)
	}
	return s, nil
}

// snapshotReader reads the parts of a snapshot, until the first error.
type snapshotReader struct {
	r   *bufio.Reader
	sum hash.Hash64
	err error // the first
	buf bytes.Buffer

	names []string // by depth, of the last node and those above it
}

func (in *snapshotReader) recordError(err error) {
	switch {
	case in.err != nil:
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		in.err = fmt.Errorf("%w: it ends too soon", ErrSnapshot)
	default:
		in.err = err
	}
}

func (in *snapshotReader) recordDamage(what string) {
	in.recordError(fmt.Errorf("%w: %s", ErrSnapshot, what))
}

// ReadByte is for varints.
func (in *snapshotReader) ReadByte() (byte, error) {
	b, err := in.r.ReadByte()
	if err == nil {
		in.sum.Write([]byte{b})
	} else {
		in.recordError(err)
	}
	return b, err
}

func (in *snapshotReader) readNumber(signed bool) (v int64) {
	if in.err != nil {
		return 0
	}
	var err error
	if signed {
		v, err = binary.ReadVarint(in)
	} else {
		var u uint64
		if u, err = binary.ReadUvarint(in); u > math.MaxInt32 {
			in.recordDamage("a length is too large")
		}
		v = int64(u)
	}
	if err != nil {
		in.recordDamage("a number is too large") // unless ReadByte has failed before
	}
	return v
}

// readBytes reads n bytes. Memory grows with the bytes read, not with the announced number.
func (in *snapshotReader) readBytes(n int64) []byte {
	if in.err != nil {
		return nil
	}
	in.buf.Reset()
	if _, err := io.CopyN(&in.buf, in.r, n); err != nil {
		in.recordError(err)
		return nil
	}
	in.sum.Write(in.buf.Bytes())
	return bytes.Clone(in.buf.Bytes())
}

func (in *snapshotReader) readText() []byte { return in.readBytes(in.readNumber(false)) }

func (in *snapshotReader) readSnapshot() *Snapshot {
	s := &Snapshot{}
	if string(in.readBytes(int64(len(snapshotMagic)))) != snapshotMagic {
		in.recordDamage("it does not begin like one")
	}
	if kept, err := in.ReadByte(); err == nil {
		s.dataForm = dataForm(kept)
	}
	if s.dataForm > formNone {
		in.recordDamage("it keeps data in an unknown way")
	}
	if s.root = string(in.readText()); in.err == nil && s.root != "" && zkpath.Validate(s.root, false) != nil {
		in.recordDamage("its root is no path")
	}
	for in.err == nil && in.readNode(s) {
	}
	if in.err != nil {
		return nil
	}
	want := in.sum.Sum64()
	if sum := in.readBytes(8); in.err == nil && binary.BigEndian.Uint64(sum) != want {
		in.recordDamage("its checksum is wrong")
	}
	return s
}

// readNode reads a node; false after the last.
func (in *snapshotReader) readNode(s *Snapshot) bool {
	bits, err := in.ReadByte()
	if err != nil || bits == bitEnd {
		return false
	}
	n := savedNode{live: bits&bitLive != 0, listed: bits&bitListed != 0}
	n.depth = int32(in.readNumber(false))
	n.name = string(in.readText())
	if in.err == nil && (bits > bitLive|bitListed || !in.mayFollow(&n)) {
		in.recordDamage("its nodes are not a tree")
	}
	if n.live {
		for _, f := range statFields(&n.stat) {
			if !f.set(in.readNumber(true)) {
				in.recordDamage("a number of a Stat is too large")
			}
		}
		if n.data = in.readText(); len(n.data) == 0 {
			n.data = nil
		}
	}
	s.nodes = append(s.nodes, n)
	return true
}

// mayFollow reports whether a node can come after the nodes read so far: the root comes first, any other node below one
// of them and after its siblings.
func (in *snapshotReader) mayFollow(n *savedNode) bool {
	above, d := len(in.names), int(n.depth)
	name := "/" + n.name
	switch {
	case above == 0, d == 0:
		if above > 0 || d > 0 || n.name != "" {
			return false
		}
	case d > above, n.name == "", strings.Contains(n.name, "/"), zkpath.Validate(name, false) != nil:
		return false
	case d < above && in.names[d] >= n.name:
		return false
	}
	in.names = append(in.names[:d], n.name)
	return true
}
