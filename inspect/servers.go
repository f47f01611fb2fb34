package inspect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-curator/curator/framework"
)

// Server is a server's report about itself, from its replies to four-letter words. Its texts come from the server:
// print them escaped.
type Server struct {
	// Address is the server's, as in the client's connect string.
	Address string
	// Err is the reason why it does not report its state: it cannot be reached, has no leader, or does not allow
	// "srvr". Then all fields up to Outstanding are zero.
	Err error
	// Mode is its role in the ensemble: leader, follower, observer, standalone, read-only. See [Server.Role].
	Mode, Version string
	// Zxid is the last transaction that it knows: how new its data are. The upper 32 bits are the leader's epoch.
	Zxid int64
	// Took is the time of the first reply, including the connect. Average and Most are the server's latencies of
	// requests since its start.
	Took, Average, Most time.Duration
	// Clients are its connections, Outstanding the requests that it has not answered yet.
	Clients, Outstanding int
	// Config is its configuration; nil if it does not allow "conf".
	Config *ServerConfig
	// Connections are the connections of its clients; Listed is false if it does not allow "cons".
	Connections []Connection
	Listed      bool
}

// errNoQuorum is the error of a server that runs and does not serve.
var errNoQuorum = errors.New("it has no leader, or is not in the ensemble")

// timeoutError is the error of a server that has not replied within after.
type timeoutError struct {
	after time.Duration
	error
}

// roundDuration returns a duration rounded for people. It is never 0.
func roundDuration(d time.Duration) time.Duration {
	if tenths := d.Round(100 * time.Millisecond); tenths >= time.Second {
		return tenths // a second, less the time to send the request, counts as a second
	}
	return max(d.Round(time.Millisecond), time.Millisecond)
}

func (l timeoutError) Error() string { return fmt.Sprintf("no reply within %v: %v", l.after, l.error) }
func (l timeoutError) Unwrap() error { return l.error }

func isTimeout(err error) bool {
	var timed net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timed) && timed.Timeout()
}

// MayServe reports whether the server may have a quorum and serve a client. It is false if the server reports that it
// has no quorum, or cannot be reached.
func (s Server) MayServe() bool {
	return s.Err == nil && s.Mode != "read-only" || errors.Is(s.Err, framework.ErrWordRefused)
}

// hasNoQuorum reports whether the server has replied that it has no quorum.
func (s Server) hasNoQuorum() bool {
	return s.Err == nil && s.Mode == "read-only" || errors.Is(s.Err, errNoQuorum)
}

// Role returns Mode or, without one, the reason: "no quorum", it runs and is not in an ensemble with a leader;
// "refused", it takes no connections, so it does not run; "silent", it has not replied in time; "not whitelisted", it
// does not allow "srvr"; "unreachable", anything else, which is in Err.
func (s Server) Role() string {
	var code syscall.Errno
	const windowsRefused = syscall.Errno(10061) // WSAECONNREFUSED
	switch {
	case s.Err == nil:
		return s.Mode
	case errors.Is(s.Err, errNoQuorum):
		return "no quorum"
	case errors.Is(s.Err, framework.ErrWordRefused):
		return "not whitelisted"
	case isTimeout(s.Err):
		return "silent"
	case errors.As(s.Err, &code) && (code == syscall.ECONNREFUSED || code == windowsRefused):
		return "refused"
	}
	return "unreachable"
}

// ServerConfig is the part of a server's configuration that matters to its clients.
type ServerConfig struct {
	TickTime                             time.Duration
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// InitLimit and SyncLimit are in ticks, and 0 on a standalone server.
	InitLimit, SyncLimit int
	// MaxClientConnections is the most connections from one address (maxClientCnxns); 0 means unlimited.
	MaxClientConnections int
}

// Connection is a client's connection to a server.
type Connection struct {
	// Server is at one end, and Client, an address, at the other.
	Server, Client string
	Session        int64
	// Timeout is the session's; Silent is for how long at least the server has not answered a request of it, pings
	// included. A live client sends the next request after a third of Timeout.
	Timeout, Silent time.Duration
}

// serverTimeout is the time that a server has to reply to a four-letter word.
const serverTimeout = 3 * time.Second

// Servers asks each server of the client for its state, its configuration and its clients' connections. It opens
// connections, three to each server, as framework.Client.FourLetterWord does: without a session or credentials. It
// waits at most 3 s for a server. Unless 4lw.commands.whitelist allows more, a server reports the first of the three
// only.
//
// Err, Config and Listed show which parts a server did not report. Errors: the errors of ctx, ErrClosed, ErrNoClient,
// ErrNilContext. With the error of ctx it returns the reports received until then; a server without one has an Err
// for that.
func Servers(ctx context.Context, client *framework.Client) ([]Server, error) {
	return askServers(ctx, client, "srvr", "conf", "cons")
}

func askServers(ctx context.Context, client *framework.Client, words ...string) ([]Server, error) {
	if _, err := newServerReader(ctx, client, nil); err != nil {
		return nil, fmt.Errorf("inspect: servers: %w", err)
	}
	if err := client.Err(); errors.Is(err, framework.ErrClosed) || errors.Is(err, framework.ErrNoClient) {
		return nil, fmt.Errorf("inspect: servers: %w", err)
	}
	var all []Server
	for _, address := range client.Servers() {
		all = append(all, Server{Address: address})
	}
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i].askWords(ctx, client, words) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return all, fmt.Errorf("inspect: servers: %w", client.WaitError(ctx, nil))
	}
	return all, nil
}

// askWords sends the words to one server, until one other than srvr fails. A word that the server does not allow is
// skipped.
func (s *Server) askWords(ctx context.Context, client *framework.Client, words []string) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	for _, word := range words {
		began := time.Now()
		text, err := client.FourLetterWord(ctx, s.Address, word)
		if err == nil && strings.Contains(text, "not currently serving requests") {
			err = fmt.Errorf("%w: %s", errNoQuorum, strings.TrimSpace(text))
		}
		if err != nil && ctx.Err() != nil { // instead of the error of the closed connection
			err = ctx.Err()
		}
		if isTimeout(err) {
			err = timeoutError{roundDuration(time.Since(began)), err}
		}
		switch refused := errors.Is(err, framework.ErrWordRefused); {
		case err != nil && word == "srvr":
			s.Err = err
		case err != nil && !refused:
			return
		case err != nil:
		case word == "srvr":
			s.Took = time.Since(began)
			s.parseState(text)
		case word == "conf":
			s.Config = parseConfig(text)
		case word == "cons":
			s.Connections, s.Listed = parseConnections(s.Address, text), true
		}
	}
}

// parseState reads the reply to srvr.
func (s *Server) parseState(text string) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Zookeeper version":
			s.Version, _, _ = strings.Cut(value, ",")
		case "Mode":
			s.Mode = value
		case "Zxid":
			s.Zxid = parseZxid(value)
		case "Connections":
			s.Clients = parseCount(value)
		case "Outstanding":
			s.Outstanding = parseCount(value)
		case "Latency min/avg/max":
			if parts := strings.Split(value, "/"); len(parts) == 3 {
				s.Average, s.Most = parseMilliseconds(parts[1]), parseMilliseconds(parts[2])
			}
		}
	}
}

// parseConfig reads the reply to conf. It returns nil if the text is not a configuration.
func parseConfig(text string) *ServerConfig {
	var c ServerConfig
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "tickTime":
			c.TickTime = parseMilliseconds(value)
		case "minSessionTimeout":
			c.MinSessionTimeout = parseMilliseconds(value)
		case "maxSessionTimeout":
			c.MaxSessionTimeout = parseMilliseconds(value)
		case "initLimit":
			c.InitLimit = parseCount(value)
		case "syncLimit":
			c.SyncLimit = parseCount(value)
		case "maxClientCnxns":
			c.MaxClientConnections = parseCount(value)
		}
	}
	if c.TickTime == 0 {
		return nil
	}
	return &c
}

// parseConnections reads the reply to cons: lines such as
// /10.0.0.1:4711[1](queued=0,recved=1,sent=1,sid=0x1,lop=PING,est=1,to=30000,lcxid=0x1,lzxid=0x1,lresp=9,llat=0).
// The connection that has sent cons is among them, and has no session.
func parseConnections(server, text string) (all []Connection) {
	var answered []int64
	var last int64
	for line := range strings.Lines(text) {
		client, fields, found := strings.Cut(strings.TrimSpace(line), "](")
		end := strings.LastIndexByte(client, '[')
		if !found || end < 0 {
			continue
		}
		c := Connection{Server: server, Client: strings.TrimPrefix(client[:end], "/")}
		at := int64(0)
		for field := range strings.SplitSeq(strings.TrimSuffix(fields, ")"), ",") {
			switch key, value, _ := strings.Cut(field, "="); key {
			case "sid":
				id, _ := strconv.ParseUint(strings.TrimPrefix(value, "0x"), 16, 64)
				c.Session = int64(id)
			case "to":
				c.Timeout = parseMilliseconds(value)
			case "lresp":
				at, _ = strconv.ParseInt(value, 10, 64)
			}
		}
		if c.Session != 0 {
			all, answered, last = append(all, c), append(answered, at), max(last, at)
		}
	}
	for i, at := range answered {
		if silent := last - at; at > 0 && silent > 0 && silent < 1e9 {
			all[i].Silent = time.Duration(silent) * time.Millisecond
		}
	}
	return all
}

// parseZxid reads a number as servers write zxids, such as 0x100000002; anything else is 0.
func parseZxid(text string) int64 {
	digits, hexadecimal := strings.CutPrefix(text, "0x")
	id, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || !hexadecimal {
		return 0
	}
	return int64(id)
}

// parseCount reads a number that is not negative; anything else is 0.
func parseCount(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// parseMilliseconds reads a time that is not negative and less than a year; anything else is 0.
func parseMilliseconds(text string) time.Duration {
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ms >= 0 && ms < 3e10) {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// Connected has the sessions that are connected to the servers, as far as these report them.
type Connected struct {
	// By is by session. A session that moves between the servers' replies may be in the lists of two: then it is the
	// connection that was reported last.
	By map[int64]Connection
	// Missing is a sentence about why connected sessions may be absent from By, or "" if none are.
	Missing string
}

// Connections asks all servers of the client for their connections. Requests and errors are as in [Servers], but it
// sends only one word, "cons".
func Connections(ctx context.Context, client *framework.Client) (Connected, error) {
	// First, so that the list of the connected server has a reply of just now: parseConnections computes from it for
	// how long the other connections have been silent.
	config, unknown := client.GetConfig(ctx)
	servers, err := askServers(ctx, client, "cons")
	if err != nil {
		return Connected{}, err
	}
	c := ConnectedTo(servers)
	if unknown == nil && len(config.Members) > len(servers) {
		c.setMissing("the client knows %d of %d servers", len(servers), len(config.Members))
	}
	return c, nil
}

// ConnectedTo returns the result of [Connections] from servers' reports. It sends no request.
func ConnectedTo(servers []Server) Connected {
	c := Connected{By: map[int64]Connection{}}
	unlisted := 0
	for _, s := range servers {
		if !s.Listed {
			unlisted++
		}
		for _, own := range s.Connections {
			if other, known := c.By[own.Session]; !known || own.Silent < other.Silent {
				c.By[own.Session] = own
			}
		}
	}
	if unlisted > 0 {
		c.setMissing("%d of %s not list the connections (4lw.commands.whitelist needs cons)", unlisted,
			formatCount(len(servers), "server does", "servers do"))
	}
	return c
}

func (c *Connected) setMissing(format string, args ...any) {
	if c.Missing == "" {
		c.Missing = fmt.Sprintf(format, args...)
	}
}
