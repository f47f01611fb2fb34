package jute

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// ErrShort is the error of a record that ends before its last field.
var ErrShort = errors.New("jute: record ends too early")

// ErrLength is the error of a negative length, of a count larger than the record has room for, or of a wrong
// number of results.
var ErrLength = errors.New("jute: impossible length")

// Record is a wire record. Fields passes the record's fields to c, in order: a Coder that writes appends
// them, a Coder that reads sets them. So writing and reading cannot differ.
type Record interface{ Fields(c *Coder) }

// Decodable is another name for Record, for parameters that are set.
type Decodable = Record

// Marshal returns the bytes of the records, one after the other.
func Marshal(records ...Record) []byte {
	return Encode(func(c *Coder) {
		for _, r := range records {
			r.Fields(c)
		}
	})
}

// coders are used again, to save allocations.
var coders = sync.Pool{New: func() any { return &Coder{buf: make([]byte, 0, 512)} }}

// keptBuffer is the largest buffer that is used again.
const keptBuffer = 16 << 10

// Encode returns the bytes that f writes. It is Marshal for records on the stack: f calls their Fields. f must not keep
// the Coder.
func Encode(f func(*Coder)) []byte {
	c := coders.Get().(*Coder)
	f(c)
	b := append(make([]byte, 0, len(c.buf)), c.buf...)
	if cap(c.buf) <= keptBuffer {
		c.buf = c.buf[:0]
		coders.Put(c)
	}
	return b
}

// Frame returns a length-prefixed frame of the records.
func Frame(records ...Record) []byte {
	c := Coder{buf: make([]byte, 4, 64)}
	for _, r := range records {
		r.Fields(&c)
	}
	binary.BigEndian.PutUint32(c.buf, uint32(len(c.buf)-4))
	return c.buf
}

// Unmarshal reads one record from the front of b and ignores the bytes after it, as every ZooKeeper
// implementation does.
func Unmarshal(b []byte, r Record) error { return Decode(b, r.Fields) }

// decoders are used again, as coders are.
var decoders = sync.Pool{New: func() any { return new(Coder) }}

// Decode calls f to read from b, and returns the first error. It is Unmarshal for records on the stack: f calls their
// Fields. f must not keep the Coder.
func Decode(b []byte, f func(*Coder)) error {
	c := decoders.Get().(*Coder)
	*c = Coder{buf: b, reading: true}
	f(c)
	err := c.err
	*c = Coder{}
	decoders.Put(c)
	return err
}

// Coder either appends primitive values to a buffer or reads them from it. The zero value writes. A Coder
// that reads remembers its first error, and reads zero values from then on.
type Coder struct {
	buf     []byte // written so far, or left to read
	err     error
	reading bool
	asJava  bool
}

// NewDecoder returns a Coder that reads b. It neither copies nor changes b.
func NewDecoder(b []byte) *Coder { return &Coder{buf: b, reading: true} }

// Null is what a Coder of [NewRequestDecoder] reads for a null string. It is no valid path, scheme or id.
const Null = "\x00null"

// NewRequestDecoder is [NewDecoder] for a server that reads requests as Java's server does: a null string is
// read as [Null], not as ""; a null vector as nil, and an empty vector as a slice that is not nil; a vector
// with a count below -1 as an empty vector.
func NewRequestDecoder(b []byte) *Coder { return &Coder{buf: b, reading: true, asJava: true} }

// Err returns the first error, or nil.
func (c *Coder) Err() error { return c.err }

// Rest returns the bytes written so far, or the bytes not read yet. It does not consume them.
func (c *Coder) Rest() []byte { return c.buf }

func (c *Coder) failWith(err error) {
	if c.err == nil {
		c.err = err
	}
	c.buf = nil
}

// takeBytes consumes and returns n bytes. If fewer are left, that is an error, and it returns nil.
func (c *Coder) takeBytes(n int) []byte {
	if c.err == nil && n > len(c.buf) {
		c.failWith(fmt.Errorf("%w: %d bytes wanted, %d left", ErrShort, n, len(c.buf)))
	}
	if c.err != nil {
		return nil
	}
	b := c.buf[:n]
	c.buf = c.buf[n:]
	return b
}

// Int is a 32-bit integer.
func (c *Coder) Int(v *int32) {
	if !c.reading {
		c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(*v))
	} else if b := c.takeBytes(4); b != nil {
		*v = int32(binary.BigEndian.Uint32(b))
	} else {
		*v = 0
	}
}

// Long is a 64-bit integer.
func (c *Coder) Long(v *int64) {
	if !c.reading {
		c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(*v))
	} else if b := c.takeBytes(8); b != nil {
		*v = int64(binary.BigEndian.Uint64(b))
	} else {
		*v = 0
	}
}

// Bool is one byte; anything but 0 is true.
func (c *Coder) Bool(v *bool) {
	switch {
	case c.reading:
		b := c.takeBytes(1)
		*v = b != nil && b[0] != 0
	case *v:
		c.buf = append(c.buf, 1)
	default:
		c.buf = append(c.buf, 0)
	}
}

// Buffer is a length and that many bytes, which are copied when read. A length of -1 is nil, as in Java; any
// other negative length is an error.
func (c *Coder) Buffer(v *[]byte) {
	n := int32(len(*v))
	if *v == nil {
		n = -1
	}
	if c.Int(&n); !c.reading {
		c.buf = append(c.buf, *v...)
		return
	}
	if n < -1 {
		c.failWith(fmt.Errorf("%w: buffer of %d bytes", ErrLength, n))
	}
	b := c.takeBytes(int(max(n, 0)))
	if *v = nil; c.err == nil && n >= 0 {
		*v = append([]byte{}, b...)
	}
}

// String is a length and that many bytes of UTF-8. A null string (length -1) is read as "", or as [Null] by a
// Coder of [NewRequestDecoder].
func (c *Coder) String(v *string) {
	n := int32(len(*v))
	if c.Int(&n); !c.reading {
		c.buf = append(c.buf, *v...)
		return
	}
	if n < -1 {
		c.failWith(fmt.Errorf("%w: string of %d bytes", ErrLength, n))
	}
	if *v = string(c.takeBytes(int(max(n, 0)))); n == -1 && c.asJava {
		*v = Null
	}
}

// Strings is a vector of strings.
func (c *Coder) Strings(v *[]string) {
	codeVector(c, v, 4, func(s *string, c *Coder) { c.String(s) })
}

// codeVector is a count and that many elements, of at least size bytes each. A count of -1 is null.
func codeVector[T any](c *Coder, v *[]T, size int, element func(*T, *Coder)) {
	n := int32(len(*v))
	if c.Int(&n); c.reading {
		*v = nil
		switch {
		case c.err != nil, n == -1, n == 0 && !c.asJava:
			return
		case n < 0 && !c.asJava, int(n) > len(c.buf)/size:
			c.failWith(fmt.Errorf("%w: vector of %d elements in %d bytes", ErrLength, n, len(c.buf)))
			return
		}
		*v = make([]T, max(n, 0))
	}
	for i := range *v {
		element(&(*v)[i], c)
	}
	if c.err != nil {
		*v = nil
	}
}

// codeTrailing is a bool in the last byte of a record, which old peers do not send. there is whether the byte exists.
func (c *Coder) codeTrailing(there, v *bool) {
	if c.reading {
		*there = len(c.buf) > 0
	}
	if *there {
		c.Bool(v)
	}
}

// Raw appends bytes without a length. When reading it does nothing.
func (c *Coder) Raw(b []byte) {
	if !c.reading {
		c.buf = append(c.buf, b...)
	}
}
