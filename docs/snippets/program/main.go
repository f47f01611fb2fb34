// [readme: a program]

package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Getenv("CURATOR_SERVERS")); err != nil { // such as zk1:2181,zk2:2181,zk3:2181
		log.Fatal(err)
	}
}

func run(ctx context.Context, servers string) error {
	client, err := framework.New(servers,
		framework.WithNamespace("app"), // every path is below /app
		framework.WithSessionTimeout(30*time.Second),
		framework.WithLogger(slog.Default())) // otherwise nothing is logged
	if err != nil {
		return err
	}
	defer client.Close()

	lock, err := mutex.New(client, "/locks/orders").Acquire(ctx) // first come, first served
	if err != nil {
		return err
	}
	defer lock.ReleaseInBackground()
	return settle(lock.Context(), lock.FencingToken())
}

// settle is the work. ctx ends when the lock is lost, before the next holder has it. If a write still comes late,
// the database refuses it: UPDATE orders SET …, token = $1 WHERE id = $2 AND token <= $1.
func settle(ctx context.Context, token int64) error {
	fmt.Println("settling orders with token", token)
	return ctx.Err()
}

// [end]
