// Package curatorgrpc lets gRPC clients find the instances of a service by package discovery.
//
//	connection, err := grpc.NewClient("curator:///web", grpc.WithResolvers(curatorgrpc.NewBuilder(services)),
//		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`), …)
//
// It is a separate module, so that users of the library do not get gRPC.
package curatorgrpc

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/resolver"

	"github.com/go-curator/curator/recipes/discovery"
)

// Scheme is the scheme of targets: curator:///SERVICE.
const Scheme = "curator"

// NewBuilder returns a builder of resolvers for grpc.WithResolvers. Each gRPC connection has a cache of its service's
// instances (discovery.Cache), and updates its balancer immediately after each change, without polling. The balancer
// chooses the instance of a call, and avoids instances that do not respond. While there is no connection to ZooKeeper
// it continues with the last instances.
//
// Instances that are disabled, or have no address or no port, are left out. The port is Port, or SSLPort if Port is 0.
// If the service cannot be listed, or the client of services is closed, calls for which there is no instance fail with
// that error.
func NewBuilder[T any](services *discovery.Discovery[T]) resolver.Builder {
	return builder[T]{services}
}

type builder[T any] struct{ services *discovery.Discovery[T] }

// Scheme implements resolver.Builder.
func (builder[T]) Scheme() string { return Scheme }

// Build implements resolver.Builder.
func (b builder[T]) Build(
	target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions,
) (resolver.Resolver, error) {
	if target.URL.Host != "" {
		return nil, fmt.Errorf("the target %q names a server: write %s:///%s", target.URL.String(), Scheme,
			target.Endpoint())
	}
	cache, err := b.services.Cache(target.Endpoint())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &serviceResolver[T]{cache: cache, cancel: cancel}
	r.done.Go(func() { r.run(ctx, cc) })
	return r, nil
}

// serviceResolver is the resolver of one gRPC connection.
type serviceResolver[T any] struct {
	cache  *discovery.Cache[T]
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// ResolveNow implements resolver.Resolver. It does nothing: the cache reports each change without a request.
func (*serviceResolver[T]) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements resolver.Resolver.
func (r *serviceResolver[T]) Close() {
	r.cancel()
	r.done.Wait()
	_ = r.cache.Close()
}

// run passes each change of the instances to the connection, until ctx ends.
func (r *serviceResolver[T]) run(ctx context.Context, cc resolver.ClientConn) {
	if err := r.cache.WaitSynced(ctx); err != nil && ctx.Err() == nil {
		cc.ReportError(err)
	}
	for instances, err := range r.cache.Follow(ctx) {
		switch {
		case err == nil:
			// UpdateState fails if the balancer refuses the addresses, and there are no others to give it.
			_ = cc.UpdateState(resolver.State{Addresses: addressesOf(instances)})
		case ctx.Err() == nil:
			cc.ReportError(err)
		}
	}
}

// addressesOf returns the addresses of the instances, each once.
func addressesOf[T any](instances []discovery.Instance[T]) (all []resolver.Address) {
	known := map[string]bool{}
	for _, i := range instances {
		port := i.Port
		if port == 0 {
			port = i.SSLPort
		}
		host := strings.Trim(i.Address, "[]") // an IPv6 address may be in brackets
		at := net.JoinHostPort(host, strconv.Itoa(port))
		if i.Disabled || host == "" || port == 0 || known[at] {
			continue
		}
		known[at] = true
		all = append(all, resolver.Address{Addr: at})
	}
	return all
}
