package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
)

// InForce is the configuration in force. The proxy knows it without its store.
type InForce struct {
	Snapshot *config.Snapshot
	// Version is the store's name for it.
	Version string
	// Stale says since when and why the store fails; nil while it works.
	Stale *Stale
}

// Stale says why the configuration in force may differ from the store's.
type Stale struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// View is a configuration for people to read.
type View struct {
	Content config.Content
	Version string
	// Stale is set if the store fails: then the view shows the configuration in force.
	Stale *Stale
}

const (
	staleParameter = "stale"
	staleAllowed   = "allowed"
)

// viewTimeout is how long the store may take. After that, the view shows the configuration in force instead.
const viewTimeout = 2 * time.Second

// viewed is the answer to a request for a view.
type viewed struct {
	document
	Stale *Stale `json:"stale,omitempty"`
}

// wantsView reports whether a request prefers the configuration in force to an error.
func (h *handler) wantsView(r *http.Request) (bool, error) {
	query := r.URL.Query()
	if !query.Has(staleParameter) {
		return false, nil
	}
	if text := query.Get(staleParameter); text != staleAllowed {
		return false, badRequest("%s: invalid value %.40q: use %s", staleParameter, text, staleAllowed)
	}
	return h.o.InForce != nil, nil
}

// view returns the store's configuration or, if the store fails, the one in force. It does not ask a store that is known to fail.
func (h *handler) view(r *http.Request) (any, error) {
	ctx := r.Context()
	force := h.o.InForce()
	if force.Stale == nil {
		asking, cancel := context.WithTimeoutCause(ctx, viewTimeout, fmt.Errorf("no answer within %v", viewTimeout))
		defer cancel()
		snapshot, err := h.store.Load(asking)
		if err == nil {
			content := snapshot.Content()
			return h.document(r, snapshot.Version(), &content), nil
		}
		if ctx.Err() != nil { // the answer is no longer awaited
			return nil, err
		}
		force.Stale = &Stale{Since: time.Now(), Reason: inTime(asking, err).Error()}
	}
	content := force.Snapshot.Content()
	return viewed{document: h.document(r, force.Version, &content), Stale: force.Stale}, nil
}

// inTime returns why a store failed. If its time was over, the error says how long that time was.
func inTime(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.DeadlineExceeded) {
		return cause
	}
	return err
}

// View returns the proxy's configuration from its store or, if the store fails, the one in force.
func (c *Client) View(ctx context.Context) (View, error) {
	var d struct {
		received
		Stale *Stale `json:"stale"`
	}
	if err := c.get(ctx, root, url.Values{staleParameter: {staleAllowed}}, &d); err != nil {
		return View{}, err
	}
	content, problems := d.content()
	if len(problems) > 0 {
		return View{}, c.notOfThisVersion(problems)
	}
	return View{Content: content, Version: d.Version, Stale: d.Stale}, nil
}
