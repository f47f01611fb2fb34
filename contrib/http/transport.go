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

// NewTransport returns a transport that sends each request, through base, to an instance that the provider chooses. A
// nil base is http.DefaultTransport. The host of the request's URL is not resolved: it stays in the header Host. The
// port is SSLPort for https, if there is one, else Port; if there is no port it is the scheme's. With https the
// certificate is checked against the address of the instance. An instance without an address is not used, and is
// reported to the provider. When http.Client follows a redirect to another host (not only another port), the request is
// sent there, through base.
//
// If base returns an error, and the request's context has not ended, the error is reported to the provider
// (discovery.Provider.NoteError). If no connection could be made, the request was not sent, and is tried with the next
// instance, unless it has a body that cannot be read again. There are as many tries as instances at most. All other
// errors are returned, since the request may have been executed. If there is no instance the error matches
// discovery.ErrNoInstance.
//
// The transport is safe for concurrent use if base is. It starts no goroutine.
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
	if request.URL == nil || isRedirected(request) {
		return send(t.base, request)
	}
	hasBody := request.Body != nil && request.Body != http.NoBody
	for triesLeft := len(usableInstances(t.provider)); ; triesLeft-- {
		instance, err := t.chooseInstance()
		if err != nil {
			if hasBody {
				_ = request.Body.Close()
			}
			return nil, err
		}
		response, err := send(t.base, requestTo(request, instance))
		if err == nil {
			return response, nil
		}
		if request.Context().Err() != nil {
			return nil, err
		}
		t.provider.NoteError(instance)
		if triesLeft <= 1 || !isUnsent(err) || hasBody && request.GetBody == nil {
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

// send sends the request. The response refers to the request, as isRedirected needs.
func send(base http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := base.RoundTrip(request)
	if err == nil && response.Request == nil {
		response.Request = request
	}
	return response, err
}

// serviceKey is the key of the service's name in the context of a request to an instance. The URL of such a request has
// the instance instead.
type serviceKey struct{}

// isRedirected reports whether the request follows a redirect from the service to another host.
func isRedirected(request *http.Request) bool {
	first := request
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	service, redirected := first.Context().Value(serviceKey{}).(string)
	return redirected && first != request && !strings.EqualFold(service, request.URL.Hostname())
}

// chooseInstance returns the provider's choice or, if that has no address, any other instance.
func (t *transport[T]) chooseInstance() (discovery.Instance[T], error) {
	instance, err := t.provider.Instance()
	if err != nil || hostOf(instance) != "" {
		return instance, err
	}
	t.provider.NoteError(instance)
	all := usableInstances(t.provider)
	if len(all) == 0 {
		return instance, fmt.Errorf("%w: none has an address", discovery.ErrNoInstance)
	}
	return all[rand.IntN(len(all))], nil
}

// usableInstances returns the instances that have an address.
func usableInstances[T any](provider *discovery.Provider[T]) []discovery.Instance[T] {
	return slices.DeleteFunc(provider.Instances(), func(i discovery.Instance[T]) bool { return hostOf(i) == "" })
}

// hostOf returns the instance's address without the brackets that an IPv6 address may have.
func hostOf[T any](i discovery.Instance[T]) string { return strings.Trim(i.Address, "[]") }

// requestTo returns a copy of the request for an instance.
func requestTo[T any](request *http.Request, i discovery.Instance[T]) *http.Request {
	out := request.Clone(context.WithValue(request.Context(), serviceKey{}, request.URL.Hostname()))
	if out.Host == "" {
		out.Host = request.URL.Host
	}
	port := i.Port
	if out.URL.Scheme == "https" && i.SSLPort != 0 {
		port = i.SSLPort
	}
	switch host := hostOf(i); {
	case port != 0:
		out.URL.Host = net.JoinHostPort(host, strconv.Itoa(port))
	case strings.Contains(host, ":"):
		out.URL.Host = "[" + host + "]"
	default:
		out.URL.Host = host
	}
	return out
}

// isUnsent reports whether an error means that no connection could be made.
func isUnsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
