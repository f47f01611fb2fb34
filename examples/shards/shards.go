package main

import (
	"context"
	"fmt"
	"io"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/assignment"
)

// index has this process index its share of the shards until ctx ends. All processes of the service call it.
func index(ctx context.Context, client *framework.Client, id string, shards int, out io.Writer) error {
	var names []string
	for i := range shards {
		names = append(names, fmt.Sprintf("shard-%d", i))
	}
	a := assignment.New(client, "/indexer", names, assignment.WithID(id))
	return a.Run(ctx, func(ctx context.Context, shard assignment.Item) error {
		fmt.Fprintf(out, "%s begins with %s, token %d\n", id, shard.Name(), shard.FencingToken())
		<-ctx.Done() // index documents; give the token to the store with each write
		fmt.Fprintf(out, "%s ends with %s\n", id, shard.Name())
		return nil
	})
}
