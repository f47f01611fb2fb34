// Command load loads a cache of a tree once for each line of input, and prints the cost: nanoseconds, nodes, and
// bytes of heap that the cache has added. It is a separate process, as Java's caches are, and without the race
// detector.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
)

func main() {
	var opts []cache.Option
	if len(os.Args) == 4 && os.Args[3] == "one-shot" {
		opts = append(opts, cache.WithOneShotWatches())
	} else if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: load SERVERS ROOT [one-shot]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], opts); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(servers, root string, opts []cache.Option) error {
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	client, err := framework.New(servers, framework.WithSessionTimeout(10*time.Second),
		framework.WithLogger(log))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.WaitConnected(ctx); err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		before := heap()
		begin := time.Now()
		c, err := cache.New(client, root, opts...)
		if err != nil {
			return err
		}
		if err := c.WaitSynced(ctx); err != nil {
			return err
		}
		took, nodes, bytes := time.Since(begin), c.Len(), heap()-before
		if err := c.Close(); err != nil {
			return err
		}
		// The requests that end the watches must not count for the next load.
		if err := client.Sync().ForPath(ctx, "/"); err != nil {
			return err
		}
		fmt.Println(took.Nanoseconds(), nodes, bytes)
	}
	return nil
}

// heap returns the bytes in use after garbage collection.
func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
