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
	strategy   Strategy
	errorLimit int
	downTime   time.Duration
	filters    []any // func(Instance[T]) bool each
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
		p.errorLimit, p.downTime = errors, rest
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
	keepFilters []func(Instance[T]) bool

	mu          sync.Mutex
	lastChosen  string // the name of the node that was chosen last
	errorCounts map[instanceKey]instanceErrors
}

// instanceKey identifies an instance for counting its errors. Registering again makes a new key.
type instanceKey struct {
	id, address   string
	port, sslPort int
	registered    int64
}

func keyOfInstance[T any](i Instance[T]) instanceKey {
	return instanceKey{i.ID, i.Address, i.Port, i.SSLPort, toMillis(i.RegistrationTime)}
}

type instanceErrors struct {
	firstTime time.Time
	count     int
}

// NewProvider makes a provider of the instances in c.
//
// Errors: framework.ErrInvalidOption.
func NewProvider[T any](c *Cache[T], opts ...ProviderOption) (*Provider[T], error) {
	p := &Provider[T]{cache: c, providing: providing{errorLimit: 2, downTime: 30 * time.Second},
		errorCounts: map[instanceKey]instanceErrors{}}
	for _, opt := range opts {
		if opt == nil {
			return nil, wrapError(c.path, "new provider",
				fmt.Errorf("%w: an option is nil; leave it out", framework.ErrInvalidOption))
		}
		if err := opt(&p.providing); err != nil {
			return nil, wrapError(c.path, "new provider", err)
		}
	}
	for _, filter := range p.filters {
		keep, ok := filter.(func(Instance[T]) bool)
		if !ok {
			return nil, wrapError(c.path, "new provider", fmt.Errorf("%w WithFilter: it is for another payload: %T",
				framework.ErrInvalidOption, filter))
		}
		p.keepFilters = append(p.keepFilters, keep)
	}
	return p, nil
}

// Instance chooses one of [Provider.Instances]. If there is none the error matches [ErrNoInstance] and includes the
// reason. It neither waits nor sends anything: wait for the cache first.
func (p *Provider[T]) Instance() (Instance[T], error) {
	usable, why := p.usableInstances()
	if len(usable) == 0 {
		return Instance[T]{}, wrapError(p.cache.path, "instance", fmt.Errorf("%w: %s", ErrNoInstance, why))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	chosen := usable[rand.IntN(len(usable))]
	switch p.strategy {
	case Random:
	case Sticky:
		for _, e := range usable {
			if e.name == p.lastChosen {
				chosen = e
			}
		}
	case RoundRobin:
		if p.lastChosen == "" {
			break // otherwise all clients would begin with the same instance
		}
		chosen = usable[0]
		for _, e := range usable {
			if e.name > p.lastChosen {
				chosen = e
				break
			}
		}
	}
	p.lastChosen = chosen.name
	return chosen.instance, nil
}

// Instances returns the usable instances: enabled, approved by the filters, and not down. Corresponds to
// getAllInstances.
func (p *Provider[T]) Instances() []Instance[T] {
	usable, _ := p.usableInstances()
	return instancesOf(usable)
}

// NoteError records that the instance could not be used. After as many errors as [WithDownAfter] sets, the instance is
// down: it is not chosen until the time set there has passed since the first of them, or until it has registered again.
func (p *Provider[T]) NoteError(i Instance[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for key, f := range p.errorCounts {
		if now.Sub(f.firstTime) >= p.downTime {
			delete(p.errorCounts, key)
		}
	}
	f, ok := p.errorCounts[keyOfInstance(i)]
	if !ok {
		f.firstTime = now
	}
	f.count++
	p.errorCounts[keyOfInstance(i)] = f
}

// usableInstances returns the usable instances, by name, and the reason why there are none.
func (p *Provider[T]) usableInstances() (usable []cacheEntry[T], why string) {
	entries, loaded := p.cache.loadedEntries()
	disabled, refused, down := 0, 0, 0
	for _, e := range entries {
		switch {
		case e.err != nil:
		case e.instance.Disabled:
			disabled++
		case slices.ContainsFunc(p.keepFilters, func(keep func(Instance[T]) bool) bool { return !keep(e.instance) }):
			refused++
		case p.isDown(e.instance):
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

func (p *Provider[T]) isDown(i Instance[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.errorCounts[keyOfInstance(i)]
	return f.count >= p.errorLimit && time.Since(f.firstTime) < p.downTime
}
