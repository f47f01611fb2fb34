package framework_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/retry"
	"github.com/go-curator/curator/zktest"
)

// behindBreaker is a circuit breaker over state changes, for programs that rebuild something on every change and want to
// skip flapping. It reports the first change for the worse immediately, and then stays open for the policy's first wait.
// While it is open it reports only the first Lost. After the wait it closes if the client is connected, or if nothing has
// happened since it opened; otherwise it stays open for the policy's next wait, until the policy has no more. When it
// closes it reports the latest change, unless it has already done so.
//
// A change with a larger epoch means that all ephemeral nodes are gone, even if the loss itself was not reported. after is
// time.After. behindBreaker returns when changes is closed.
func behindBreaker(changes <-chan framework.StateChange, policy retry.Policy,
	after func(time.Duration) <-chan time.Time, tell func(framework.StateChange)) {
	var (
		told, last framework.StateChange
		waits      backoff.BackOff  // nil while the breaker is closed
		due        <-chan time.Time // when the wait is over
		news       bool             // something has happened since it opened
	)
	wait := func() bool {
		d := waits.NextBackOff()
		if d != backoff.Stop {
			due = after(d)
		}
		return d != backoff.Stop
	}
	for {
		select {
		case change, open := <-changes:
			if !open {
				return
			}
			last, news = change, true
			closed := waits == nil
			if closed || change.State == framework.Lost && told.State != framework.Lost {
				told = change
				tell(told)
			}
			if closed && !change.State.IsConnected() {
				if waits, news = policy.NewBackOff(), false; !wait() {
					waits = nil
				}
			}
		case <-due:
			if news && !last.State.IsConnected() && wait() {
				continue
			}
			if waits, due = nil, nil; last != told {
				told = last
				tell(told)
			}
		}
	}
}

// A circuit breaker over the state changes, as Curator's CircuitBreakingConnectionStateListener. The recipes need none. A
// program that must react immediately should use no breaker: a hold's context reports the end of the hold.
func ExampleClient_StateChanges_breaker() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	// A program passes client.StateChanges(ctx) and time.After. Here the example decides when the wait is over.
	changes, waitOver, done := make(chan framework.StateChange), make(chan time.Time), make(chan struct{})
	after := func(d time.Duration) <-chan time.Time {
		fmt.Println("told: nothing but a loss for", d)
		return waitOver
	}
	go func() {
		defer close(done)
		behindBreaker(changes, retry.RetryForever{Sleep: time.Minute}, after, func(change framework.StateChange) {
			fmt.Println("told:", change)
		})
	}()
	var all []framework.StateChange
	for change := range client.StateChanges(context.Background()) {
		all = append(all, change)
		changes <- change
		if len(all) == 5 {
			break
		}
		if change.State.IsConnected() {
			server.Cut(0) // the network fails
		}
	}
	waitOver <- time.Now()
	close(changes)
	<-done
	fmt.Println("3 of", len(all), "changes")
	// Output:
	// told: Connected in epoch 1
	// told: Suspended in epoch 1
	// told: nothing but a loss for 1m0s
	// told: Reconnected in epoch 1
	// 3 of 5 changes
}
