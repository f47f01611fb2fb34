package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/cmd/internal/run"
	"github.com/go-curator/curator/zktest"
)

func newServe() *cobra.Command {
	config := zktest.Config{MaxClientConns: 1000, ExtendedTypes: true}
	members := 1
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve an in-memory ZooKeeper for trying things out",
		Long: `Serve an in-memory ZooKeeper for trying things out. Its data are lost when it ends, and it
accepts every client: it is for development, on the loopback.`,
		Example: `  curator serve
  curator serve --listen 127.0.0.1:3000 --members 3`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signals, ignore := run.Signals()
			defer ignore()
			ctx, stop := run.UntilAsked(context.Background(), signals)
			defer stop()
			connect, end, err := serveMemory(config, members)
			if err != nil {
				if errors.Is(err, syscall.EADDRINUSE) {
					err = fmt.Errorf("%w: give another address by --listen", err)
				}
				return programExit{exitUsage, err}
			}
			defer end()
			fmt.Fprintf(cmd.OutOrStdout(), "serving; use it with\n  export CURATOR_SERVERS=%s\n", connect)
			<-ctx.Done()
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&config.Listen, "listen", "127.0.0.1:2181",
		"address to listen on; more members listen on the next ports")
	f.IntVar(&members, "members", members, "how many servers: with more than one they are an ensemble")
	f.DurationVar(&config.TickTime, "tick", 2*time.Second, "the servers' tickTime")
	return cmd
}

func serveMemory(config zktest.Config, members int) (connect string, end func(), err error) {
	if members == 1 {
		server, err := zktest.NewServer(config)
		if err != nil {
			return "", nil, err
		}
		return server.Addr(), server.Close, nil
	}
	ensemble, err := zktest.NewEnsemble(members, config)
	if err != nil {
		return "", nil, err
	}
	return ensemble.ConnectString(), ensemble.Close, nil
}
