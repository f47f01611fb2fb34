package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-curator/curator/framework"
)

// clientConnection has the options that select the servers and how to connect. Each can be given by a flag or by an
// environment variable: --tls-ca by CURATOR_TLS_CA. Secrets are read from files or the environment only, since every
// user of the machine can read command lines.
type clientConnection struct {
	servers              string
	sessionTimeout       time.Duration
	connectTimeout       time.Duration
	tls                  bool
	tlsFiles             framework.TLSFiles
	saslFile, digestFile string
	id                   string
	verbose              bool

	shared *framework.Client // of the prompt that runs the command; then no options are offered
}

func (c *clientConnection) flags(f *pflag.FlagSet) {
	if c.shared != nil {
		return
	}
	own := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	own.StringVar(&c.servers, "servers", "",
		"host:port of the servers, separated by commas, and a chroot if any: a:2181,b:2181/app")
	own.DurationVar(&c.sessionTimeout, "session-timeout", 30*time.Second,
		"how long the servers keep a silent client's session and holds")
	own.DurationVar(&c.connectTimeout, "connect-timeout", 15*time.Second,
		"how long to wait for the first connection")
	own.BoolVar(&c.tls, "tls", false, "encrypt connections; implied by the other TLS options")
	own.StringVar(&c.tlsFiles.CA, "tls-ca", "",
		"`file` with the authorities of the servers' certificates (default: the system's)")
	own.StringVar(&c.tlsFiles.Cert, "tls-cert", "", "`file` with the client's own certificate")
	own.StringVar(&c.tlsFiles.Key, "tls-key", "", "`file` with its key")
	own.StringVar(&c.tlsFiles.ServerName, "tls-server-name", "",
		"name in the servers' certificates (default: the host's)")
	own.StringVar(&c.saslFile, "sasl-file", "",
		"`file` with user:password for SASL DIGEST-MD5; or CURATOR_SASL=user:password in the environment")
	own.StringVar(&c.digestFile, "digest-file", "",
		"`file` with user:password for the digest scheme; or CURATOR_DIGEST=user:password in the environment")
	own.StringVar(&c.id, "id", "",
		"the id in the data of this participant's node (default: the host's name)")
	own.BoolVarP(&c.verbose, "verbose", "v", false, "report changes of connection and session")
	own.VisitAll(func(flag *pflag.Flag) { flag.Usage += " [" + variableName(flag.Name) + "]" })
	f.AddFlagSet(own)
}

// variableName is the environment variable that stands for a flag.
func variableName(flag string) string {
	return "CURATOR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that were not given from their variables.
func (c *clientConnection) fromEnvironment(f *pflag.FlagSet) error {
	var own pflag.FlagSet
	new(clientConnection).flags(&own)
	var failed error
	own.VisitAll(func(flag *pflag.Flag) {
		value := os.Getenv(variableName(flag.Name))
		if value == "" || f.Changed(flag.Name) {
			return
		}
		if err := f.Set(flag.Name, value); err != nil {
			failed = usageError("%s in the environment: %w", variableName(flag.Name), err)
		}
	})
	return failed
}

// newClient returns a client that is not connected yet. The caller closes it.
func (c *clientConnection) newClient(cmd *cobra.Command, more ...framework.Option) (*framework.Client, error) {
	options, err := c.options(cmd)
	if err != nil {
		return nil, err
	}
	return framework.New(c.servers, append(options, more...)...)
}

// closeClient closes a client that open has returned. That removes the client's nodes, or the servers do when its session
// ends. The prompt's client stays open. A client that was never connected has no nodes, and its Close may block on a
// server that hangs: the program ends without it.
func (c *clientConnection) closeClient(client *framework.Client) {
	if client != c.shared && client.State().State != framework.NeverConnected {
		_ = client.Close()
	}
}

// closeUnserved closes a client that the servers do not serve. It has nothing to be removed, so a server that hangs is not
// waited for.
func (c *clientConnection) closeUnserved(client *framework.Client) {
	if client == c.shared || client.State().State == framework.NeverConnected {
		return
	}
	const moment = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), moment)
	defer cancel()
	_ = client.CloseContext(ctx)
}

// openClient returns a connected client: the prompt's, or a new one. The caller closes it with close.
func (c *clientConnection) openClient(ctx context.Context, cmd *cobra.Command) (*framework.Client, error) {
	if c.shared != nil {
		return c.shared, nil
	}
	client, err := c.newClient(cmd)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.connectTimeout)
	defer cancel()
	if err := awaitServed(ctx, client); err != nil {
		c.closeUnserved(client)
		const hint = `"curator doctor" shows the role of each server, and "curator 4lw srvr" its reply`
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("cannot connect within %v (--connect-timeout): %w; %s", c.connectTimeout, err, hint)
		}
		return nil, fmt.Errorf("cannot connect: %w; %s", err, hint)
	}
	return client, nil
}

// awaitServed waits until the servers serve the client.
func awaitServed(ctx context.Context, client *framework.Client) error {
	err := client.WaitConnected(ctx)
	if err == nil {
		// The first reply shows whether the servers serve this client. By then the rule that keeps holds safe is
		// known as well, since its request was sent before.
		_, err = client.CheckExists().ForPath(ctx, "/")
	}
	if errors.Is(err, framework.ErrNoAuth) {
		return nil // another client may own "/"
	}
	return err
}

func (c *clientConnection) options(cmd *cobra.Command) ([]framework.Option, error) {
	if err := c.fromEnvironment(cmd.Flags()); err != nil {
		return nil, err
	}
	if c.servers == "" {
		return nil, programExit{exitUsage, errNoServers}
	}
	if c.connectTimeout <= 0 {
		return nil, usageError("--connect-timeout has to be more than 0, and is %v", c.connectTimeout)
	}
	if c.id == "" {
		c.id, _ = os.Hostname()
	}
	options := []framework.Option{
		framework.WithSessionTimeout(c.sessionTimeout), framework.WithDefaultData([]byte(c.id)),
	}
	if c.tls || c.tlsFiles != (framework.TLSFiles{}) {
		options = append(options, framework.WithTLSFiles(c.tlsFiles))
	}
	sasl, err := readSecret("sasl", c.saslFile)
	if err != nil {
		return nil, err
	}
	if user, password, _ := strings.Cut(sasl, ":"); sasl != "" {
		options = append(options, framework.WithSASLDigest(user, password))
	}
	digest, err := readSecret("digest", c.digestFile)
	if err != nil {
		return nil, err
	}
	if digest != "" {
		options = append(options, framework.WithAuth("digest", []byte(digest)))
	}
	if c.verbose {
		options = append(options, framework.WithLogger(slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))))
	}
	return options, nil
}

// readSecret reads user:password from the file or, if there is none, from the environment. "" if neither has it.
func readSecret(kind, file string) (string, error) {
	value, from := os.Getenv(variableName(kind)), variableName(kind)
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			var path *fs.PathError
			if errors.As(err, &path) {
				err = path.Err
			}
			return "", usageError("--%s-file %s: %w", kind, file, err)
		}
		value, from = string(bytes.TrimRight(text, "\r\n")), file
	}
	if user, _, found := strings.Cut(value, ":"); (value != "" || file != "") && (!found || user == "") {
		return "", usageError("%s does not contain user:password", from)
	}
	return value, nil
}
