// Package fencehttp sends fencing tokens with HTTP requests, and refuses requests with old ones.
//
//	// the caller, which has the lock
//	client := &http.Client{Transport: fencehttp.NewTransport(nil, nil)}
//	err := orders.Do(ctx, func(ctx context.Context) error {
//		request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://stock/orders/17", body)
//		…
//		response, err := client.Do(request)
//		…
//		return fencehttp.Outdated(response)
//	})
//
//	// the service
//	gate := fence.NewGate(fence.NewMemory(100_000))
//	mux.Handle("PUT /orders/{id}", fencehttp.NewHandler(gate, func(r *http.Request) (string, bool) {
//		return r.PathValue("id"), true
//	}, put))
//
// It is a separate module, as the other fences are.
package fencehttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-curator/curator/contrib/fence"
)

// The headers. Token is in a request; the others are in a response that refuses one.
const (
	Token    = "Fencing-Token"          // a decimal number
	Newest   = "Fencing-Token-Newest"   // the largest token that the gate has
	Resource = "Fencing-Token-Resource" // as a string literal of Go, in ASCII
)

// NewTransport returns a transport that adds the header [Token] to each request that has none, and sends it through
// base; nil is http.DefaultTransport. token returns the token from the request's context; nil is fence.From. If token
// returns an error, RoundTrip sends nothing and returns that error: so do not use the transport for requests that need
// no lock. Safe for concurrent use if base and token are. It starts no goroutine.
func NewTransport(base http.RoundTripper, token func(context.Context) (int64, error)) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	if token == nil {
		token = fence.From
	}
	return &transport{base, token}
}

type transport struct {
	base  http.RoundTripper
	token func(context.Context) (int64, error)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Header.Get(Token) != "" {
		return t.base.RoundTrip(request)
	}
	token, err := t.token(request.Context())
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	request = request.Clone(request.Context())
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set(Token, strconv.FormatInt(token, 10))
	return t.base.RoundTrip(request)
}

// Outdated returns a *fence.OutdatedError if a [NewHandler] has refused the request because its token was outdated,
// nil otherwise.
func Outdated(response *http.Response) error {
	newest, err := strconv.ParseInt(response.Header.Get(Newest), 10, 64)
	if err != nil || response.StatusCode != http.StatusPreconditionFailed {
		return nil
	}
	e := &fence.OutdatedError{Newest: newest}
	e.Resource, _ = strconv.Unquote(response.Header.Get(Resource))
	if response.Request != nil {
		e.Token, _ = strconv.ParseInt(response.Request.Header.Get(Token), 10, 64)
	}
	return fmt.Errorf("fence: %w", e)
}

// NewHandler returns a handler that lets requests through the gate to next. resource returns the name of a request's
// resource, or guarded false if the request needs no token: then it goes to next unchanged. While next handles a
// request, requests with a newer token for the same resource wait, and the context of the first request ends, with a
// cause that matches fence.ErrOutdated: next should then return soon. Work that continues after the return of next is
// not guarded.
//
// The gate has effect in this process only, and a fence.Memory is empty when the process starts (see [fence.Memory]).
// Where several processes serve the same resource, next has to guard its writes itself, for example with
// contrib/fence/sql.
//
// A refused request gets, as plain text,
//
//   - 428 Precondition Required without a token, 400 Bad Request with an invalid one, with several, or with a
//     resource that fence.Check refuses;
//   - 412 Precondition Failed if the token is outdated, with the headers [Newest] and [Resource], or may be
//     outdated (fence.ErrForgotten), without them;
//   - 503 Service Unavailable if the gate's store fails, or the request's context ends while it waits.
//
// A token is only a claim: a caller that may send tokens can block all others with a large one. Authenticate the caller
// first.
func NewHandler(
	gate *fence.Gate, resource func(*http.Request) (name string, guarded bool), next http.Handler,
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, guarded := resource(r)
		if !guarded {
			next.ServeHTTP(w, r)
			return
		}
		tokens := r.Header.Values(Token)
		if len(tokens) == 0 {
			http.Error(w, "the request has no "+Token, http.StatusPreconditionRequired)
			return
		}
		token, err := strconv.ParseInt(tokens[0], 10, 64)
		if err != nil || len(tokens) > 1 {
			http.Error(w, Token+" is not one number", http.StatusBadRequest)
			return
		}
		ctx, leave, err := gate.Enter(r.Context(), name, token)
		if err != nil {
			writeRefusal(w, err)
			return
		}
		defer leave()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func writeRefusal(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	var outdated *fence.OutdatedError
	switch {
	case errors.As(err, &outdated):
		w.Header().Set(Newest, strconv.FormatInt(outdated.Newest, 10))
		w.Header().Set(Resource, strconv.QuoteToASCII(outdated.Resource))
		status = http.StatusPreconditionFailed
	case errors.Is(err, fence.ErrForgotten):
		status = http.StatusPreconditionFailed
	case errors.Is(err, fence.ErrBadArguments):
		status = http.StatusBadRequest
	}
	http.Error(w, err.Error(), status)
}
