package javapeer

import (
	"context"
	"strconv"
	"time"
)

// Discovery is a ServiceDiscovery of the peer. The peer is given an instance field by field, as "port=80"
// (DiscoveryCommands.java has the keys), and returns one as SERVICE/ID ADDRESS PORT SSL TYPE TIME ENABLED URI CLASS
// PAYLOAD, with null for missing values; CLASS and PAYLOAD are the payload's class and text in Java.
type Discovery struct {
	peer *Peer
	name string
}

// Discovery starts one below base, known to the peer by name. If it is full it writes "enabled", which Java by
// default does not; if it is watched it follows the nodes of its instances.
func (p *Peer) Discovery(ctx context.Context, name, base string, full, watched bool) (*Discovery, error) {
	_, err := p.Call(ctx, "discovery", name, base, strconv.FormatBool(full), strconv.FormatBool(watched))
	return &Discovery{p, name}, err
}

// Register registers an instance.
func (d *Discovery) Register(ctx context.Context, fields ...string) error {
	return d.say(ctx, "service-register", fields)
}

// Update changes an instance that it has registered.
func (d *Discovery) Update(ctx context.Context, fields ...string) error {
	return d.say(ctx, "service-update", fields)
}

// Unregister takes one away.
func (d *Discovery) Unregister(ctx context.Context, fields ...string) error {
	return d.say(ctx, "service-unregister", fields)
}

func (d *Discovery) say(ctx context.Context, command string, words []string) error {
	_, err := d.peer.Call(ctx, command, append([]string{d.name}, words...)...)
	return err
}

// Names are the services, sorted.
func (d *Discovery) Names(ctx context.Context) ([]string, error) {
	return d.peer.Call(ctx, "service-names", d.name)
}

// Instances returns the instances of a service, read from the server, sorted by text.
func (d *Discovery) Instances(ctx context.Context, service string) ([]string, error) {
	return d.peer.Call(ctx, "services", d.name, service)
}

// Instance is one of them; ErrTimeout if it is not there.
func (d *Discovery) Instance(ctx context.Context, service, id string) (string, error) {
	return d.peer.word(ctx, "service", d.name, service, id)
}

// Close closes it, which unregisters its instances.
func (d *Discovery) Close(ctx context.Context) error {
	_, err := d.peer.Call(ctx, "discovery-close", d.name)
	return err
}

// ServiceCache is a ServiceCache of the peer.
type ServiceCache struct {
	peer *Peer
	name string
}

// Cache starts a cache of a service, known to the peer by name, and waits until it is loaded. Its changes are
// events "services" with its name and the instances.
func (d *Discovery) Cache(ctx context.Context, name, service string) (*ServiceCache, error) {
	_, err := d.peer.Call(ctx, "service-cache", name, d.name, service)
	return &ServiceCache{d.peer, name}, err
}

// Instances returns its instances, sorted by text.
func (c *ServiceCache) Instances(ctx context.Context) ([]string, error) {
	return c.peer.Call(ctx, "service-cached", c.name)
}

// Changes returns how often it has reported a change.
func (c *ServiceCache) Changes() (n int) {
	for _, event := range c.peer.Events() {
		if event.Name == "services" && event.Words[0] == c.name {
			n++
		}
	}
	return n
}

// Close closes it.
func (c *ServiceCache) Close(ctx context.Context) error {
	_, err := c.peer.Call(ctx, "service-cache-close", c.name)
	return err
}

// ServiceProvider is a ServiceProvider of the peer.
type ServiceProvider struct {
	peer *Peer
	name string
}

// Provider starts one, known to the peer by name, with a strategy (RoundRobin, Random, Sticky), the number of errors
// and the time within which they mark an instance as down, and a prefix that the instances' ids must have.
func (d *Discovery) Provider(
	ctx context.Context, name, service, strategy string, errors int, within time.Duration, ids string,
) (*ServiceProvider, error) {
	_, err := d.peer.Call(ctx, "provider", name, d.name, service, strategy, strconv.Itoa(errors),
		milliseconds(within), ids)
	return &ServiceProvider{d.peer, name}, err
}

// Next is the id of the instance that it chooses; ErrTimeout if there is none.
func (p *ServiceProvider) Next(ctx context.Context) (string, error) {
	return p.peer.word(ctx, "provide", p.name)
}

// All are the ids among which it chooses, sorted.
func (p *ServiceProvider) All(ctx context.Context) ([]string, error) {
	return p.peer.Call(ctx, "provide-all", p.name)
}

// NoteError reports to it that an instance did not work; ErrTimeout if it has no such instance.
func (p *ServiceProvider) NoteError(ctx context.Context, id string) error {
	_, err := p.peer.Call(ctx, "provider-error", p.name, id)
	return err
}

// Close closes it.
func (p *ServiceProvider) Close(ctx context.Context) error {
	_, err := p.peer.Call(ctx, "provider-close", p.name)
	return err
}
