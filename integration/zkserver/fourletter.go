package zkserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// pollTimeout bounds one four-letter command. A connection made while the
// server is starting may never be answered, so it must be given up and dialled
// again.
const pollTimeout = 300 * time.Millisecond

// FourLetter sends a four-letter command to the server at addr and returns its
// answer. It ends with ctx.
func FourLetter(ctx context.Context, addr, command string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, command); err != nil {
		return "", fmt.Errorf("four-letter command %s to %s: %w", command, addr, err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("four-letter command %s to %s: %w", command, addr, err)
	}
	return string(answer), nil
}

func pollContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), pollTimeout)
}

func poll(addr, command string) string {
	ctx, cancel := pollContext()
	defer cancel()
	answer, _ := FourLetter(ctx, addr, command)
	return answer
}

// field returns the rest of the line of an answer that starts with prefix.
func field(answer, prefix string) string {
	for line := range strings.Lines(answer) {
		if value, found := strings.CutPrefix(line, prefix); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
