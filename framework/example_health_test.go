package framework_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/zktest"
)

// A readiness probe that does not flap when one server restarts.
func ExampleClient_Health() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial))
	if err != nil {
		log.Fatal(err)
	}
	ready := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := client.Health().Check(10 * time.Second); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	probe := func() {
		answer := httptest.NewRecorder()
		ready.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		fmt.Print(answer.Code, " ", answer.Body)
	}
	if err := client.WaitConnected(context.Background()); err != nil {
		log.Fatal(err)
	}
	probe()
	server.Cut(0) // a server restarts
	probe()
	_ = client.Close()
	probe()
	// Output:
	// 200 ready
	// 200 ready
	// 503 client closed
}

func ExampleWithHooks() {
	server, err := zktest.NewServer(zktest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	slow := framework.Hooks{Operation: func(_ context.Context,
		op framework.Operation) func(framework.OperationEnd) {
		began := time.Now()
		return func(end framework.OperationEnd) {
			if took := time.Since(began); took > time.Second || end.Err != nil {
				fmt.Printf("%s %s took %v and %d tries: %v\n", op.Name, op.Path, took.Round(time.Second), end.Attempts,
					end.Err)
			}
		}
	}}
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial), framework.WithHooks(slow))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if _, err := client.GetData().ForPath(context.Background(), "/none"); err != nil {
		return
	}
	// Output:
	// getData /none took 0s and 1 tries: getData /none: node does not exist
}
