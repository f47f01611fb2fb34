package kit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/integration/internal/child"
	"github.com/go-curator/curator/recipes/mutex"
)

// With these the test program is a holder and nothing else.
const (
	holderServer  = "CURATOR_TEST_HOLDER_SERVER"
	holderPath    = "CURATOR_TEST_HOLDER_PATH"
	holderTimeout = "CURATOR_TEST_HOLDER_TIMEOUT"
)

// Hold has the test program be a holder if it was started as one: a TestMain calls it first. A holder
// acquires the lock and asks all the time whether it holds it, until its input ends. It prints
//
//	held TOKEN NODE
//	gap NANOSECONDS VALID      after it stood still for more than a second: how long, and what Valid said first
//	ended NANOSECONDS CAUSE    when the context ended, by the wall clock
func Hold() {
	if os.Getenv(holderPath) == "" {
		return
	}
	if err := hold(); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func hold() error {
	timeout, err := time.ParseDuration(os.Getenv(holderTimeout))
	if err != nil {
		return err
	}
	client, err := framework.New(os.Getenv(holderServer), framework.WithSessionTimeout(timeout))
	if err != nil {
		return err
	}
	lock, err := mutex.New(client, os.Getenv(holderPath)).Acquire(context.Background())
	if err != nil {
		return err
	}
	var out sync.Mutex
	say := func(words ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(words...)
	}
	say("held", lock.FencingToken(), lock.Node())
	go func() {
		<-lock.Context().Done()
		say("ended", time.Now().UnixNano(), context.Cause(lock.Context()))
	}()
	for range 2 { // so that one at least is not in the middle of asking when the process stands still
		go func() {
			for before := time.Now(); ; time.Sleep(time.Millisecond) {
				asked := time.Now()
				valid := lock.Valid()
				answered := time.Now()
				if gap := asked.Sub(before); gap > time.Second && answered.Sub(asked) < time.Second {
					say("gap", gap.Nanoseconds(), valid)
				}
				before = answered
			}
		}()
	}
	bufio.NewScanner(os.Stdin).Scan()
	return nil
}

// Holder is another process that holds a lock.
type Holder struct {
	*child.Process
	Token int64
	Node  string
	// Lines has its further output.
	Lines <-chan []string
}

// StartHolder starts one and returns when it holds the lock. It ends with the test. It may be called from any
// goroutine.
func StartHolder(t testing.TB, server, path string, timeout time.Duration) (*Holder, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderServer+"="+server, holderPath+"="+path,
		holderTimeout+"="+timeout.String())
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer stdout.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stdout
	process, err := child.Start(cmd)
	if err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	lines := make(chan []string, 1000)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(lines)
		defer out.Close()
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- strings.Fields(scan.Text())
		}
	})
	t.Cleanup(func() {
		process.Kill()
		in.Close()
		reader.Wait()
	})
	select {
	case first := <-lines:
		if len(first) != 3 || first[0] != "held" {
			return nil, errors.New("the holder says: " + strings.Join(first, " "))
		}
		token, err := strconv.ParseInt(first[1], 10, 64)
		return &Holder{process, token, first[2], lines}, err
	case <-time.After(Patience):
		return nil, errors.New("the holder does not get the lock")
	}
}

// Ended waits for the end of the context of the holder, and returns the time of that and the first results of Valid
// after a pause.
func (h *Holder) Ended(t testing.TB) (at time.Time, cause string, valid []string) {
	t.Helper()
	limit := time.After(Patience)
	for cause == "" || len(valid) < 2 {
		select {
		case line, open := <-h.Lines:
			switch {
			case !open:
				require.FailNow(t, "the holder has ended")
			case line[0] == "gap":
				valid = append(valid, line[2])
			case line[0] == "ended":
				nanos, err := strconv.ParseInt(line[1], 10, 64)
				require.NoError(t, err)
				at, cause = time.Unix(0, nanos), strings.Join(line[2:], " ")
			}
		case <-limit:
			require.FailNow(t, "the holder is silent")
		case <-time.After(time.Second):
			if cause != "" {
				return at, cause, valid
			}
		}
	}
	return at, cause, valid
}
