// Package kit is shared by the tests of the library against real servers: clients that end with the test, and bounded
// waits.
package kit

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/jute"
)

// Patience bounds a test's wait for an event. It is never waited out unless something is wrong.
const Patience = 60 * time.Second

// Context ends with the test, and after Patience.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Figure logs something measured. The report of ../../run shows it.
func Figure(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf("figure: "+format, args...)
}

// Dial makes a client with a session timeout of 4 s that logs to the test and ends with it.
func Dial(t testing.TB, connect string, opts ...framework.Option) *framework.Client {
	t.Helper()
	log := slog.New(slog.NewTextHandler(output(t), &slog.HandlerOptions{Level: slog.LevelDebug}))
	client, err := framework.New(connect,
		append([]framework.Option{framework.WithSessionTimeout(4 * time.Second), framework.WithLogger(log)},
			opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Connected is Dial that waits for the session.
func Connected(
	t testing.TB, connect string, opts ...framework.Option,
) (*framework.Client, *framework.Session) {
	t.Helper()
	client := Dial(t, connect, opts...)
	session, err := client.Session(Context(t))
	require.NoError(t, err)
	return client, session
}

// Receive takes the next value of a channel that is not to be closed.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v, open := <-from:
		require.True(t, open, "closed instead of %s", what)
		return v
	case <-time.After(Patience):
		require.FailNow(t, "nothing came", "instead of %s", what)
		panic("not reached")
	}
}

// Closed waits for the end of a channel and returns when it was seen.
func Closed[T any](t testing.TB, what string, done <-chan T) time.Time {
	t.Helper()
	select {
	case _, open := <-done:
		require.False(t, open, "a value instead of %s", what)
	case <-time.After(Patience):
		require.FailNow(t, "it does not end", what)
	}
	return time.Now()
}

// Call runs f in a separate goroutine and returns a channel for its value. If f fails, the channel is closed instead,
// and the test fails unless ctx has ended before. f must return when its ctx ends, at the latest at the end of the
// test, which waits for it.
func Call[T any](t testing.TB, ctx context.Context, f func(ctx context.Context) (T, error)) <-chan T {
	ctx, cancel := context.WithCancel(ctx)
	got, done := make(chan T, 1), make(chan struct{})
	go func() {
		defer close(done)
		v, err := f(ctx)
		if err == nil {
			got <- v
			return
		}
		if ctx.Err() == nil {
			assert.NoError(t, err)
		}
		close(got)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return got
}

// EndOf returns a channel for the time when done was seen to be closed.
func EndOf(t testing.TB, done <-chan struct{}) <-chan time.Time {
	return Call(t, t.Context(), func(ctx context.Context) (time.Time, error) {
		select {
		case <-done:
			return time.Now(), nil
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	})
}

// Soon waits until a condition holds.
func Soon(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(2 * time.Millisecond) {
		require.False(t, time.Now().After(end), "still not: %s", what)
	}
}

// Change is a state of a client and the time of its report.
type Change struct {
	framework.StateChange
	At time.Time
}

// States records every state of a client.
type States struct {
	t  testing.TB
	ch chan Change
}

// Watch begins with the current state. It ends with the client.
func Watch(t testing.TB, client *framework.Client) *States {
	s := &States{t, make(chan Change, 10_000)}
	changes := client.StateChanges(context.Background())
	go func() {
		defer close(s.ch)
		for change := range changes {
			s.ch <- Change{change, time.Now()}
		}
	}()
	return s
}

// Next returns the time of the next state's report. The test fails if it is another state than the given one.
func (s *States) Next(want framework.State, epoch int64) time.Time {
	s.t.Helper()
	got := Receive(s.t, fmt.Sprintf("%v in epoch %d", want, epoch), s.ch)
	require.Equal(s.t, framework.StateChange{State: want, Epoch: epoch}, got.StateChange)
	return got.At
}

// Until waits for a state, whatever comes before it.
func (s *States) Until(want framework.State, epoch int64) time.Time {
	s.t.Helper()
	for {
		got := Receive(s.t, fmt.Sprintf("%v in epoch %d", want, epoch), s.ch)
		require.LessOrEqual(s.t, got.Epoch, epoch)
		if got.State == want && got.Epoch == epoch {
			return got.At
		}
	}
}

// Heard reports whether there is a state that Next has not returned yet.
func (s *States) Heard() bool { return len(s.ch) > 0 }

// EndSession ends a session by a second connection with its id and its password, as an operator or an
// attacker may: the password follows from the id. It returns when the server has done it.
func EndSession(t testing.TB, addr string, id int64) {
	t.Helper()
	for end := time.Now().Add(Patience); ; {
		gone, err := endSession(addr, id)
		if gone {
			return
		}
		// Its owner has come back in between, and thrown us out.
		require.False(t, time.Now().After(end), "session %#x does not end: %v", id, err)
	}
}

func endSession(addr string, id int64) (gone bool, err error) {
	conn, err := net.DialTimeout("tcp", addr, Patience)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		return false, err
	}
	hello := jute.Frame(&jute.ConnectRequest{Timeout: 4000, SessionID: id, Password: password(id),
		HasReadOnly: true})
	bye := jute.Frame(&jute.RequestHeader{Xid: 1, Op: jute.OpCloseSession})
	if _, err := conn.Write(append(hello, bye...)); err != nil {
		return false, err
	}
	frame, err := readFrame(conn)
	if err != nil {
		return false, err
	}
	var answer jute.ConnectResponse
	if err := jute.Unmarshal(frame, &answer); err != nil {
		return false, err
	}
	if answer.SessionID == 0 {
		return true, nil
	}
	_, err = readFrame(conn)
	return err == nil, err
}

func readFrame(conn net.Conn) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(conn, frame)
	return frame, err
}

// password returns the result of java.util.Random(id ^ 0xB3415C00).nextBytes.
func password(id int64) []byte {
	const multiplier, mask = 0x5DEECE66D, 1<<48 - 1
	state := (uint64(id^0xB3415C00) ^ multiplier) & mask
	p := make([]byte, 16)
	for i := 0; i < len(p); i += 4 {
		state = (state*multiplier + 0xB) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(state>>16))
	}
	return p
}
