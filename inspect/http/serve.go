package inspecthttp

import (
	"embed"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

//go:embed static
var staticFiles embed.FS

// contentTypes are the page's files, and their types.
var contentTypes = map[string]string{
	"index.html": "text/html; charset=utf-8",
	"style.css":  "text/css; charset=utf-8",
	"page.js":    "text/javascript; charset=utf-8",
	"draw.js":    "text/javascript; charset=utf-8",
	"icon.svg":   "image/svg+xml",
}

// securityPolicy lets the page load its own files and talk to its own address, and nothing else: no script in the
// page's text, no frame around it, and no text made to markup by a script.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP serves the page (GET of the path that it is mounted at, with a slash at the end), its files, its stream
// of events ("events"), and deletions ("delete"). Their form may change.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", securityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !p.isServedHost(r.Host) {
		http.Error(w, "This page is not served under this host name.", http.StatusMisdirectedRequest)
		return
	}
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	methods := []string{http.MethodGet, http.MethodHead}
	if name == "delete" {
		methods = []string{http.MethodPost}
	}
	if !slices.Contains(methods, r.Method) {
		h.Set("Allow", strings.Join(methods, ", "))
		http.Error(w, "This takes "+methods[0]+" only.", http.StatusMethodNotAllowed)
		return
	}
	switch name {
	case "events":
		p.streamEvents(w, r)
	case "delete":
		p.serveDeletion(w, r)
	case "":
		p.serveFile(w, r, "index.html")
	default:
		p.serveFile(w, r, name)
	}
}

// isServedHost reports whether requests to this host are served.
func (p *Page) isServedHost(host string) bool {
	if len(p.hosts) == 0 {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return slices.Contains(p.hosts, canonicalHost(host))
}

func (p *Page) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	kind, known := contentTypes[name]
	content, err := staticFiles.ReadFile("static/" + name)
	if !known || err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(content)
}

const (
	// writeTimeout is the time that a viewer has to take a message.
	writeTimeout = 10 * time.Second
	// keepAlivePeriod is the time without a change after which a viewer is sent an empty message: it shows each side that
	// the other is alive.
	keepAlivePeriod = 15 * time.Second
)

// streamEvents is the stream of one viewer: server-sent events, each with the changes since the last one. It ends with the
// viewer or the page.
func (p *Page) streamEvents(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		http.Error(w, "Requests from pages of other sites are refused.", http.StatusForbidden)
		return
	}
	if err := p.addViewer(); err != nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, shownText(err.Error(), 200), http.StatusServiceUnavailable)
		return
	}
	defer p.removeViewer()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // nginx would keep it back
	stream := http.NewResponseController(w)
	send := func(n viewerMessage) bool {
		message, _ := json.Marshal(n)
		_ = stream.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has deadlines
		_, err := w.Write(slices.Concat([]byte("data: "), message, []byte("\n\n")))
		return err == nil && stream.Flush() == nil
	}
	if r.Method == http.MethodHead {
		return
	}
	p.showClient(false)
	greeting := &viewerConfig{Root: shownText(p.root, 300), Delete: p.mayDelete}
	if p.mayDelete {
		greeting.Token = p.token
	}
	var seen int64
	silence := time.NewTicker(keepAlivePeriod)
	defer silence.Stop()
	for {
		n, last, changed := p.board.changesSince(seen)
		if last > seen || greeting != nil {
			n.Config = greeting
			if !send(n) {
				return
			}
			greeting, seen = nil, last
			silence.Reset(keepAlivePeriod)
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.ctx.Done():
			return
		case <-changed:
		case <-silence.C:
			if !send(viewerMessage{Now: time.Now().UnixMilli()}) {
				return
			}
		}
	}
}
