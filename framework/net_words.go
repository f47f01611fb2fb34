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

// ErrWordRefused means that a server does not reply to a four-letter word. Allow the word by the server's setting
// 4lw.commands.whitelist, without which a server replies only to "srvr".
var ErrWordRefused = newSentinel("the server does not answer this four-letter word: allow it by " +
	"4lw.commands.whitelist")

// maxWordReply limits a reply, in bytes. The reply to "cons" has about 250 bytes for each connection.
const maxWordReply = 16 << 20

// FourLetterWord sends a four-letter word such as "srvr" or "conf" to a server, host:port as in [Client.Servers], and
// returns the reply. It uses a separate connection, made by the client's dialer and with its TLS, on which it sends no
// credentials and opens no session. It sends the word once, whatever the retry policy.
//
// It blocks until the reply is complete, at most for the connection timeout ([WithConnectionTimeout]), or until ctx
// ends; Close does not end it. Errors: ErrNoClient; ErrNilContext; ErrWordRefused; ErrBadArguments for a word that is
// not four letters from a to z; ErrReplyTooLarge for a reply of more than 16 MiB; ErrTLS; ErrClosed, if the client was
// closed before; the errors of ctx and of the connection, which match context.DeadlineExceeded if no reply came in time.
// Safe for concurrent use. Corresponds to ZooKeeper's FourLetterWordMain.
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
	reply, err := c.core.sendFourLetterWord(limited, server, word)
	if err != nil {
		return "", fmt.Errorf("framework: %s at %s: %w", word, plain.Text(server), err)
	}
	return reply, nil
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
	err = wrapTLSError(err) // with TLS 1.3 the server's refusal of the client's certificate comes after the handshake
	switch reply := string(text); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, ErrTLS):
		return "", err
	case len(text) > maxWordReply:
		return "", ErrReplyTooLarge
	case strings.Contains(reply, "not in the whitelist"):
		return "", ErrWordRefused
	case reply == "": // some servers refuse a word in this way
		return "", fmt.Errorf("%w. It has closed the connection without an answer: it may also need TLS, or have "+
			"too many connections from here (maxClientCnxns)", ErrWordRefused)
	case err != nil:
		return "", err
	default:
		return reply, nil
	}
}
