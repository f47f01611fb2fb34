package javapeer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-curator/curator/integration/bench"
)

// Load is contenders of the peer that take turns as fast as they can.
type Load struct {
	peer *Peer
	name string
}

// Load starts the contenders of a job, in separate sessions at server; name is the peer's name for it.
func (p *Peer) Load(ctx context.Context, name, server string, job bench.Job) (*Load, error) {
	_, err := p.Call(ctx, "load", name, server, job.Work, job.Path, strconv.Itoa(job.Sessions),
		strconv.Itoa(job.Contenders), strconv.Itoa(job.Leases), strconv.FormatInt(job.Hold.Microseconds(), 10))
	return &Load{p, name}, err
}

// Mark returns the sample since the previous mark.
func (l *Load) Mark(ctx context.Context) (s bench.Sample, err error) {
	words, err := l.peer.Call(ctx, "load-mark", l.name)
	if err != nil {
		return s, err
	}
	numbers := make([]int64, len(words))
	for i, word := range words {
		if numbers[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			return s, fmt.Errorf("load-mark: %w", err)
		}
	}
	if len(numbers) < 8 {
		return s, fmt.Errorf("load-mark: %d numbers", len(numbers))
	}
	s = bench.Sample{Took: time.Duration(numbers[0]), Cycles: numbers[1], CPU: time.Duration(numbers[2]),
		Bytes: numbers[3], Overlaps: numbers[4], Slowest: numbers[5], Fastest: numbers[6],
		Gap: time.Duration(numbers[7])}
	for _, each := range numbers[8:] {
		s.HandOvers = append(s.HandOvers, time.Duration(each))
	}
	slices.Sort(s.HandOvers)
	return s, nil
}

// Stop ends the contenders and their sessions.
func (l *Load) Stop(ctx context.Context) error {
	_, err := l.peer.Call(ctx, "load-stop", l.name)
	return err
}
