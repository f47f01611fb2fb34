package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-curator/curator/framework"
)

// wordReply is a server's reply to a four-letter word, in JSON.
type wordReply struct {
	Server string            `json:"server"`
	Text   string            `json:"text,omitempty"`
	Values map[string]string `json:"values,omitempty"` // of mntr, conf and envi
	Error  string            `json:"error,omitempty"`
}

func newFourLetter(h commandHost) *cobra.Command {
	var out outputForm
	var servers []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "4lw WORD",
		Short: "Send a four-letter word to the servers: ruok, stat, mntr, conf, cons …",
		Long: `Send a four-letter word to the servers over a connection of its own, and print the replies. It also
works when they accept no sessions. Of mntr, conf and envi --output json has the values, too.

Since 3.5.3 servers reply only to words on their list (4lw.commands.whitelist=mntr,conf,ruok in zoo.cfg), by
default only srvr. The status is 1 if a server refuses the word or cannot be reached.`,
		Example: `  curator 4lw mntr
  curator 4lw ruok --server zk1:2181 --server zk2:2181`,
		Args: argumentCount(1, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"conf", "cons", "crst", "dirs", "dump", "envi", "isro", "mntr", "ruok", "srst", "srvr",
				"stat", "wchc", "wchp", "wchs"}, cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := cmd.Flags()
	out.formFlag(f)
	f.StringArrayVar(&servers, "server", nil, "`host:port` of a server (default: all of --servers)")
	f.DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait for each server")
	if h.prompt != nil {
		return h.setAction(cmd, func(ctx context.Context, client *framework.Client, args []string) error {
			if len(servers) == 0 {
				servers = client.Servers()
			}
			return askServers(ctx, cmd, &out, client, servers, args[0], timeout)
		})
	}
	c := h.connect()
	c.Flags(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return untilSignal(cmd.Context(), func(ctx context.Context) error {
			client, err := c.Begin(cmd, servers, framework.WithConnectionTimeout(max(timeout, 1)))
			if err != nil {
				return err
			}
			defer func() { _ = client.Close() }()
			return askServers(ctx, cmd, &out, client, client.Servers(), args[0], timeout)
		})
	}
	return cmd
}

func askServers(
	ctx context.Context, cmd *cobra.Command, out *outputForm, client *framework.Client, servers []string, word string,
	timeout time.Duration,
) error {
	if timeout <= 0 {
		return usageError("--timeout %v: give more than none", timeout)
	}
	var answers []wordReply
	failed := 0
	for _, server := range servers {
		a := wordReply{Server: server}
		text, err := sendWord(ctx, client, server, word, timeout)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, framework.ErrBadArguments):
			return usageError("%q is no four-letter word, such as mntr", word)
		case err != nil:
			a.Error = err.Error()
			failed++
		default:
			a.Text = text
			if word == "mntr" || word == "conf" || word == "envi" {
				a.Values = parseValues(text)
			}
		}
		answers = append(answers, a)
	}
	err := printValues(out, cmd, answers, func(w io.Writer) {
		for _, a := range answers {
			if len(answers) > 1 {
				fmt.Fprintf(w, "== %s\n", printableName(a.Server))
			}
			if a.Error == "" {
				fmt.Fprint(w, endLine(printableText(a.Text)))
			} else if len(answers) > 1 {
				fmt.Fprintln(w, printableName(a.Error))
			}
		}
	})
	switch {
	case err != nil:
		return err
	case failed == 1 && len(answers) == 1:
		return negativeError("%s: %s", printableName(servers[0]), printableName(answers[0].Error))
	case failed > 0:
		return negativeError("%d of %d servers did not reply to %s", failed, len(servers), word)
	}
	return nil
}

func sendWord(
	ctx context.Context, client *framework.Client, server, word string, timeout time.Duration,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	text, err := client.FourLetterWord(ctx, server, word)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("no reply in time (--timeout %v)", timeout)
	case errors.Is(err, framework.ErrWordRefused):
		return "", fmt.Errorf("%w: add %s to it in zoo.cfg and restart the server, or ask its AdminServer "+
			"(http://HOST:8080/commands)", err, word)
	}
	return text, err
}

// parseValues are the lines "key<tab>value" or "key=value" of an answer.
func parseValues(text string) map[string]string {
	found := map[string]string{}
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\r\n")
		if i := strings.IndexAny(l, "\t="); i > 0 {
			found[l[:i]] = l[i+1:]
		}
	}
	return found
}
