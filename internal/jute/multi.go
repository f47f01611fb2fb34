package jute

import (
	"errors"
	"fmt"
	"slices"
)

// MultiHeader precedes each operation and each result of a multi. A last one, with Done, follows them.
type MultiHeader struct {
	Type int32
	Done bool
	Err  int32
}

func (r *MultiHeader) Fields(c *Coder) { c.Int(&r.Type); c.Bool(&r.Done); c.Int(&r.Err) }

var multiEnd = MultiHeader{Type: -1, Done: true, Err: -1}

// MultiOp is one operation of a multi (14) or multiRead (22) request.
type MultiOp struct {
	Op      int32
	Request Record
}

// MultiRequest serves multi (create, create2, createContainer, createTTL, delete, setData, check) and
// multiRead (getData, getChildren).
type MultiRequest struct{ Ops []MultiOp }

// opSize is about the size in bytes of an operation that reads a node.
const opSize = 64

func (r *MultiRequest) Fields(c *Coder) {
	if c.reading {
		r.Ops = nil
	} else {
		c.buf = slices.Grow(c.buf, len(r.Ops)*opSize)
	}
	for i := 0; ; i++ {
		h := multiEnd
		if i < len(r.Ops) {
			h = MultiHeader{Type: r.Ops[i].Op, Err: -1}
		}
		if h.Fields(c); h.Done || c.err != nil {
			return
		}
		if c.reading {
			op := MultiOp{h.Type, newRequest(h.Type)}
			if op.Request == nil {
				c.failWith(fmt.Errorf("jute: operation %d cannot be part of a multi", h.Type))
				return
			}
			r.Ops = append(r.Ops, op)
		}
		if r.Ops[i].Request.Fields(c); c.reading && c.err != nil {
			r.Ops = r.Ops[:i] // those that could be read
			return
		}
	}
}

// newRequest returns an empty request record for op inside a multi, nil if op cannot be part of a multi.
func newRequest(op int32) Record {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer:
		return &CreateRequest{}
	case OpCreateTTL:
		return &CreateTTLRequest{}
	case OpDelete, OpCheck:
		return &PathVersionRequest{}
	case OpSetData:
		return &SetDataRequest{}
	case OpGetData, OpGetChildren:
		return &PathWatchRequest{}
	}
	return nil
}

// MultiResult is the result of one operation in the reply of a multi. If the operation failed, or was not executed, Op is
// [OpError] and Err is the code.
type MultiResult struct {
	Op       int32
	Err      int32
	Path     string   // create, create2, createContainer, createTTL
	Stat     Stat     // all but create, delete, check and getChildren
	Data     []byte   // getData
	Children []string // getChildren
}

// MultiResponse is the reply of multi and multiRead. The ReplyHeader of a failed multi has the error code 0:
// which operation failed, and why, is in Results.
type MultiResponse struct {
	Results []MultiResult
	// Asked is the number of operations in the request. More results than that are an error. The limit bounds
	// memory: a result of nine bytes on the wire takes 144 bytes in Results.
	Asked int
}

// resultSize is the least size of a result in bytes: that of its header.
const resultSize = 9

func tooManyResults(most int) error { return fmt.Errorf("%w: more than %d results", ErrLength, most) }

var errStrange = errors.New("jute: unexpected result in the reply to a multi")

func strangeResult(op int32) error { return fmt.Errorf("%w: type %d", errStrange, op) }

func (r *MultiResponse) Fields(c *Coder) {
	if c.reading {
		r.Results = make([]MultiResult, 0, min(r.Asked, len(c.buf)/resultSize))
	}
	for i := 0; ; i++ {
		h := multiEnd
		if i < len(r.Results) {
			h = MultiHeader{Type: r.Results[i].Op, Err: r.Results[i].Err}
		}
		if h.Fields(c); c.reading && !h.Done && i == r.Asked {
			c.failWith(tooManyResults(r.Asked))
		}
		switch {
		case c.err != nil:
			r.Results = nil
			return
		case h.Done:
			return
		case c.reading:
			r.Results = append(r.Results, MultiResult{Op: h.Type, Err: h.Err})
		}
		r.Results[i].codeFields(c)
	}
}

// codeFields reads or writes the fields after the header.
func (r *MultiResult) codeFields(c *Coder) {
	switch r.Op {
	case OpError:
		c.Int(&r.Err)
	case OpCreate:
		c.String(&r.Path)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		c.String(&r.Path)
		r.Stat.Fields(c)
	case OpSetData:
		r.Stat.Fields(c)
	case OpGetData:
		c.Buffer(&r.Data)
		r.Stat.Fields(c)
	case OpGetChildren:
		c.Strings(&r.Children)
	case OpDelete, OpCheck:
	default:
		if c.reading {
			c.failWith(strangeResult(r.Op))
		}
	}
}

// Checks is the body of a transaction that changes nothing, and fails unless all the nodes at paths exist.
func Checks(paths ...string) []byte {
	req := &MultiRequest{}
	for _, p := range paths {
		req.Ops = append(req.Ops, MultiOp{Op: OpCheck, Request: &PathVersionRequest{Path: p, Version: -1}})
	}
	return Marshal(req)
}
