// Package curatorhttp sends HTTP requests to the instances of a service that package discovery knows.
//
//	web, err := services.Cache("web")
//	provider, err := discovery.NewProvider(web)
//	client := &http.Client{Transport: curatorhttp.NewTransport(provider, nil)}
//	response, err := client.Get("http://web/status")
//
// It is a module of its own, so that the library does not bring net/http to those who do not use it.
package curatorhttp

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/go-curator/curator/recipes/discovery"
)

// NewTransport returns a transport that sends each request to an instance that the provider chooses, through
// base; nil is http.DefaultTransport. The host of the request's URL is not resolved: it stays in the header
// Host. The scheme says which port is taken: SSLPort for https, if there is one, else Port; without a port it
// is the scheme's. With https the certificate is checked against the address of the instance.
//
// If base returns an error, and the request's context has not ended, the provider is told of it
// (discovery.Provider.NoteError). If no connection could be made, nothing was sent: then the request goes to
// the next instance, unless it has a body that cannot be read again, once for each instance at most. All
// other errors are returned: the request may have been executed. Without an instance the error matches
// discovery.ErrNoInstance.
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
	hasBody := request.Body != nil && request.Body != http.NoBody
	for left := len(t.provider.Instances()); ; left-- {
		instance, err := t.provider.Instance()
		if err != nil {
			if hasBody {
				_ = request.Body.Close()
			}
			return nil, err
		}
		response, err := t.base.RoundTrip(to(request, instance))
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

// to is the request for an instance.
func to[T any](request *http.Request, i discovery.Instance[T]) *http.Request {
	out := request.Clone(request.Context())
	if out.Host == "" {
		out.Host = request.URL.Host
	}
	port := i.Port
	if out.URL.Scheme == "https" && i.SSLPort != 0 {
		port = i.SSLPort
	}
	switch {
	case port != 0:
		out.URL.Host = net.JoinHostPort(i.Address, strconv.Itoa(port))
	case net.ParseIP(i.Address) != nil && net.ParseIP(i.Address).To4() == nil:
		out.URL.Host = "[" + i.Address + "]"
	default:
		out.URL.Host = i.Address
	}
	return out
}

// unsent says whether there was not even a connection.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
