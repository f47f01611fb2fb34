// Package curatorhttp sends HTTP requests to the instances of a service that package discovery knows.
//
//	web, err := services.Cache("web")
//	provider, err := discovery.NewProvider(web)
//	client := &http.Client{Transport: curatorhttp.NewTransport(provider, nil)}
//	response, err := client.Get("http://web/status")
//
// It is a separate module, so that users of the library do not get net/http.
package curatorhttp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-curator/curator/recipes/discovery"
)

// NewTransport returns a transport that sends each request to an instance that the provider chooses, through base;
// nil is http.DefaultTransport. The host of the request's URL is not resolved: it stays in the header Host. The
// scheme selects the port: SSLPort for https, if there is one, else Port; without a port it is the scheme's. With
// https the certificate is checked against the address of the instance. An instance without an address is not used,
// and is reported to the provider. A redirect of http.Client to another host, whatever the port, is followed there,
// through base.
//
// If base returns an error, and the request's context has not ended, the error is reported to the provider
// (discovery.Provider.NoteError). If no connection could be made, nothing was sent: then the request goes to the next
// instance, unless it has a body that cannot be read again, once for each instance at most. All other errors are
// returned: the request may have been executed. Without an instance the error matches discovery.ErrNoInstance.
//
// The transport is safe for concurrent use if base is. It starts nothing.
func NewTransport[T any](provider *discovery.Provider[T], base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport[T]{provider, base}
}

type transport[T any] struct {
	provider *discovery.Provider[T]
	base     http.RoundTripper
}

func (t *transport[T]) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL == nil || elsewhere(request) {
		return sent(t.base, request)
	}
	hasBody := request.Body != nil && request.Body != http.NoBody
	for left := len(addressed(t.provider)); ; left-- {
		instance, err := t.choose()
		if err != nil {
			if hasBody {
				_ = request.Body.Close()
			}
			return nil, err
		}
		response, err := sent(t.base, to(request, instance))
		if err == nil {
			return response, nil
		}
		if request.Context().Err() != nil {
			return nil, err
		}
		t.provider.NoteError(instance)
		if left <= 1 || !unsent(err) || hasBody && request.GetBody == nil {
			return nil, err
		}
		if hasBody {
			request = request.Clone(request.Context())
			if request.Body, err = request.GetBody(); err != nil {
				return nil, fmt.Errorf("the body for the next instance: %w", err)
			}
		}
	}
}

// sent sends the request. Its response names it, as elsewhere needs.
func sent(base http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := base.RoundTrip(request)
	if err == nil && response.Request == nil {
		response.Request = request
	}
	return response, err
}

// serviceKey is for the name of the service in the context of a request to an instance, whose URL names that.
type serviceKey struct{}

// elsewhere reports whether the request follows a redirect from the service to another host.
func elsewhere(request *http.Request) bool {
	first := request
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	service, redirected := first.Context().Value(serviceKey{}).(string)
	return redirected && first != request && !strings.EqualFold(service, request.URL.Hostname())
}

// choose returns the provider's choice or, if that has no address, any other instance.
func (t *transport[T]) choose() (discovery.Instance[T], error) {
	instance, err := t.provider.Instance()
	if err != nil || host(instance) != "" {
		return instance, err
	}
	t.provider.NoteError(instance)
	all := addressed(t.provider)
	if len(all) == 0 {
		return instance, fmt.Errorf("%w: none has an address", discovery.ErrNoInstance)
	}
	return all[rand.IntN(len(all))], nil
}

// addressed returns the instances that a request can be sent to.
func addressed[T any](provider *discovery.Provider[T]) []discovery.Instance[T] {
	return slices.DeleteFunc(provider.Instances(), func(i discovery.Instance[T]) bool { return host(i) == "" })
}

// host returns the address, which may be an IPv6 address in brackets, without those.
func host[T any](i discovery.Instance[T]) string { return strings.Trim(i.Address, "[]") }

// to is the request for an instance.
func to[T any](request *http.Request, i discovery.Instance[T]) *http.Request {
	out := request.Clone(context.WithValue(request.Context(), serviceKey{}, request.URL.Hostname()))
	if out.Host == "" {
		out.Host = request.URL.Host
	}
	port := i.Port
	if out.URL.Scheme == "https" && i.SSLPort != 0 {
		port = i.SSLPort
	}
	switch at := host(i); {
	case port != 0:
		out.URL.Host = net.JoinHostPort(at, strconv.Itoa(port))
	case strings.Contains(at, ":"):
		out.URL.Host = "[" + at + "]"
	default:
		out.URL.Host = at
	}
	return out
}

// unsent reports whether there was not even a connection.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
