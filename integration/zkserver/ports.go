package zkserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports below the system's range for outgoing connections: while a server is down, no client's own socket can sit on
// its port, nor connect to itself by accident.
const firstPort, lastPort = 15000, 32000

var handedOut sync.Map // of int: ports of this process, kept by servers that are down

// freePort picks a random port without a listener. Another process may still be faster: the caller must be ready to
// pick again.
func freePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if _, taken := handedOut.LoadOrStore(port, true); taken {
			continue
		}
		listener, err := net.Listen("tcp", addrOf(port))
		if err != nil {
			continue
		}
		listener.Close()
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

// FreePort is a port that is not in use now, for a server's further addresses.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func addrOf(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
