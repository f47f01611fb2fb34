package differential

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Pair is two servers that should be indistinguishable.
type Pair struct{ Left, Right *Host }

// Close ends both hosts' sessions.
func (p Pair) Close() error {
	err := p.Left.Close()
	if other := p.Right.Close(); err == nil {
		err = other
	}
	return err
}

// Difference runs a history on both and returns the first difference, "" if there is none.
func (p Pair) Difference(ops []Op) (string, error) {
	type result struct {
		outcome Outcome
		err     error
	}
	other := make(chan result, 1)
	go func() {
		outcome, err := p.Right.Run(ops)
		other <- result{outcome, err}
	}()
	left, err := p.Left.Run(ops)
	right := <-other
	if err != nil {
		return "", err
	}
	if right.err != nil {
		return "", right.err
	}
	return p.compare(ops, left, right.outcome), nil
}

func (p Pair) compare(ops []Op, left, right Outcome) string {
	for i := range min(len(left), len(right)) {
		if left[i] == right[i] {
			continue
		}
		what := "the end of a session"
		switch {
		case i < len(ops):
			what = ops[i].String()
		case i == len(ops):
			what = "the tree that is left"
		}
		return fmt.Sprintf("operation %d: %s\n%s\n%s", i+1, what, said(p.Left, left[i]), said(p.Right, right[i]))
	}
	if len(left) != len(right) {
		return fmt.Sprintf("%d outcomes and %d", len(left), len(right))
	}
	return ""
}

func said(h *Host, text string) string {
	return "  " + h.system.Name() + " says\n    " + strings.ReplaceAll(text, "\n", "\n    ")
}

// Shrink leaves out operations, and simplifies others, as long as differs returns true or until the deadline. It is
// delta debugging: halves first, then quarters, down to single operations, and again while anything could be left
// out.
func Shrink(ops []Op, deadline time.Time, differs func([]Op) bool) []Op {
	late := func() bool { return time.Now().After(deadline) }
	for shorter := true; shorter && !late(); {
		shorter = false
		for size := max(len(ops)/2, 1); size >= 1; size /= 2 {
			for at := 0; at+size <= len(ops) && !late(); {
				candidate := slices.Concat(ops[:at], ops[at+size:])
				if len(candidate) > 0 && differs(candidate) {
					ops, shorter = candidate, true
				} else {
					at += size
				}
			}
		}
		for i := range ops {
			for _, simpler := range simplify(ops[i]) {
				candidate := slices.Clone(ops)
				candidate[i] = simpler
				if !late() && differs(candidate) {
					ops, shorter = candidate, true
					break
				}
			}
		}
	}
	return ops
}

// simplify returns possible replacements of an operation, each one step simpler.
func simplify(op Op) []Op {
	var simpler []Op
	try := func(change func(*Op)) {
		c := op
		change(&c)
		if c.String() != op.String() {
			simpler = append(simpler, c)
		}
	}
	for i := range op.Multi {
		try(func(c *Op) { c.Multi = slices.Concat(op.Multi[:i], op.Multi[i+1:]) })
	}
	for list, paths := range op.Paths {
		for i := range paths {
			try(func(c *Op) {
				c.Paths = map[string][]string{}
				for l, p := range op.Paths {
					c.Paths[l] = p
				}
				c.Paths[list] = slices.Concat(paths[:i], paths[i+1:])
				if len(c.Paths[list]) == 0 {
					delete(c.Paths, list)
				}
			})
		}
	}
	if len(op.ACL) > 1 {
		for i := range op.ACL {
			try(func(c *Op) { c.ACL = slices.Concat(op.ACL[:i], op.ACL[i+1:]) })
		}
	}
	try(func(c *Op) { c.More = false })
	try(func(c *Op) { c.Watch = false })
	try(func(c *Op) { c.ACL, c.NoACL = nil, false })
	if op.Data != nil {
		try(func(c *Op) { c.Data = text("") }) // null is another matter
	}
	return simpler
}
