package discovery

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
	"github.com/go-curator/curator/internal/zkpath"
	"github.com/go-curator/curator/recipes/internal/line"
	"github.com/go-curator/curator/recipes/node"
)

// Option configures [New]. If one is given several times the last counts.
type Option func(*config) error

type config struct{ class string }

// WithPayloadClass sets the Java class of the payload for Java readers, such as "com.example.Info". Readers here do
// not need it. It is ignored for a json.RawMessage, and for an object that has an "@class" itself.
func WithPayloadClass(class string) Option {
	return func(c *config) error {
		if class == "" {
			return fmt.Errorf("%w WithPayloadClass: a class has a name", framework.ErrInvalidOption)
		}
		c.class = class
		return nil
	}
}

// Discovery gives access to the services below one path. It starts nothing and need not be closed. Safe for
// concurrent use.
//
// Corresponds to Curator's ServiceDiscovery.
type Discovery[T any] struct {
	client   *framework.Client
	basePath string
	config
}

// New returns a Discovery of the services below base, whose instances have payloads of type T: see the package's
// documentation.
//
// Errors: framework.ErrNoClient, framework.ErrInvalidPath (also for "/", except in a namespace),
// framework.ErrInvalidOption.
func New[T any](client *framework.Client, base string, opts ...Option) (*Discovery[T], error) {
	d := &Discovery[T]{client: client, basePath: base}
	if err := line.Configure(client, base, &d.config, opts); err != nil {
		return nil, wrapError(base, "new", err)
	}
	return d, nil
}

func wrapError(path, verb string, err error) error {
	return line.WrapError("discovery", path, verb, err)
}

// checkReady returns an error if no method can be called.
func (d *Discovery[T]) checkReady(ctx context.Context) error {
	return line.CheckCall(ctx, d.client, nil)
}

// childPath returns the path of a child whose name the caller has given.
func childPath(parent, name string) (string, error) {
	if name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("%w: %q cannot be the name of a node", framework.ErrInvalidPath, name)
	}
	return zkpath.Join(parent, name), nil
}

// Register creates a node for the instance and waits until it is there, with these data. The registration maintains
// it, through lost connections and lost sessions, until [Registration.Unregister] or the client's end, with which
// dynamic instances go.
//
// Register waits through lost connections and lost sessions until ctx ends, which limits only the call. If another
// session has registered a dynamic instance of the same ID, such as a former process that was killed, Register replaces
// its node, in one transaction. Of two live processes the last to register has the node, and the other waits; neither
// replaces the other's node again. A static or permanent instance takes over the node of an existing static or
// permanent one, and sets its data; without permission to write, the node stays as it is. It waits while a dynamic
// instance of the same ID exists.
//
// When Register fails, it leaves no node that it made, or the client retries the deletion in the background. Errors:
// [ErrInvalidInstance]; framework.ErrNodeExists if the instance is dynamic, and a static or permanent one of the same
// ID exists; framework.ErrNoAuth and other refusals; ctx's; framework.ErrClosed, framework.ErrNoClient. Register an ID
// once: two registrations of it through one client share the node.
func (d *Discovery[T]) Register(ctx context.Context, instance Instance[T]) (*Registration[T], error) {
	r, err := d.registerInstance(ctx, instance)
	if err != nil {
		return nil, wrapError(d.pathForErrors(instance.Name), "register", err)
	}
	return r, nil
}

// pathForErrors returns the path for the text of errors.
func (d *Discovery[T]) pathForErrors(service string) string {
	return d.basePath + "/" + plain.Text(service)
}

func (d *Discovery[T]) registerInstance(ctx context.Context, instance Instance[T]) (*Registration[T], error) {
	if err := d.checkReady(ctx); err != nil {
		return nil, err
	}
	instance = instance.withDefaults()
	data, err := encodeInstance(instance, d.class)
	if err != nil {
		return nil, err
	}
	var opts []node.Option
	switch instance.Type {
	case Dynamic:
		opts = []node.Option{node.WithTakeover(node.AtStart)}
	case Static, Permanent:
		opts = []node.Option{node.WithMode(framework.Persistent)}
	case DynamicSequential:
		opts = []node.Option{node.WithMode(framework.EphemeralSequential)}
	}
	keeper, err := node.NewKeeper(d.client, zkpath.Join(d.basePath, instance.Name, instance.ID), data, opts...)
	if err != nil {
		return nil, err
	}
	var none T
	instance.Payload = none
	r := &Registration[T]{d, keeper, instance}
	if err := keeper.WaitCreated(ctx); err != nil {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_ = keeper.Close(ended) // the client deletes the node in the background
		return nil, err
	}
	return r, nil
}

// Names returns the names of the services, sorted. A service whose last instance has gone is named until the
// servers have removed its node, about a minute later. The retry policy limits the attempts.
//
// Errors: framework.ErrNoAuth if the client may not list the base path; ctx's; framework.ErrClosed,
// framework.ErrNoClient; and the errors that every operation can return.
//
// Corresponds to queryForNames, which however fails if the base path has no node.
func (d *Discovery[T]) Names(ctx context.Context) ([]string, error) {
	if err := d.checkReady(ctx); err != nil {
		return nil, wrapError(d.pathForErrors(""), "names", err)
	}
	names, err := d.client.GetChildren().ForPath(ctx, d.basePath)
	if err = line.IgnoreError(err, framework.ErrNoNode); err != nil {
		return nil, wrapError(d.basePath, "names", err)
	}
	slices.Sort(names)
	return names, nil
}

// Instances reads the instances of a service, sorted by the names of their nodes; an empty result is not an error. It
// sends a request for the list, and then one for each instance, all in flight together. Use a [Cache] for repeated
// reads. Nodes that are not instances are left out and logged. The retry policy limits the attempts.
//
// Errors: framework.ErrInvalidPath if service cannot be the name of a node; framework.ErrNoAuth if the client may not
// list the instances, or may not read one of them; the other errors of Names.
//
// Corresponds to queryForInstances.
func (d *Discovery[T]) Instances(ctx context.Context, service string) ([]Instance[T], error) {
	all, err := d.readInstances(ctx, service)
	return all, wrapError(d.pathForErrors(service), "instances", err)
}

func (d *Discovery[T]) readInstances(ctx context.Context, service string) ([]Instance[T], error) {
	if err := d.checkReady(ctx); err != nil {
		return nil, err
	}
	path, err := childPath(d.basePath, service)
	if err != nil {
		return nil, err
	}
	names, err := d.client.GetChildren().ForPath(ctx, path)
	if err = line.IgnoreError(err, framework.ErrNoNode); err != nil {
		return nil, err
	}
	slices.Sort(names)
	reads := make([]*framework.Pending[framework.DataResult], len(names))
	err = d.client.Retry(ctx, func(ctx context.Context) (err error) {
		for i, name := range names {
			reads[i] = d.client.GetData().Undecompressed().InBackground().ForPath(ctx, zkpath.Join(path, name))
		}
		for _, read := range reads {
			_, failed := line.AwaitResult(read)
			if failed = line.IgnoreError(failed, framework.ErrNoNode); failed != nil { // with ErrNoNode the instance is gone by now
				err = failed
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []Instance[T]
	for i, read := range reads {
		result, gone := line.AwaitResult(read)
		if gone != nil {
			continue
		}
		at := zkpath.Join(path, names[i])
		instance, corrupt := d.decodeNode(at, result.Data, result.Stat.EphemeralOwner)
		if corrupt != nil {
			d.logCorrupt(at, corrupt)
			continue
		}
		all = append(all, instance)
	}
	return all, nil
}

// Instance reads one instance. The id of a [DynamicSequential] instance is the name of its node.
//
// Errors: framework.ErrNoNode if it is missing; [ErrCorrupt] if the node is not an instance, or
// framework.ErrDataTooLarge above framework.ContenderDataLimit; framework.ErrInvalidPath if service or id cannot be the
// name of a node; framework.ErrNoAuth if the client may not read the node; the other errors of Names.
//
// Corresponds to queryForInstance, which returns null if it is missing.
func (d *Discovery[T]) Instance(ctx context.Context, service, id string) (Instance[T], error) {
	i, err := d.readInstance(ctx, service, id)
	return i, wrapError(d.pathForErrors(service), "instance", err)
}

func (d *Discovery[T]) readInstance(ctx context.Context, service, id string) (i Instance[T], err error) {
	if err := d.checkReady(ctx); err != nil {
		return i, err
	}
	path, err := childPath(d.basePath, service)
	if err == nil {
		path, err = childPath(path, id)
	}
	if err != nil {
		return i, err
	}
	var stat framework.Stat
	data, err := d.client.GetData().Undecompressed().StoringStatIn(&stat).ForPath(ctx, path)
	if err != nil {
		return i, err
	}
	return d.decodeNode(path, data, stat.EphemeralOwner)
}

func (d *Discovery[T]) decodeNode(path string, data []byte, owner int64) (i Instance[T], err error) {
	if data, err = d.client.Unpacked(path, data); err != nil {
		return i, err
	}
	return decodeInstance[T](data, owner)
}

// logCorrupt logs a node that is left out.
func (d *Discovery[T]) logCorrupt(path string, err error) {
	d.client.Logger().Warn("cannot read a service instance; ignoring it", "path", plain.Text(path), "err", err)
}
