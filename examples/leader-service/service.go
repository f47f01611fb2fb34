package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/leader"
)

// service is one copy.
type service struct {
	settings
	client   *framework.Client
	selector *leader.Selector
	seen     atomic.Pointer[leader.Observation] // who leads; nil until that is known

	mu  sync.Mutex // one line at a time
	out io.Writer  // guarded by mu
}

// serve runs a copy until ctx ends. At the end the order matters: first the work ends, then the place in the
// election, HTTP, the session.
func serve(ctx context.Context, s settings, out io.Writer) error {
	client, err := framework.New(s.servers, framework.WithSessionTimeout(s.timeout))
	if err != nil {
		return err
	}
	defer client.Close()
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	if s.address == "" {
		s.address = "http://" + listener.Addr().String()
	}
	c := &service{settings: s, client: client, out: out}
	c.selector = leader.NewSelector(client, s.path+"/election", c.lead, leader.WithID(s.address))
	c.say("serving %s", s.address)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	web := &http.Server{Handler: c.handler()}
	group.Go(func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cancel(err)
		}
	})
	group.Go(func() { c.observe(ctx) })
	err = c.selector.Run(ctx) // returns when the work is done and the place is given up
	c.say("ending: %v", err)
	cancel(err)

	closing, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	closed := web.Shutdown(closing)
	group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil // as asked for
	}
	return errors.Join(err, closed)
}

// lead is the leader's work: here, a count of the time it leads, kept in ZooKeeper. It may do what only the
// leader may do as long as its context lasts; the next leader begins when it has returned.
func (c *service) lead(ctx context.Context) error {
	term := leader.TermOf(ctx)
	c.say("leading, fencing token %d", term.FencingToken())
	for job := 1; ctx.Err() == nil; job++ {
		// Each job is finished even if the term ends before it. The guard still refuses a write that comes too late.
		working, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		err := c.add(working, term, "ticks")
		stop()
		if err != nil && ctx.Err() == nil {
			c.say("job %d failed: %v", job, err)
		}
		sleep(ctx, 50*time.Millisecond)
	}
	c.say("not leading any more: %v", context.Cause(ctx))
	return nil
}

// add adds one to a counter, in a transaction that the server executes only for the leader.
func (c *service) add(ctx context.Context, term *leader.Term, counter string) error {
	path := c.path + "/" + counter
	for {
		var stat framework.Stat
		data, err := c.client.GetData().StoringStatIn(&stat).ForPath(ctx, path)
		if errors.Is(err, framework.ErrNoNode) {
			_, err = c.client.Create().CreatingParentsIfNeeded().ForPath(ctx, path, []byte("0"))
			if err == nil || errors.Is(err, framework.ErrNodeExists) {
				continue
			}
		}
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(data))
		if err != nil {
			return fmt.Errorf("the counter at %s is not a number: %q", path, data)
		}
		next := strconv.AppendInt(nil, int64(n)+1, 10)
		set := c.client.TransactionOp().SetData().WithVersion(stat.Version).ForPath(path, next)
		if _, err = c.client.Transaction(ctx, term.Guard(), set); !errors.Is(err, framework.ErrBadVersion) {
			return err
		}
	}
}

// observe remembers who leads, to redirect requests that reach another copy.
func (c *service) observe(ctx context.Context) {
	for now, err := range c.selector.Observe(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				c.say("%v", err)
			}
			continue
		}
		c.seen.Store(&now)
	}
}

// leader returns the address of the leading copy, "" if there is none, or none is known. Any client that may stand
// for election can write any text there, so a text that is not an address is ignored. Clients are redirected to it:
// an ACL must restrict its writers, see docs/security.md.
func (c *service) leader() string {
	seen := c.seen.Load()
	if seen == nil {
		return ""
	}
	at, err := url.Parse(seen.Leader.ID)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return ""
	}
	return seen.Leader.ID
}

func (c *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8") // whatever it looks like
		w.Header().Set("X-Content-Type-Options", "nosniff")
		fmt.Fprintf(w, "%s: %v; leader: %q\n", c.address, c.selector.Health().Role, c.leader())
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		health := c.selector.Health()
		if err := health.Check(c.timeout); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, health)
	})
	mux.HandleFunc("POST /work", c.work)
	return mux
}

func (c *service) work(w http.ResponseWriter, r *http.Request) {
	if term := c.selector.Term(); term != nil {
		if err := c.add(r.Context(), term, "work"); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "done by %s\n", c.address)
		return
	}
	if other := c.leader(); other != "" && other != c.address {
		http.Redirect(w, r, other+"/work", http.StatusTemporaryRedirect)
		return
	}
	http.Error(w, "no instance leads at the moment: try again", http.StatusServiceUnavailable)
}

func (c *service) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, format+"\n", args...)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
