package inspecthttp_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-curator/curator/framework"
	inspecthttp "github.com/go-curator/curator/inspect/http"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// A service mounts the page next to its other pages for operators.
func Example() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial)) // framework.New("zk1:2181,zk2:2181")
	if err != nil {
		panic(err)
	}
	defer client.Close()

	page, err := inspecthttp.New(client, "/locks")
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/curator/", page)
	service := httptest.NewServer(mux)
	defer service.Close()
	defer page.Close() // ends the viewers' streams, for which Close of the server waits

	lock, err := mutex.New(client, "/locks/orders", mutex.WithNodeData([]byte("billing"))).Acquire(context.Background())
	if err != nil {
		panic(err)
	}
	defer lock.Release(context.Background())

	html, err := http.Get(service.URL + "/debug/curator/")
	if err != nil {
		panic(err)
	}
	defer html.Body.Close()
	fmt.Println(html.Status, html.Header.Get("Content-Type"))

	stream, err := http.Get(service.URL + "/debug/curator/events") // as the page's script does
	if err != nil {
		panic(err)
	}
	defer stream.Body.Close()
	events := bufio.NewReader(stream.Body)
	for {
		event, err := events.ReadString('\n')
		if err != nil {
			panic(err)
		}
		if strings.Contains(event, `"path":"/locks/orders"`) && strings.Contains(event, `"data":"billing"`) {
			fmt.Println("billing holds /locks/orders")
			break
		}
	}
	// Output:
	// 200 OK text/html; charset=utf-8
	// billing holds /locks/orders
}
