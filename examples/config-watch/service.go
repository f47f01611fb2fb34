package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
)

// config is a configuration in use. It is replaced as a whole and never changed: it can be used without a lock, and
// never shows half of a change.
type config struct {
	LogLevel string
	Limits   limits
	Features []string // the enabled ones, sorted
}

type limits struct{ RequestsPerSecond int }

// String is safe to print on a terminal: the texts are quoted, since any client that may write the configuration has
// chosen them.
func (c *config) String() string {
	return fmt.Sprintf("log level %q, %d requests/s, features %q",
		c.LogLevel, c.Limits.RequestsPerSecond, c.Features)
}

// service is a service with a live configuration:
//
//	<path>/log-level         "info"
//	<path>/limits            {"RequestsPerSecond": 100}
//	<path>/features/<name>   "on" or "off"
type service struct {
	tree *cache.Cache
	path string
	out  io.Writer

	mu      sync.Mutex
	now     status        // guarded by mu
	changed chan struct{} // closed and replaced when now changes; guarded by mu
}

// status is the service's state.
type status struct {
	config  *config // in use; nil until the configuration has been read
	refused error   // why the configuration in ZooKeeper is not in use
	offline bool
}

func newService(client *framework.Client, path string, out io.Writer) (*service, error) {
	tree, err := cache.New(client, path)
	if err != nil {
		return nil, err
	}
	return &service{tree: tree, path: path, out: out, changed: make(chan struct{})}, nil
}

// run follows the configuration until ctx ends.
func (s *service) run(ctx context.Context) error {
	defer s.tree.Close()
	ready := false
	for ev, err := range s.tree.Events(ctx) {
		if err != nil {
			return err
		}
		switch ev.Type {
		case cache.ConnectionChanged:
			s.connection(ev.State.State)
			continue
		case cache.Failed:
			fmt.Fprintf(s.out, "  service: %v\n", ev)
			continue
		case cache.Initialized:
			ready = true // before that the configuration would be incomplete
		}
		if ready {
			s.apply()
		}
	}
	return nil
}

// connection reports a change of the connection. The service keeps its configuration, and the cache is in sync again
// after the reconnect.
func (s *service) connection(state framework.State) {
	now := s.status()
	if now.offline == state.IsConnected() {
		if now.offline = !state.IsConnected(); now.offline {
			fmt.Fprintln(s.out, "  service: no connection, going on with what it has")
		} else {
			fmt.Fprintln(s.out, "  service: connected again")
		}
		s.set(now)
	}
}

// apply reads the configuration from the cache, which costs no request, and uses it if it is valid.
func (s *service) apply() {
	now := s.status()
	c, err := s.parse()
	if now.refused = err; err != nil {
		fmt.Fprintf(s.out, "  service: keeping what it has: %v\n", err)
	} else if now.config == nil || now.config.String() != c.String() {
		fmt.Fprintf(s.out, "  service: %v\n", c)
		now.config = c
	}
	s.set(now)
}

func (s *service) parse() (*config, error) {
	c := &config{LogLevel: "info", Limits: limits{100}}
	features := map[string]bool{}
	for path, node := range s.tree.All() { // one moment of the whole subtree
		switch name, _ := strings.CutPrefix(path, s.path); {
		case name == "/log-level":
			c.LogLevel = string(node.Data)
		case name == "/limits":
			if err := json.Unmarshal(node.Data, &c.Limits); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		case strings.HasPrefix(name, "/features/"):
			features[node.Name()] = string(node.Data) == "on"
		}
	}
	maps.DeleteFunc(features, func(_ string, on bool) bool { return !on })
	c.Features = slices.Sorted(maps.Keys(features))
	return c, nil
}

func (s *service) status() status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *service) set(now status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until the service has the wanted state.
func (s *service) await(ctx context.Context, want func(status) bool) error {
	for {
		s.mu.Lock()
		now, changed := s.now, s.changed
		s.mu.Unlock()
		if want(now) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the service runs with %v (refused: %v): %w",
				now.config, now.refused, ctx.Err())
		}
	}
}
