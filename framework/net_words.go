package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/go-curator/curator/internal/apart"
	"github.com/go-curator/curator/internal/plain"
)

// ErrWordRefused means that a server does not answer a four-letter word. Allow it there by 4lw.commands.whitelist;
// without that setting a server answers only "srvr".
var ErrWordRefused = newSentinel("the server does not answer this four-letter word: allow it by " +
	"4lw.commands.whitelist")

// maxWordReply limits the bytes of a reply: "cons" has about 250 for each connection.
const maxWordReply = 16 << 20

// FourLetterWord asks a server, host:port as in [Client.Servers], a four-letter word such as "srvr" or "conf", and
// returns the reply. It makes a separate connection, by the client's dialer and with its TLS, and sends no credentials
// and opens no session. It sends the word once, whatever the retry policy.
//
// It blocks until the server has answered, at most for the connection timeout, or until ctx ends; Close does not end
// it. Errors: ErrWordRefused; ErrBadArguments for a word that does not have four letters; ErrReplyTooLarge for an
// answer of more than 16 MiB; ErrTLS; ErrClosed, if the client was closed before; the errors of ctx and of the
// connection, which match context.DeadlineExceeded if no answer came in time. Safe for concurrent use. Corresponds to
// ZooKeeper's FourLetterWordMain.
func (c *Client) FourLetterWord(ctx context.Context, server, word string) (string, error) {
	switch {
	case c.isZeroValue():
		return "", ErrNoClient
	case ctx == nil:
		return "", ErrNilContext
	case len(word) != 4 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "":
		return "", fmt.Errorf("%w: %q is no four-letter word", ErrBadArguments, shortenText(word))
	}
	if c.core.currentEpoch() == nil {
		return "", ErrClosed
	}
	limited, cancel := context.WithTimeout(ctx, c.core.cfg.connectTimeout)
	defer cancel()
	answer, err := c.core.sendFourLetterWord(limited, server, word)
	if err != nil {
		return "", fmt.Errorf("framework: %s at %s: %w", word, plain.Text(server), err)
	}
	return answer, nil
}

func (c *clientCore) sendFourLetterWord(ctx context.Context, server, word string) (string, error) {
	var conn net.Conn
	err := apart.ErrNoReturn
	apart.Call(func() { conn, err = c.cfg.dialServer(ctx, "tcp", server, c.log) })
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, maxWordReply+1))
	err = wrapTLSError(err) // with TLS 1.3 the server's objections to the client's certificate come now
	switch answer := string(text); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, ErrTLS):
		return "", err
	case len(text) > maxWordReply:
		return "", ErrReplyTooLarge
	case strings.Contains(answer, "not in the whitelist"):
		return "", ErrWordRefused
	case answer == "": // some say no in this way
		return "", fmt.Errorf("%w. It has closed the connection without an answer: it may also need TLS, or have "+
			"too many connections from here (maxClientCnxns)", ErrWordRefused)
	case err != nil:
		return "", err
	default:
		return answer, nil
	}
}
