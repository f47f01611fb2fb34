package cache

import "time"

const (
	// complaintsMost is how many lines about nodes that cannot be read, or decoded, a cache logs within
	// complaintsTime. Anyone who may write there could cause any number of them. Events and Failures tell of
	// all.
	complaintsMost = 16
	complaintsTime = time.Minute
)

// complaints counts those lines.
type complaints struct {
	since time.Time // of the first
	n     int
}

// complain logs that a node cannot be read, or once that no more of them are logged for a while.
func (e *engine) complain(path string, err error) {
	c := &e.retries.complaints
	if now := time.Now(); c.n == 0 || now.Sub(c.since) >= complaintsTime {
		*c = complaints{since: now}
	}
	if c.n++; c.n > complaintsMost {
		return
	}
	e.log().Warn("cache: cannot read a node", "path", path, "err", err)
	if c.n == complaintsMost {
		e.log().Warn("cache: more nodes that cannot be read are not logged for a while; see Failures",
			"path", e.cfg.root, "while", complaintsTime)
	}
}
