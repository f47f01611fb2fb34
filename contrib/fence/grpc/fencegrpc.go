// Package fencegrpc sends fencing tokens with gRPC calls, and refuses calls with old ones.
//
//	// the caller, which has the lock
//	connection, err := grpc.NewClient(target, grpc.WithUnaryInterceptor(fencegrpc.UnaryClient(nil)), …)
//
//	// the service
//	gate := fence.NewGate(fence.NewMemory(100_000))
//	server := grpc.NewServer(grpc.UnaryInterceptor(fencegrpc.UnaryServer(gate,
//		func(ctx context.Context, method string, request any) (string, bool) {
//			put, ok := request.(*stock.PutRequest)
//			return put.GetItem(), ok
//		})))
//
// It is a separate module, so that others do not get gRPC.
package fencegrpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/go-curator/curator/contrib/fence"
)

// The keys of metadata. Token is in a call; the others are in the trailer of a refused call.
const (
	Token    = "fencing-token"              // a decimal number
	Newest   = "fencing-token-newest"       // the largest token that the gate has
	Resource = "fencing-token-resource-bin" // the token's resource
)

// Resources returns the name of a call's resource, or guarded false if the call needs no token: then it passes
// unchanged. request is nil for a stream.
type Resources func(ctx context.Context, method string, request any) (name string, guarded bool)

// UnaryServer returns an interceptor that lets calls through the gate. While the handler of a call runs, calls with a
// newer token for the same resource wait, and the context of the first call ends, with a cause that matches
// fence.ErrOutdated: the handler should then return soon. Work that continues after its return is not guarded.
//
// The gate has effect in this process only, and a fence.Memory is empty when the process starts (see [fence.Memory]).
// Where several processes serve the same resource, the handler has to guard its writes itself, for example with
// contrib/fence/sql.
//
// Codes of calls that are refused: InvalidArgument without a token, with an invalid one, with several, or with a
// resource that fence.Check refuses; FailedPrecondition if the token is outdated, with [Newest] and [Resource] in the
// trailer, or may be outdated (fence.ErrForgotten), without them; Unavailable if the gate's store fails; Canceled or
// DeadlineExceeded if the call's context ends while it waits.
//
// A token is only a claim: a caller that may send tokens can block all others with a large one. Authenticate the caller
// first.
func UnaryServer(gate *fence.Gate, resources Resources) grpc.UnaryServerInterceptor {
	return func(
		ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
	) (any, error) {
		work, leave, err := enterGate(ctx, gate, resources, info.FullMethod, request, func(md metadata.MD) {
			_ = grpc.SetTrailer(ctx, md) // it fails only outside of a call
		})
		if err != nil {
			return nil, err
		}
		defer leave()
		return next(work, request)
	}
}

// StreamServer is [UnaryServer] for streams: the work lasts as long as the stream's handler runs.
func StreamServer(gate *fence.Gate, resources Resources) grpc.StreamServerInterceptor {
	return func(
		service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
	) error {
		work, leave, err := enterGate(stream.Context(), gate, resources, info.FullMethod, nil, stream.SetTrailer)
		if err != nil {
			return err
		}
		defer leave()
		return next(service, &guardedStream{stream, work})
	}
}

// guardedStream is a stream with the context of the gate.
type guardedStream struct {
	grpc.ServerStream
	work context.Context
}

// Context implements grpc.ServerStream.
func (s *guardedStream) Context() context.Context { return s.work }

// enterGate enters the gate with the token of a call, or returns the status that refuses the call.
func enterGate(
	ctx context.Context, gate *fence.Gate, resources Resources, method string, request any,
	trailer func(metadata.MD),
) (context.Context, func(), error) {
	name, guarded := resources(ctx, method, request)
	if !guarded {
		return ctx, func() {}, nil
	}
	tokens := metadata.ValueFromIncomingContext(ctx, Token)
	if len(tokens) != 1 {
		return nil, nil, status.Errorf(codes.InvalidArgument, "the call has %d values of %s, one is needed",
			len(tokens), Token)
	}
	token, err := strconv.ParseInt(tokens[0], 10, 64)
	if err != nil {
		return nil, nil, status.Errorf(codes.InvalidArgument, "%s is not a number", Token)
	}
	work, leave, err := gate.Enter(ctx, name, token)
	if err != nil {
		return nil, nil, refusalStatus(ctx, err, trailer)
	}
	return work, leave, nil
}

func refusalStatus(ctx context.Context, err error, trailer func(metadata.MD)) error {
	code := codes.Unavailable
	var outdated *fence.OutdatedError
	switch {
	case errors.As(err, &outdated):
		trailer(metadata.Pairs(Newest, strconv.FormatInt(outdated.Newest, 10), Resource, outdated.Resource))
		code = codes.FailedPrecondition
	case errors.Is(err, fence.ErrForgotten):
		code = codes.FailedPrecondition
	case errors.Is(err, fence.ErrBadArguments):
		code = codes.InvalidArgument
	case ctx.Err() != nil:
		code = status.FromContextError(ctx.Err()).Code()
	}
	return status.Error(code, err.Error())
}

// Tokens returns the token of a call, from its context.
type Tokens func(ctx context.Context) (int64, error)

// UnaryClient returns an interceptor that adds the token of the call's context to calls that have none; nil is
// fence.From. If tokens returns an error, nothing is sent and the call returns that error: so do not use the connection
// for calls that need no lock.
//
// If a [UnaryServer] has refused a call because its token was outdated, the call's error matches fence.ErrOutdated,
// with errors.As *fence.OutdatedError, and has the status of the call.
func UnaryClient(tokens Tokens) grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, request, reply any, connection *grpc.ClientConn,
		call grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		ctx, token, err := addToken(ctx, tokens)
		if err != nil {
			return err
		}
		var trailer metadata.MD
		opts = append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))
		err = call(ctx, method, request, reply, connection, opts...)
		return toOutdated(err, token, trailer)
	}
}

// StreamClient is [UnaryClient] for streams: RecvMsg returns the error.
func StreamClient(tokens Tokens) grpc.StreamClientInterceptor {
	return func(
		ctx context.Context, desc *grpc.StreamDesc, connection *grpc.ClientConn, method string,
		open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		ctx, token, err := addToken(ctx, tokens)
		if err != nil {
			return nil, err
		}
		stream, err := open(ctx, desc, connection, method, opts...)
		if err != nil {
			return nil, err
		}
		return &fencedStream{stream, token}, nil
	}
}

// fencedStream is a client's stream with the token that was sent.
type fencedStream struct {
	grpc.ClientStream
	token int64
}

// RecvMsg implements grpc.ClientStream.
func (s *fencedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		return nil
	}
	return toOutdated(err, s.token, s.Trailer())
}

// addToken adds the token to the outgoing metadata, unless they have one.
func addToken(ctx context.Context, tokens Tokens) (context.Context, int64, error) {
	if md, _ := metadata.FromOutgoingContext(ctx); len(md.Get(Token)) > 0 {
		token, _ := strconv.ParseInt(md.Get(Token)[0], 10, 64) // the server refuses an invalid one
		return ctx, token, nil
	}
	if tokens == nil {
		tokens = fence.From
	}
	token, err := tokens(ctx)
	if err != nil {
		return nil, 0, err
	}
	return metadata.AppendToOutgoingContext(ctx, Token, strconv.FormatInt(token, 10)), token, nil
}

// toOutdated returns an error that also matches fence.ErrOutdated, if err is a refusal of an outdated token, otherwise
// err.
func toOutdated(err error, token int64, trailer metadata.MD) error {
	values := trailer.Get(Newest)
	if err == nil || status.Code(err) != codes.FailedPrecondition || len(values) != 1 {
		return err
	}
	newest, parsed := strconv.ParseInt(values[0], 10, 64)
	if parsed != nil {
		return err
	}
	e := &fence.OutdatedError{Token: token, Newest: newest}
	if names := trailer.Get(Resource); len(names) == 1 {
		e.Resource = names[0]
	}
	return &refusedError{e, err}
}

// refusedError is the error of a call that was refused because its token was outdated.
type refusedError struct {
	outdated *fence.OutdatedError
	call     error
}

// Error implements error.
func (e *refusedError) Error() string { return fmt.Sprintf("fence: %v", e.outdated) }

// Unwrap is for errors.Is and errors.As.
func (e *refusedError) Unwrap() []error { return []error{e.outdated, e.call} }

// GRPCStatus is for status.FromError.
func (e *refusedError) GRPCStatus() *status.Status { return status.Convert(e.call) }
