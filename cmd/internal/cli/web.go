package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/cmd/internal/run"
	inspecthttp "github.com/go-curator/curator/inspect/http"
)

// pageCommand is a page, and where it is.
type pageCommand struct {
	clientConnection
	root, listen string
	hosts        []string
	allowDelete  bool
}

func newWeb() *cobra.Command {
	w := pageCommand{root: "/"}
	cmd := &cobra.Command{
		Use:   "web [ROOT]",
		Short: "Show on a page, live, the holders and waiters below a path",
		Long: `Show on a page, live, the holders and waiters below a path: the lines of Java Curator, Go and kazoo, the
last grants, the graph of waiters and holders, possible deadlocks, and the state of the client.
ROOT is / unless it is given; choose one with locks below it, since everything below is kept in memory.

The page is for this machine's users, unless --listen gives another address. It has no login: all
clients that reach that address can see it. The page changes nothing, except with --allow-delete.`,
		Example: `  curator web /locks
  curator web --listen 127.0.0.1:9000 --allow-delete`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("%s takes one path, but got %q, too", cmd.CommandPath(), args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				w.root = args[0]
			}
			return w.servePage(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&w.listen, "listen", "127.0.0.1:8180", "address to listen on; port 0 chooses a free one")
	f.StringSliceVar(&w.hosts, "host", nil,
		"`names` under which browsers may ask for the page (default: those of the loopback if it listens there)")
	f.BoolVar(&w.allowDelete, "allow-delete", false, "let viewers delete participants' nodes, after a confirmation")
	w.flags(f)
	return cmd
}

// servePage serves the page until a signal asks to end.
func (w *pageCommand) servePage(cmd *cobra.Command) error {
	options, warning, err := w.pageOptions()
	if err != nil {
		return err
	}
	signals, ignore := run.Signals()
	defer ignore()
	ctx, stop := run.UntilAsked(context.Background(), signals)
	defer stop()
	client, err := w.openClient(ctx, cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	page, err := inspecthttp.New(client, w.root, options...)
	if err != nil {
		return err
	}
	defer page.Close()
	listener, err := net.Listen("tcp", w.listen)
	if err != nil {
		return usageError("--listen: %w", err)
	}
	if warning != "" {
		printLine(cmd.ErrOrStderr(), "%s", warning)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "http://%s/\n", listener.Addr())
	server := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err = <-failed:
		return err
	case <-ctx.Done():
	}
	page.Close() // ends the streams; Shutdown would wait for them
	ending, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if server.Shutdown(ending) != nil {
		_ = server.Close()
	}
	<-failed
	return nil
}

// pageOptions returns the page's options, and a warning about them for the user.
func (w *pageCommand) pageOptions() (options []inspecthttp.Option, warning string, err error) {
	host, _, err := net.SplitHostPort(w.listen)
	if err != nil {
		return nil, "", usageError("--listen: %w", err)
	}
	loopback := strings.EqualFold(host, "localhost")
	if ip := net.ParseIP(host); ip != nil {
		loopback = ip.IsLoopback()
	}
	hosts := w.hosts
	switch {
	case loopback && len(hosts) == 0:
		hosts = []string{"localhost", "127.0.0.1", "::1", host}
	case !loopback && w.allowDelete && len(hosts) == 0:
		return nil, "", programExit{exitUsage, errors.New("--allow-delete beyond the loopback needs --host: the names " +
			"under which browsers ask for the page")}
	case !loopback:
		warning = "all clients that reach " + w.listen + " can see the page"
		if w.allowDelete {
			warning += ", and delete participants' nodes"
		}
	}
	if len(hosts) > 0 {
		options = append(options, inspecthttp.WithHosts(hosts...))
	}
	if w.allowDelete {
		options = append(options, inspecthttp.WithDelete())
	}
	return options, warning, nil
}
