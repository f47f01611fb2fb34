package discovery

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
)

// Strategy determines how a provider chooses among the usable instances.
type Strategy int8

const (
	// RoundRobin takes one after the other, by the names of their nodes, beginning with a random one.
	RoundRobin Strategy = iota
	// Random takes any of them.
	Random
	// Sticky takes the same one for as long as it is usable, and then any other.
	Sticky
)

func (s Strategy) String() string {
	switch s {
	case RoundRobin:
		return "RoundRobin"
	case Random:
		return "Random"
	case Sticky:
		return "Sticky"
	}
	return fmt.Sprintf("Strategy(%d)", int8(s))
}

// ProviderOption configures [NewProvider]. If one is given several times the last counts, unless documented
// otherwise.
type ProviderOption func(*providing) error

type providing struct {
	strategy Strategy
	errors   int
	rest     time.Duration
	filters  []any // func(Instance[T]) bool each
}

// WithStrategy sets how the provider chooses. Default: [RoundRobin].
func WithStrategy(s Strategy) ProviderOption {
	return func(p *providing) error {
		if s < RoundRobin || s > Sticky {
			return fmt.Errorf("%w WithStrategy: there is no strategy %d", framework.ErrInvalidOption, int8(s))
		}
		p.strategy = s
		return nil
	}
}

// WithDownAfter sets after how many errors an instance is down, and how long after the first of them it is tried
// again. Default: 2 errors, 30 seconds. Corresponds to DownInstancePolicy.
func WithDownAfter(errors int, rest time.Duration) ProviderOption {
	return func(p *providing) error {
		if errors < 1 || rest <= 0 {
			return fmt.Errorf("%w WithDownAfter: %d errors, %v: both must be above zero",
				framework.ErrInvalidOption, errors, rest)
		}
		p.errors, p.rest = errors, rest
		return nil
	}
}

// WithFilter leaves out the instances for which keep returns false. keep must not block. Given several times, an
// instance is used if all of them return true.
func WithFilter[T any](keep func(Instance[T]) bool) ProviderOption {
	return func(p *providing) error {
		if keep == nil {
			return fmt.Errorf("%w WithFilter: the function is nil; leave it out", framework.ErrInvalidOption)
		}
		p.filters = append(p.filters, keep)
		return nil
	}
}

// Provider chooses instances from a [Cache]. It starts nothing and need not be closed; closing the cache is up to the
// caller. Safe for concurrent use.
//
// Corresponds to Curator's ServiceProvider.
type Provider[T any] struct {
	cache *Cache[T]
	providing
	keeps []func(Instance[T]) bool

	mu     sync.Mutex
	last   string // the name of the node that was chosen last
	faults map[place]fault
}

// place identifies an instance for counting its errors. Registering again makes a new place.
type place struct {
	id, address   string
	port, sslPort int
	registered    int64
}

func placeOf[T any](i Instance[T]) place {
	return place{i.ID, i.Address, i.Port, i.SSLPort, millis(i.RegistrationTime)}
}

type fault struct {
	first time.Time
	count int
}

// NewProvider makes a provider of the instances in c.
//
// Errors: framework.ErrInvalidOption, framework.ErrNoClient if c was not made by [Discovery.Cache].
func NewProvider[T any](c *Cache[T], opts ...ProviderOption) (*Provider[T], error) {
	p := &Provider[T]{cache: c, providing: providing{errors: 2, rest: 30 * time.Second}, faults: map[place]fault{}}
	if c == nil || c.nodes == nil {
		return nil, wrap("", "new provider", framework.ErrNoClient)
	}
	for _, opt := range opts {
		if opt == nil {
			return nil, wrap(c.path, "new provider",
				fmt.Errorf("%w: an option is nil; leave it out", framework.ErrInvalidOption))
		}
		if err := opt(&p.providing); err != nil {
			return nil, wrap(c.path, "new provider", err)
		}
	}
	for _, filter := range p.filters {
		keep, ok := filter.(func(Instance[T]) bool)
		if !ok {
			return nil, wrap(c.path, "new provider", fmt.Errorf("%w WithFilter: it is for another payload: %T",
				framework.ErrInvalidOption, filter))
		}
		p.keeps = append(p.keeps, keep)
	}
	return p, nil
}

// Instance chooses one of [Provider.Instances]. If there is none the error matches [ErrNoInstance] and includes the
// reason. It neither waits nor sends anything: wait for the cache first.
func (p *Provider[T]) Instance() (Instance[T], error) {
	usable, why := p.usable()
	if len(usable) == 0 {
		return Instance[T]{}, wrap(p.where(), "instance", fmt.Errorf("%w: %s", ErrNoInstance, why))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	chosen := usable[rand.IntN(len(usable))]
	switch p.strategy {
	case Random:
	case Sticky:
		for _, e := range usable {
			if e.name == p.last {
				chosen = e
			}
		}
	case RoundRobin:
		if p.last == "" {
			break // otherwise all clients would begin with the same instance
		}
		chosen = usable[0]
		for _, e := range usable {
			if e.name > p.last {
				chosen = e
				break
			}
		}
	}
	p.last = chosen.name
	return chosen.instance, nil
}

// Instances returns the usable instances: enabled, approved by the filters, and not down. Corresponds to
// getAllInstances.
func (p *Provider[T]) Instances() []Instance[T] {
	usable, _ := p.usable()
	return instancesOf(usable)
}

// NoteError records that the instance could not be used. After as many errors as set by WithDownAfter it is down: it
// is not chosen until the time since the first of them has passed, or until it has registered again.
func (p *Provider[T]) NoteError(i Instance[T]) {
	if p == nil || p.faults == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for at, f := range p.faults {
		if now.Sub(f.first) >= p.rest {
			delete(p.faults, at)
		}
	}
	f, ok := p.faults[placeOf(i)]
	if !ok {
		f.first = now
	}
	f.count++
	p.faults[placeOf(i)] = f
}

// usable returns the usable instances, by name, and the reason for their absence.
func (p *Provider[T]) usable() (usable []entry[T], why string) {
	if p == nil || p.cache == nil {
		return nil, "the provider was not made by NewProvider"
	}
	entries, loaded := p.cache.show()
	disabled, refused, down := 0, 0, 0
	for _, e := range entries {
		switch {
		case e.err != nil:
		case e.instance.Disabled:
			disabled++
		case slices.ContainsFunc(p.keeps, func(keep func(Instance[T]) bool) bool { return !keep(e.instance) }):
			refused++
		case p.down(e.instance):
			down++
		default:
			usable = append(usable, e)
		}
	}
	if !loaded {
		return nil, "they are not known yet: wait for the cache"
	}
	return usable, fmt.Sprintf("%d are registered, of which %d are disabled, %d filtered out, %d down",
		len(instancesOf(entries)), disabled, refused, down)
}

func (p *Provider[T]) down(i Instance[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.faults[placeOf(i)]
	return f.count >= p.errors && time.Since(f.first) < p.rest
}

func (p *Provider[T]) where() string {
	if p == nil || p.cache == nil {
		return ""
	}
	return p.cache.path
}
