package differential

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-curator/curator/internal/jute"
)

// patience bounds the wait for a reply. It is never waited out unless something is wrong.
const patience = 20 * time.Second

// errSilent makes a run invalid: a server that neither replies nor closes the connection.
var errSilent = errors.New("no answer")

// client is a session and its connection, if it has one.
type client struct {
	nc       net.Conn
	in       *bufio.Reader
	xid      int32
	id       int64
	password []byte
	started  bool
}

// connect shakes hands on a new connection. It returns false when the server closes without a reply. After a refusal the
// reply has no session ID, and the connection is dropped.
func (c *client) connect(
	system System, hello jute.ConnectRequest,
) (answer jute.ConnectResponse, answered bool, err error) {
	c.drop()
	if c.nc, err = system.Dial(); err != nil {
		return answer, false, err
	}
	c.in = bufio.NewReader(c.nc)
	if err := c.write(jute.Frame(&hello)); err != nil {
		return answer, false, err
	}
	frame, err := c.read()
	if err != nil || frame == nil {
		return answer, false, err
	}
	if err := jute.Unmarshal(frame, &answer); err != nil {
		return answer, false, err
	}
	if answer.SessionID == 0 {
		c.drop()
		return answer, true, nil
	}
	c.id, c.password = answer.SessionID, answer.Password
	return answer, true, nil
}

func (c *client) start(system System) (jute.ConnectResponse, error) {
	c.started = true
	answer, answered, err := c.connect(system, jute.ConnectRequest{Timeout: int32(maxTimeout.Milliseconds()),
		Password: make([]byte, 16), HasReadOnly: true})
	if err == nil && (!answered || answer.SessionID == 0) {
		err = errors.New("the server refuses a new session")
	}
	return answer, err
}

func (c *client) write(frame []byte) error {
	if err := c.nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.nc.Write(frame); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return errSilent
	}
	return nil // read detects a closed connection
}

// read returns the next frame, or nil when the server has closed the connection, which is then dropped.
func (c *client) read() ([]byte, error) {
	if c.nc == nil {
		return nil, nil
	}
	var head [4]byte
	_, err := io.ReadFull(c.in, head[:])
	frame := []byte{}
	if err == nil {
		length := binary.BigEndian.Uint32(head[:])
		if length > 16<<20 {
			return nil, fmt.Errorf("a frame of %d bytes", length)
		}
		frame = make([]byte, length)
		_, err = io.ReadFull(c.in, frame)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, errSilent
	}
	if err != nil {
		c.drop()
		return nil, nil
	}
	return frame, nil
}

func (c *client) drop() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

// digest is the id that credentials prove.
func digest(credentials string) string {
	user, _, _ := strings.Cut(credentials, ":")
	sum := sha1.Sum([]byte(credentials))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}
