package inspecthttp

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/plain"
)

// deletionTime bounds a deletion.
const deletionTime = 10 * time.Second

// tokenHeader is the header of a POST for the page's token. A form of another site cannot set it.
const tokenHeader = "X-Curator-Token"

// deletionRequest is a POST's body: a participant as viewers name it.
type deletionRequest struct {
	Line int   `json:"line"`
	Key  int64 `json:"key,string"`
}

// serveDeletion deletes the node of a participant that is shown.
func (p *Page) serveDeletion(w http.ResponseWriter, r *http.Request) {
	if status, err := p.checkDeletion(r); err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	var d deletionRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&d); err != nil {
		http.Error(w, "The request names no participant.", http.StatusBadRequest)
		return
	}
	path, shown := p.board.nodePath(shownNode{d.Line, d.Key})
	if !shown {
		http.Error(w, "The participant's node no longer exists.", http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), deletionTime)
	defer cancel()
	if status, err := p.deleteNode(ctx, path, d.Key); err != nil {
		http.Error(w, shownText(err.Error(), 500), status)
		return
	}
	p.client.Logger().Warn("inspect/http: deleted a participant's node for a viewer", "path", plain.Text(path),
		"czxid", d.Key, "from", plain.Text(r.RemoteAddr))
	w.WriteHeader(http.StatusNoContent)
}

// checkDeletion returns the reason if a request may not delete anything.
func (p *Page) checkDeletion(r *http.Request) (status int, err error) {
	switch {
	case !p.mayDelete:
		return http.StatusForbidden, errors.New("this page is read-only: its service has not allowed deleting")
	case r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "":
		return http.StatusForbidden, errors.New("the request has neither Sec-Fetch-Site nor Origin: use a browser")
	case r.Header.Get("Sec-Fetch-Site") == "none" || new(http.CrossOriginProtection).Check(r) != nil:
		return http.StatusForbidden, errors.New("the request comes from another origin than this page")
	case subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(p.token)) != 1:
		return http.StatusForbidden, errors.New("the request lacks this page's token: load the page again")
	}
	return 0, nil
}

// deleteNode deletes a node if its czxid is still the one that was shown.
func (p *Page) deleteNode(ctx context.Context, path string, czxid int64) (status int, err error) {
	stat, err := p.client.CheckExists().ForPath(ctx, path)
	if err == nil && (stat == nil || stat.Czxid != czxid) {
		err = framework.ErrNoNode
	}
	if err == nil {
		err = p.client.Delete().WithVersion(stat.Version).ForPath(ctx, path)
	}
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, framework.ErrNoNode):
		return http.StatusNotFound, errors.New("the participant's node no longer exists")
	case errors.Is(err, framework.ErrBadVersion):
		return http.StatusConflict, errors.New("its data have just changed, so its process is alive: load the page again")
	case errors.Is(err, framework.ErrNoAuth):
		return http.StatusForbidden, errors.New("this client has no permission to delete the node")
	case errors.Is(err, framework.ErrNotEmpty):
		return http.StatusConflict, errors.New("the node has children")
	}
	return http.StatusServiceUnavailable, fmt.Errorf("the node may still exist: %w", err)
}
