package jute

import (
	"errors"
	"fmt"
)

// MultiHeader comes before each operation of a multi and, with Done, after the last.
type MultiHeader struct {
	Type int32
	Done bool
	Err  int32
}

func (r *MultiHeader) Encode(e *Encoder) { e.Int(r.Type); e.Bool(r.Done); e.Int(r.Err) }
func (r *MultiHeader) Decode(d *Decoder) { r.Type, r.Done, r.Err = d.Int(), d.Bool(), d.Int() }

var multiEnd = MultiHeader{Type: -1, Done: true, Err: -1}

// MultiOp is one operation of a multi (14) or multiRead (22) request.
type MultiOp struct {
	Op      int32
	Request interface {
		Record
		Decodable
	}
}

// MultiRequest serves multi (create, create2, createContainer, createTTL, delete, setData, check) and
// multiRead (getData, getChildren).
type MultiRequest struct{ Ops []MultiOp }

func (r *MultiRequest) Encode(e *Encoder) {
	for _, op := range r.Ops {
		(&MultiHeader{Type: op.Op, Err: -1}).Encode(e)
		op.Request.Encode(e)
	}
	multiEnd.Encode(e)
}

func (r *MultiRequest) Decode(d *Decoder) {
	r.Ops = nil
	for {
		var h MultiHeader
		if h.Decode(d); d.Err() != nil || h.Done {
			return
		}
		op := MultiOp{Op: h.Type}
		switch h.Type {
		case OpCreate, OpCreate2, OpCreateContainer:
			op.Request = &CreateRequest{}
		case OpCreateTTL:
			op.Request = &CreateTTLRequest{}
		case OpDelete, OpCheck:
			op.Request = &PathVersionRequest{}
		case OpSetData:
			op.Request = &SetDataRequest{}
		case OpGetData, OpGetChildren:
			op.Request = &PathWatchRequest{}
		default:
			d.fail(fmt.Errorf("jute: operation %d inside a multi", h.Type))
			return
		}
		op.Request.Decode(d)
		r.Ops = append(r.Ops, op)
	}
}

// MultiResult is one operation's part of a multi's reply. Op is [OpError] where the operation failed or was
// not done; then Err says why.
type MultiResult struct {
	Op       int32
	Err      int32
	Path     string   // create, create2, createContainer, createTTL
	Stat     Stat     // all but create, delete, check and getChildren
	Data     []byte   // getData
	Children []string // getChildren
}

// MultiResponse is the reply of multi and multiRead. A failed multi has the error code 0 in its ReplyHeader:
// which operation failed, and how, is here.
type MultiResponse struct {
	Results []MultiResult
	// Asked is how many operations the request consisted of. Decode takes no more results than that: one of nine
	// bytes takes 144 here.
	Asked int
}

// resultSize is the least that a result takes: its header.
const resultSize = 9

func tooManyResults(most int) error { return fmt.Errorf("%w: more than %d results", ErrLength, most) }

var errStrange = errors.New("jute: strange result inside a multi's reply")

func strangeResult(op int32) error { return fmt.Errorf("%w: of type %d", errStrange, op) }

func (r *MultiResponse) Encode(e *Encoder) {
	for i := range r.Results {
		res := &r.Results[i]
		(&MultiHeader{Type: res.Op, Err: res.Err}).Encode(e)
		switch res.Op {
		case OpError:
			e.Int(res.Err)
		case OpCreate:
			e.String(res.Path)
		case OpCreate2, OpCreateContainer, OpCreateTTL:
			e.String(res.Path)
			res.Stat.Encode(e)
		case OpSetData:
			res.Stat.Encode(e)
		case OpGetData:
			e.Buffer(res.Data)
			res.Stat.Encode(e)
		case OpGetChildren:
			e.Strings(res.Children)
		}
	}
	multiEnd.Encode(e)
}

func (r *MultiResponse) Decode(d *Decoder) {
	r.Results = make([]MultiResult, 0, min(r.Asked, d.Len()/resultSize))
	for {
		var h MultiHeader
		h.Decode(d)
		if !h.Done && len(r.Results) == r.Asked {
			d.fail(tooManyResults(r.Asked))
		}
		switch {
		case d.Err() != nil:
			r.Results = nil
			return
		case h.Done:
			return
		}
		r.Results = append(r.Results, decodeResult(d, h))
	}
}

func decodeResult(d *Decoder, h MultiHeader) MultiResult {
	res := MultiResult{Op: h.Type, Err: h.Err}
	switch h.Type {
	case OpError:
		res.Err = d.Int()
	case OpCreate:
		res.Path = d.String()
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		res.Path = d.String()
		res.Stat.Decode(d)
	case OpSetData:
		res.Stat.Decode(d)
	case OpGetData:
		res.Data = d.Buffer()
		res.Stat.Decode(d)
	case OpGetChildren:
		res.Children = d.Strings()
	case OpDelete, OpCheck:
	default:
		d.fail(strangeResult(h.Type))
	}
	return res
}
