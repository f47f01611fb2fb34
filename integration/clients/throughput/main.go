// Command throughput measures how many operations a second a server does for clients that do not wait for each reply.
//
//	throughput -serve             be a zktest, print its address, end with the input
//	throughput -addr HOST:PORT    load a server and print operations per second
//
// Each client creates, reads, sets and deletes its own nodes with 100 bytes of data, and has at most a window of
// requests in flight.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/zktest"
)

var (
	serve   = flag.Bool("serve", false, "be a zktest")
	profile = flag.String("profile", "", "with -serve: write a CPU profile to this file")
	addr    = flag.String("addr", "", "the server to load")
	clients = flag.Int("clients", 4, "how many connections")
	window  = flag.Int("window", 128, "requests under way on each connection")
	during  = flag.Duration("for", time.Second, "how long")
)

func main() {
	flag.Parse()
	run := load
	if *serve {
		run = server
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "throughput:", err)
		os.Exit(1)
	}
}

func server() error {
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	s, err := zktest.NewServer(zktest.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println(s.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// turn is the number of operations in a client's step: batch nodes, four operations each.
const (
	batch = 8
	turn  = 4 * batch
)

func load() error {
	if *addr == "" {
		return errors.New("-addr is missing")
	}
	ends := time.Now().Add(*during)
	began := time.Now()
	var all sync.WaitGroup
	done, errs := make([]int, *clients), make([]error, *clients)
	for i := range *clients {
		all.Go(func() { done[i], errs[i] = client(i, ends) })
	}
	all.Wait()
	sum := 0
	for _, n := range done {
		sum += n
	}
	fmt.Printf("%.0f\n", float64(sum)/time.Since(began).Seconds())
	return errors.Join(errs...)
}

func client(number int, ends time.Time) (done int, err error) {
	nc, err := net.Dial("tcp", *addr)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	if err := nc.SetDeadline(ends.Add(30 * time.Second)); err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(nc, 64<<10)
	if _, err := nc.Write(jute.Frame(&jute.ConnectRequest{Timeout: 30_000, Password: make([]byte, 16),
		HasReadOnly: true})); err != nil {
		return 0, err
	}
	if _, err := reply(in); err != nil {
		return 0, err
	}
	if err := home(nc, in, number); err != nil {
		return 0, err
	}

	tokens := make(chan struct{}, max(*window/turn, 1)) // one for each turn under way
	written := make(chan error, 1)
	go func() {
		defer close(tokens)
		var frames []byte
		for xid := int32(1); time.Now().Before(ends); xid += turn {
			frames = requests(frames[:0], number, xid)
			tokens <- struct{}{}
			if _, err := nc.Write(frames); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	for range tokens {
		for range turn {
			code, err := reply(in)
			if err == nil && code != 0 {
				err = fmt.Errorf("error code %d", code)
			}
			if err != nil {
				nc.Close()
				for range tokens { // until the writer has noticed
				}
				return done, errors.Join(err, <-written)
			}
			done++
		}
	}
	if err := <-written; err != nil {
		return done, err
	}
	_, err = nc.Write(jute.Frame(&jute.RequestHeader{Xid: 1, Op: jute.OpCloseSession}))
	return done, err
}

var open = []jute.ACL{{Perms: jute.PermAll, Scheme: "world", ID: "anyone"}}

// home makes the client's directory, which may be there from an earlier run.
func home(nc net.Conn, in *bufio.Reader, number int) error {
	_, err := nc.Write(jute.Frame(&jute.RequestHeader{Xid: 1, Op: jute.OpCreate},
		&jute.CreateRequest{Path: fmt.Sprintf("/client%d", number), ACL: open}))
	if err != nil {
		return err
	}
	code, err := reply(in)
	if err == nil && code != jute.CodeOK && code != jute.CodeNodeExists {
		err = fmt.Errorf("no home: error code %d", code)
	}
	return err
}

var data = make([]byte, 100)

// requests appends the frames of a turn.
func requests(frames []byte, number int, xid int32) []byte {
	for op := range 4 {
		for i := range batch {
			path := fmt.Sprintf("/client%d/node%d", number, i)
			header := jute.RequestHeader{Xid: xid + int32(op*batch+i)}
			var record jute.Record
			switch op {
			case 0:
				header.Op, record = jute.OpCreate, &jute.CreateRequest{Path: path, Data: data, ACL: open}
			case 1:
				header.Op, record = jute.OpGetData, &jute.PathWatchRequest{Path: path}
			case 2:
				header.Op, record = jute.OpSetData, &jute.SetDataRequest{Path: path, Data: data, Version: -1}
			case 3:
				header.Op, record = jute.OpDelete, &jute.PathVersionRequest{Path: path, Version: -1}
			}
			frames = append(frames, jute.Frame(&header, record)...)
		}
	}
	return frames
}

// reply reads a frame and returns the error code in its header; for the reply to a handshake the result has no
// meaning.
func reply(in *bufio.Reader) (code int32, err error) {
	var head [20]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, err
	}
	_, err = in.Discard(int(binary.BigEndian.Uint32(head[:])) - 16)
	return int32(binary.BigEndian.Uint32(head[16:])), err
}
