package curatorhttp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"

	curatorhttp "github.com/go-curator/curator/contrib/http"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/discovery"
	"github.com/go-curator/curator/zktest"
)

// A client whose requests go to the instances of a service in turn, and not to an instance whose server is down.
func Example() {
	server, err := zktest.NewServer(zktest.Config{}) // stands for "zk1:2181,zk2:2181,zk3:2181"
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	zk, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	defer zk.Close()
	ctx := context.Background()
	services, err := discovery.New[any](zk, "/services")
	if err != nil {
		log.Fatal(err)
	}

	for _, name := range []string{"one", "two", "down"} { // in practice each in its own process
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "instance %s", name)
		}))
		defer web.Close()
		at := web.Listener.Addr().(*net.TCPAddr)
		me, err := services.Register(ctx, discovery.Instance[any]{Name: "web", ID: name, Address: at.IP.String(), Port: at.Port})
		if err != nil {
			log.Fatal(err)
		}
		defer me.Unregister(ctx)
		if name == "down" {
			web.Close()
		}
	}

	web, err := services.Cache("web")
	if err != nil {
		log.Fatal(err)
	}
	defer web.Close()
	if err := web.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	provider, err := discovery.NewProvider(web)
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: curatorhttp.NewTransport(provider, nil)}
	defer client.CloseIdleConnections()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections() // of NewTransport(provider, nil)
	answers := map[string]int{}
	for range 6 {
		answer, err := client.Get("http://web/status")
		if err != nil {
			log.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			log.Fatal(err)
		}
		answers[string(body)]++
	}
	fmt.Println("answers:", answers)
	// Output:
	// answers: map[instance one:3 instance two:3]
}
