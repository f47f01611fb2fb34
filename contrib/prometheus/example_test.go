package curatorprom_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	curatorprom "github.com/go-curator/curator/contrib/prometheus"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

// A service that acquires a lock, and the lines of its /metrics that show it.
func Example() {
	server, err := zktest.NewServer(zktest.Config{}) // stands for "zk1:2181,zk2:2181,zk3:2181"
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	metrics := curatorprom.NewCollector()
	registry := prometheus.NewRegistry() // or prometheus.MustRegister
	registry.MustRegister(metrics)
	client, err := framework.New(server.Addr(), framework.WithDialer(server.Dial),
		framework.WithHooks(metrics.Hooks("orders")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	defer metrics.Watch("orders", client)()
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{}) // http.Handle("/metrics", handler)

	lock, err := mutex.New(client, "/locks/orders").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lock.ReleaseInBackground()

	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		for _, name := range []string{"connected", "holds", "acquire_duration_seconds_count", "holds_lost_total"} {
			if strings.HasPrefix(lines.Text(), "curator_"+name+"{") {
				fmt.Println(lines.Text())
			}
		}
	}
	// Output:
	// curator_acquire_duration_seconds_count{client="orders",recipe="mutex",result="canceled"} 0
	// curator_acquire_duration_seconds_count{client="orders",recipe="mutex",result="deadline"} 0
	// curator_acquire_duration_seconds_count{client="orders",recipe="mutex",result="not_acquired"} 0
	// curator_acquire_duration_seconds_count{client="orders",recipe="mutex",result="ok"} 1
	// curator_connected{client="orders"} 1
	// curator_holds{client="orders"} 1
	// curator_holds_lost_total{cause="node_deleted",client="orders",recipe="mutex"} 0
	// curator_holds_lost_total{cause="session_lost",client="orders",recipe="mutex"} 0
	// curator_holds_lost_total{cause="suspended",client="orders",recipe="mutex"} 0
	// curator_holds_lost_total{cause="timeout_too_short",client="orders",recipe="mutex"} 0
}
