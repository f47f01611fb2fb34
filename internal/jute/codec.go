package jute

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrShort is the error of a record that ends before its last field.
var ErrShort = errors.New("jute: record ends too early")

// ErrLength is the error of a length or count that cannot be right.
var ErrLength = errors.New("jute: impossible length")

// Record is a wire record that can write itself.
type Record interface{ Encode(e *Encoder) }

// Decodable is a wire record that can read itself; errors stay in the decoder.
type Decodable interface{ Decode(d *Decoder) }

// Marshal returns the bytes of the records, one after the other.
func Marshal(records ...Record) []byte {
	var e Encoder
	for _, r := range records {
		r.Encode(&e)
	}
	return e.buf
}

// Unmarshal reads one record from the front of b and ignores the bytes after it, as every ZooKeeper
// implementation does.
func Unmarshal(b []byte, r Decodable) error {
	d := NewDecoder(b)
	r.Decode(d)
	return d.Err()
}

// Frame returns a length-prefixed frame of the records.
func Frame(records ...Record) []byte {
	e := Encoder{buf: make([]byte, 4, 64)}
	for _, r := range records {
		r.Encode(&e)
	}
	binary.BigEndian.PutUint32(e.buf, uint32(len(e.buf)-4))
	return e.buf
}

// Encoder appends primitive values to a buffer. The zero value is ready for use.
type Encoder struct{ buf []byte }

// Bytes returns what has been written.
func (e *Encoder) Bytes() []byte { return e.buf }

// Int writes a 32-bit integer.
func (e *Encoder) Int(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }

// Long writes a 64-bit integer.
func (e *Encoder) Long(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

// Bool writes one byte.
func (e *Encoder) Bool(v bool) {
	if v {
		e.buf = append(e.buf, 1)
	} else {
		e.buf = append(e.buf, 0)
	}
}

// Buffer writes a length and bytes; nil is written as length -1, as Java does.
func (e *Encoder) Buffer(b []byte) {
	if b == nil {
		e.Int(-1)
		return
	}
	e.Int(int32(len(b)))
	e.buf = append(e.buf, b...)
}

// String writes a length and UTF-8 bytes.
func (e *Encoder) String(s string) {
	e.Int(int32(len(s)))
	e.buf = append(e.buf, s...)
}

// Strings writes a count and strings.
func (e *Encoder) Strings(v []string) {
	e.Int(int32(len(v)))
	for _, s := range v {
		e.String(s)
	}
}

// Raw appends bytes as they are.
func (e *Encoder) Raw(b []byte) { e.buf = append(e.buf, b...) }

// Decoder reads primitive values from a buffer and remembers the first error.
type Decoder struct {
	buf    []byte
	err    error
	asJava bool
}

// NewDecoder returns a decoder of b, which it does not copy or change.
func NewDecoder(b []byte) *Decoder { return &Decoder{buf: b} }

// Null is a null string as a decoder of [NewRequestDecoder] reads it. No valid path, scheme or id is like it.
const Null = "\x00null"

// NewRequestDecoder is NewDecoder for a server that takes what clients send as Java's does: a null string is
// [Null], and not the empty one; null strings are nil, and no strings are not; a count below -1 is that of an
// empty vector.
func NewRequestDecoder(b []byte) *Decoder { return &Decoder{buf: b, asJava: true} }

// Err returns the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Len returns how many bytes are left.
func (d *Decoder) Len() int { return len(d.buf) }

// Rest returns the bytes that are left, without consuming them.
func (d *Decoder) Rest() []byte { return d.buf }

func (d *Decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.buf = nil
}

func (d *Decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n > len(d.buf) {
		d.fail(fmt.Errorf("%w: %d bytes wanted, %d left", ErrShort, n, len(d.buf)))
		return nil
	}
	b := d.buf[:n]
	d.buf = d.buf[n:]
	return b
}

// Int reads a 32-bit integer.
func (d *Decoder) Int() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Long reads a 64-bit integer.
func (d *Decoder) Long() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// Bool reads one byte; anything but 0 is true.
func (d *Decoder) Bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

// Buffer reads bytes into a copy of their own. A length of -1 gives nil; any other negative length is an
// error.
func (d *Decoder) Buffer() []byte {
	n := d.Int()
	if d.err != nil || n == -1 {
		return nil
	}
	if n < 0 {
		d.fail(fmt.Errorf("%w: buffer of %d bytes", ErrLength, n))
		return nil
	}
	b := d.take(int(n))
	if b == nil {
		if d.err == nil {
			return []byte{}
		}
		return nil
	}
	return append([]byte{}, b...)
}

// String reads a string; null (length -1) reads as "", or [Null].
func (d *Decoder) String() string {
	n := d.Int()
	if d.err != nil || n == -1 && !d.asJava {
		return ""
	}
	if n == -1 {
		return Null
	}
	if n < 0 {
		d.fail(fmt.Errorf("%w: string of %d bytes", ErrLength, n))
		return ""
	}
	return string(d.take(int(n)))
}

// count reads a vector's count, where each element takes at least size bytes. -1 (null) counts as 0.
func (d *Decoder) count(size int) int {
	n := d.Int()
	if d.err != nil || n == -1 || n < 0 && d.asJava {
		return 0
	}
	if n < 0 || int(n) > len(d.buf)/size {
		d.fail(fmt.Errorf("%w: vector of %d elements in %d bytes", ErrLength, n, len(d.buf)))
		return 0
	}
	return int(n)
}

// Strings reads a count and strings.
func (d *Decoder) Strings() []string {
	null := bytes.HasPrefix(d.buf, []byte{0xff, 0xff, 0xff, 0xff})
	n := d.count(4)
	if n == 0 && (null || !d.asJava) {
		return nil
	}
	v := make([]string, 0, n)
	for range n {
		v = append(v, d.String())
	}
	if d.err != nil {
		return nil
	}
	return v
}
