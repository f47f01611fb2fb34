package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-curator/curator/contrib/fence"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

func ExampleFrom() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		panic(err)
	}
	defer client.Close()

	store := fence.NewMemory(1000) // for the resources of the writes
	orders := mutex.New(client, "/locks/orders")
	var former int64
	for range 2 {
		err := orders.Do(context.Background(), func(ctx context.Context) error {
			token, err := fence.From(ctx)
			if err != nil {
				return err
			}
			if former == 0 {
				former = token
			}
			return store.Admit(ctx, "orders", token)
		})
		fmt.Println("in time:", err)
	}
	err = store.Admit(context.Background(), "orders", former)
	fmt.Println("late:", errors.Is(err, fence.ErrOutdated))
	// Output:
	// in time: <nil>
	// in time: <nil>
	// late: true
}
