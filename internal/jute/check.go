package jute

import "fmt"

// CheckReply validates the body of a successful reply to op, without decoding it. It protects a decoder that trusts
// counts, and allocates nothing. asked has the operations of a multi or multiRead. The rules:
//
//   - Every field is present, and no length or count exceeds the bytes that follow.
//   - Only a buffer can be null (length -1). Decoders disagree about a null string or vector.
//   - A reply to a multi or multiRead has one result for each operation in asked, of a matching type or an
//     error. If there are errors, at least one has a code other than 0.
//   - Bytes after the last field are ignored, as by every decoder.
//   - Every reply to an unknown operation is an error.
func CheckReply(op int32, asked []int32, body []byte) error {
	d := NewDecoder(body)
	switch {
	case op == OpMulti, op == OpMultiRead:
		d.skipResults(asked)
	case !d.skipReply(op):
		return fmt.Errorf("jute: a reply to the unknown operation %d", op)
	}
	return d.err
}

// skipReply reads past the reply to op, or past the result of op in the reply of a multi, which has the same
// layout. It returns false if op is unknown.
func (d *Coder) skipReply(op int32) bool {
	switch op {
	case OpDelete, OpCheck, OpPing, OpAuth, OpSetWatches, OpSetWatches2, OpCheckWatches, OpRemoveWatches,
		OpDeleteContainer, OpCloseSession:
	case OpCreate, OpSync:
		d.skipString()
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		d.skipString()
		d.takeBytes(statSize)
	case OpExists, OpSetData, OpSetACL:
		d.takeBytes(statSize)
	case OpGetData, OpReconfig:
		d.skipBuffer()
		d.takeBytes(statSize)
	case OpGetACL:
		d.skipACL()
		d.takeBytes(statSize)
	case OpGetChildren, OpGetEphemerals:
		d.skipStrings()
	case OpGetChildren2:
		d.skipStrings()
		d.takeBytes(statSize)
	case OpAddWatch, OpGetAllChildrenNumber:
		d.takeBytes(4)
	case OpWhoAmI:
		for range d.readCount(8) {
			d.skipString()
			d.skipString()
		}
	default:
		return false
	}
	return true
}

// statSize is the length of an encoded Stat in bytes.
const statSize = 68

// readLength reads a length or count; null (-1) is an error.
func (d *Coder) readLength() int {
	var n int32
	d.Int(&n)
	if n < 0 {
		d.failWith(fmt.Errorf("%w: %d", ErrLength, n))
		return 0
	}
	return int(n)
}

func (d *Coder) skipString() { d.takeBytes(d.readLength()) }

func (d *Coder) skipBuffer() {
	var n int32
	if d.Int(&n); n < -1 {
		d.failWith(fmt.Errorf("%w: buffer of %d bytes", ErrLength, n))
	}
	d.takeBytes(int(max(n, 0)))
}

// readCount reads the count of a vector whose elements have at least size bytes each; null (-1) is an error.
func (d *Coder) readCount(size int) int {
	n := d.readLength()
	if n > len(d.buf)/size {
		d.failWith(fmt.Errorf("%w: vector of %d elements in %d bytes", ErrLength, n, len(d.buf)))
		return 0
	}
	return n
}

func (d *Coder) skipStrings() {
	for range d.readCount(4) {
		d.skipString()
	}
}

func (d *Coder) skipACL() {
	for range d.readCount(12) {
		d.takeBytes(4)
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
			d.failWith(fmt.Errorf("%w: %d results for %d operations", ErrLength, n, len(asked)))
			return
		case h.Done && errs && !failed:
			d.failWith(fmt.Errorf("%w: there are errors, but none has a code", errStrange))
			return
		case h.Done:
			return
		case n == len(asked):
			d.failWith(tooManyResults(n))
			return
		case h.Type != OpError && createKind(h.Type) != createKind(asked[n]):
			d.failWith(fmt.Errorf("%w: type %d for operation %d", errStrange, h.Type, asked[n]))
			return
		}
		switch h.Type {
		case OpError:
			d.Int(&h.Err)
			errs, failed = true, failed || h.Err != CodeOK
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpSetData, OpGetData, OpGetChildren, OpDelete,
			OpCheck:
			d.skipReply(h.Type)
		default:
			d.failWith(strangeResult(h.Type))
		}
	}
}

// createKind maps all create operations to OpCreate. In a multi the result of a create may have the type of another
// create, depending on the node and on the server.
func createKind(op int32) int32 {
	switch op {
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return OpCreate
	}
	return op
}
