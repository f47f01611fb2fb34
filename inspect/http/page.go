package inspecthttp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

const (
	// mostViewers is the number of viewers that may be served at the same time.
	mostViewers = 64
	// idleTime is the time from the last viewer's end to the cache's.
	idleTime = 10 * time.Minute
)

// Page is the page, an http.Handler. It works below whatever path it is mounted at, which must end with a
// slash; http.StripPrefix is not needed, and does no harm. Safe for concurrent use.
type Page struct {
	client    *framework.Client
	root      string
	mayDelete bool
	hosts     []string
	token     string // which a POST must have

	board  screenBoard
	health clientHistory

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	mu           sync.Mutex // guards the rest
	closed       bool
	viewers      int
	idleTimer    *time.Timer        // fires idleTime after the last viewer's end
	stopWatching context.CancelFunc // nil while nothing is watched
}

// New makes a page of the lines at root and below it. It sends nothing before the first viewer comes, and then uses
// the client until [Page.Close]; the client is the caller's to close.
//
// Errors: framework.ErrNoClient, ErrInvalidPath, ErrInvalidOption. A root that does not exist, or may not be read, is
// not an error: the page shows that.
func New(client *framework.Client, root string, opts ...Option) (*Page, error) {
	var fault *zkpath.Error
	switch err := zkpath.Validate(root, false); {
	case client == nil:
		return nil, fmt.Errorf("inspect/http: %w", framework.ErrNoClient)
	case errors.Is(client.Err(), framework.ErrNoClient):
		return nil, fmt.Errorf("inspect/http: %w", client.Err())
	case errors.As(err, &fault):
		return nil, fmt.Errorf("inspect/http: %w %q: %s", framework.ErrInvalidPath, fault.Path, fault.Reason)
	}
	p := &Page{client: client, root: root, token: rand.Text()}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("inspect/http: %w: an option is nil; leave it out", framework.ErrInvalidOption)
		}
		if err := opt(p); err != nil {
			return nil, fmt.Errorf("inspect/http: %w", err)
		}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.board.clear()
	p.goroutines.Go(p.recordStates)
	return p, nil
}

// Close ends the page: viewers' streams end, and all else gets 503. When it returns, the page's goroutines
// and its cache have ended. Call it when the HTTP server shuts down (http.Server.RegisterOnShutdown), since
// Shutdown waits for streams. Closing again does nothing.
func (p *Page) Close() {
	p.mu.Lock()
	p.closed = true
	if p.idleTimer != nil {
		p.idleTimer.Stop()
	}
	p.mu.Unlock()
	p.cancel()
	p.goroutines.Wait()
}

var (
	errClosed         = errors.New("the page is closed: its service is shutting down")
	errTooManyViewers = fmt.Errorf("%d viewers are served already: close a tab, or retry later", mostViewers)
)

// addViewer counts a viewer, and begins to watch for the first one.
func (p *Page) addViewer() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return errClosed
	case p.viewers == mostViewers:
		return errTooManyViewers
	}
	p.viewers++
	if p.idleTimer != nil {
		p.idleTimer.Stop()
	}
	if p.stopWatching == nil {
		ctx, cancel := context.WithCancel(p.ctx)
		p.stopWatching = cancel
		p.goroutines.Go(func() { p.watchTree(ctx) })
	}
	return nil
}

// hasViewers reports whether a browser shows the page.
func (p *Page) hasViewers() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.viewers > 0
}

func (p *Page) removeViewer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.viewers--; p.viewers == 0 && !p.closed {
		p.idleTimer = time.AfterFunc(idleTime, p.stopIfUnwatched)
	}
}

// stopIfUnwatched ends the watching if there is still no viewer.
func (p *Page) stopIfUnwatched() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.viewers == 0 && p.stopWatching != nil {
		p.stopWatching()
		p.stopWatching = nil
	}
}
