package inspect

import (
	"fmt"

	"github.com/go-curator/curator/framework"
)

// Option sets a limit of a read, or [WithProbe]. A later option overrides an earlier one.
type Option func(*limits) error

type limits struct {
	nodes, data, depth int
	probe              string
}

func applyOptions(opts []Option) (limits, error) {
	l := limits{nodes: 10_000, data: 1024, depth: 16}
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o(&l); err != nil {
			return limits{}, err
		}
	}
	return l, nil
}

func boundedOption(name string, n, most int, set func(*limits)) Option {
	return func(l *limits) error {
		if n < 0 || n > most {
			return fmt.Errorf("%w %s: %d is not from 0 to %d", framework.ErrInvalidOption, name, n, most)
		}
		set(l)
		return nil
	}
}

// WithMostNodes bounds how many nodes are read: directories, participants and others. Default 10000, at most a
// million.
func WithMostNodes(n int) Option {
	return boundedOption("WithMostNodes", n, 1_000_000, func(l *limits) { l.nodes = n })
}

// WithMostData bounds the data of a participant that are read: larger ones are left out, and [Participant.DataLength]
// has their size. Default 1 KiB, at most framework.ContenderDataLimit, 64 KiB.
func WithMostData(bytes int) Option {
	return boundedOption("WithMostData", bytes, framework.ContenderDataLimit, func(l *limits) { l.data = bytes })
}

// WithMostDepth bounds how many levels below its root [Locks] looks. Default 16, at most 1000.
func WithMostDepth(levels int) Option {
	return boundedOption("WithMostDepth", levels, 1000, func(l *limits) { l.depth = levels })
}
