// Package live plays an incident before a real Prometheus with the rules and the dashboard of docs/operating. It needs
// Debian's package prometheus; ../run installs it.
package live

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curatorprom "github.com/go-curator/curator/contrib/prometheus"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/zktest"
)

const kit = "../../../docs/operating"

// promtool runs promtool in the kit's directory.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("promtool", args...)
	cmd.Dir = kit
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestRules(t *testing.T) {
	promtool(t, "check", "rules", "alerts.yaml")
	promtool(t, "test", "rules", "alerts_test.yaml")
}

// server is a Prometheus that this test has started.
type server struct{ url string }

// start runs a Prometheus that scrapes target and has the kit's rules.
func start(t *testing.T, target string) server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())
	alerts, err := filepath.Abs(filepath.Join(kit, "alerts.yaml"))
	require.NoError(t, err)
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs:\n- job_name: orders\n  static_configs: [{targets: [%q]}]\n", alerts, target)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	cmd := exec.Command("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
		"--web.listen-address="+addr)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s", text)
		}
	})
	return server{"http://" + addr}
}

// get decodes a reply of the API into data.
func (s server) get(ctx context.Context, path string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, body)
	}
	return json.Unmarshal(body, data)
}

// alert is a pending or firing alert.
type alert struct {
	State               string
	Labels, Annotations map[string]string
}

// firing waits until an alert fires.
func (s server) firing(t *testing.T, name string) alert {
	t.Helper()
	var last any
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		var answer struct{ Data struct{ Alerts []alert } }
		if last = s.get(t.Context(), "/api/v1/alerts", &answer); last != nil {
			continue // not yet up
		}
		for _, a := range answer.Data.Alerts {
			if a.Labels["alertname"] == name && a.State == "firing" {
				return a
			}
		}
		last = answer
	}
	require.Fail(t, "alert does not fire", "%s: %v", name, last)
	return alert{}
}

// query returns the number of series in the result.
func (s server) query(ctx context.Context, promql string) (series int, err error) {
	var answer struct {
		Data struct{ Result []json.RawMessage }
	}
	err = s.get(ctx, "/api/v1/query?query="+url.QueryEscape(promql), &answer)
	return len(answer.Data.Result), err
}

// A holder and a waiter; the holder's node is deleted. The alert fires and names the lock, and the dashboard shows it;
// its count of losses includes the first.
func TestALostHoldFires(t *testing.T) {
	zk, err := zktest.NewServer(zktest.Config{Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	defer zk.Close()
	metrics := curatorprom.NewCollector(curatorprom.WithPaths(func(path string) string { return path }))
	connect := func(name string) *framework.Client {
		client, err := framework.New(zk.Addr(), framework.WithHooks(metrics.Hooks(name)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		t.Cleanup(metrics.Watch(name, client))
		return client
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	exporter := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer exporter.Close()

	const path = "/locks/orders"
	held, err := mutex.New(connect("billing"), path).Acquire(t.Context())
	require.NoError(t, err)
	next := make(chan error, 1)
	shipping := mutex.New(connect("shipping"), path)
	go func() { // and keeps it: the metrics by path exist only while there is a waiter or a holder
		_, err := shipping.Acquire(t.Context())
		next <- err
	}()

	prom := start(t, strings.TrimPrefix(exporter.URL, "http://"))
	require.Eventually(t, func() bool {
		series, err := prom.query(t.Context(), `curator_queue_waiting{client="shipping"} == 1`)
		return err == nil && series == 1
	}, 2*time.Minute, 100*time.Millisecond, "the waiter is seen")
	packing := mutex.New(connect("packing"), path)
	go func() { _, _ = packing.Acquire(t.Context()) }() // behind shipping, until the end
	series, err := prom.query(t.Context(), `ALERTS{alertname="CuratorHoldLost"}`)
	require.NoError(t, err)
	require.Zero(t, series, "before the loss")

	require.NoError(t, zk.Delete(held.Path()))
	<-held.Context().Done()
	require.NoError(t, <-next, "the waiter goes on")
	fired := prom.firing(t, "CuratorHoldLost")
	assert.Equal(t, "billing", fired.Labels["client"])
	assert.Equal(t, "node_deleted", fired.Labels["cause"])
	assert.Equal(t, "page", fired.Labels["severity"])
	assert.Contains(t, fired.Annotations["summary"], "billing")
	assert.Contains(t, fired.Annotations["summary"], "has lost a mutex: node_deleted")
	dashboard(t, prom)
}

// dashboard runs every query of the dashboard as Grafana would. The queries for troubles that this test does not cause
// have no series.
func dashboard(t *testing.T, prom server) {
	t.Helper()
	const lost = "Holds lost in the last hour"
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(filepath.Join(kit, "dashboard.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &board))
	quiet := map[string]bool{"Retries": true, "Operations that failed": true, "State changes": true}
	fill := strings.NewReplacer("$__rate_interval", "1m", "$job", "orders", "$client", ".*")
	assert.Contains(t, string(text), `"`+lost+`"`)
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			query := fill.Replace(target.Expr)
			if panel.Title == lost {
				query = "(" + query + ") > 0"
			}
			var err error
			assert.Eventually(t, func() bool { // a rate takes two scrapes
				var series int
				series, err = prom.query(t.Context(), query)
				return err == nil && (series > 0 || quiet[panel.Title])
			}, time.Minute, 100*time.Millisecond, "%s: %s", panel.Title, query)
			assert.NoError(t, err)
		}
	}
}
