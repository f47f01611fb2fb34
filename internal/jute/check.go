package jute

import "fmt"

// CheckReply walks over the body of a successful reply to op and says whether it is one: every field is
// there, and no length or count claims more than comes. It allocates nothing, so that it can stand in front
// of a decoder that believes what a count says. A null is refused where it is no empty value to everybody:
// only a buffer may be null. asked are the operations that a multi or multiRead consisted of: it has a result
// for each, which is of its kind or an error, and if there are errors one at least says what it is. Bytes
// after the last field are ignored, as by every decoder. No reply to an unknown operation is right.
func CheckReply(op int32, asked []int32, body []byte) error {
	d := NewDecoder(body)
	switch {
	case op == OpMulti, op == OpMultiRead:
		d.skipResults(asked)
	case !d.skip(op):
		return fmt.Errorf("jute: a reply to the unknown operation %d", op)
	}
	return d.err
}

// skip walks over the reply to op, or over the result of op in the reply of a multi: those are alike. It
// returns false if op is unknown.
func (d *Coder) skip(op int32) bool {
	switch op {
	case OpDelete, OpCheck, OpPing, OpAuth, OpSetWatches, OpSetWatches2, OpCheckWatches, OpRemoveWatches,
		OpDeleteContainer, OpCloseSession:
	case OpCreate, OpSync:
		d.skipString()
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		d.skipString()
		d.take(statSize)
	case OpExists, OpSetData, OpSetACL:
		d.take(statSize)
	case OpGetData, OpReconfig:
		d.skipBuffer()
		d.take(statSize)
	case OpGetACL:
		d.skipACL()
		d.take(statSize)
	case OpGetChildren, OpGetEphemerals:
		d.skipStrings()
	case OpGetChildren2:
		d.skipStrings()
		d.take(statSize)
	case OpAddWatch, OpGetAllChildrenNumber:
		d.take(4)
	case OpWhoAmI:
		for range d.countOf(8) {
			d.skipString()
			d.skipString()
		}
	default:
		return false
	}
	return true
}

// statSize is the length of a Stat.
const statSize = 68

// length reads a length or count that may not be null.
func (d *Coder) length() int {
	var n int32
	d.Int(&n)
	if n < 0 {
		d.fail(fmt.Errorf("%w: %d", ErrLength, n))
		return 0
	}
	return int(n)
}

func (d *Coder) skipString() { d.take(d.length()) }

func (d *Coder) skipBuffer() {
	var n int32
	if d.Int(&n); n < -1 {
		d.fail(fmt.Errorf("%w: buffer of %d bytes", ErrLength, n))
	}
	d.take(int(max(n, 0)))
}

// countOf is count for a vector that may not be null.
func (d *Coder) countOf(size int) int {
	n := d.length()
	if n > len(d.buf)/size {
		d.fail(fmt.Errorf("%w: vector of %d elements in %d bytes", ErrLength, n, len(d.buf)))
		return 0
	}
	return n
}

func (d *Coder) skipStrings() {
	for range d.countOf(4) {
		d.skipString()
	}
}

func (d *Coder) skipACL() {
	for range d.countOf(12) {
		d.take(4)
		d.skipString()
		d.skipString()
	}
}

func (d *Coder) skipResults(asked []int32) {
	errs, failed := false, false
	for n := 0; ; n++ {
		var h MultiHeader
		switch h.Fields(d); {
		case d.err != nil:
			return
		case h.Done && n < len(asked):
			d.fail(fmt.Errorf("%w: %d results for %d operations", ErrLength, n, len(asked)))
			return
		case h.Done && errs && !failed:
			d.fail(fmt.Errorf("%w: there are errors, but none has a code", errStrange))
			return
		case h.Done:
			return
		case n == len(asked):
			d.fail(tooManyResults(n))
			return
		case h.Type != OpError && kind(h.Type) != kind(asked[n]):
			d.fail(fmt.Errorf("%w: type %d for operation %d", errStrange, h.Type, asked[n]))
			return
		}
		switch h.Type {
		case OpError:
			d.Int(&h.Err)
			errs, failed = true, failed || h.Err != CodeOK
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpSetData, OpGetData, OpGetChildren, OpDelete,
			OpCheck:
			d.skip(h.Type)
		default:
			d.fail(strangeResult(h.Type))
		}
	}
}

// kind is what a result of op is like: which of the types a server gives to the result of a create depends on
// the node, and on the server.
func kind(op int32) int32 {
	switch op {
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return OpCreate
	}
	return op
}
