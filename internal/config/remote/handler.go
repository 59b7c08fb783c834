package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// HandlerOptions are the settings of a handler.
type HandlerOptions struct {
	// InForce returns the configuration in force, to show it while the store fails; nil if there is none to show. It must not use
	// the store.
	InForce func() InForce
	// Profiles checks the profiles in dry runs, as the store does in changes; nil for no check.
	Profiles config.ProfileCheck
	// Refuse returns as [config.Problems] why a change may not be stored although the store allows it; nil if unused.
	Refuse func(config.Change) error
	// Changed is told of each change that was asked for: the version after it, or why it failed. nil if unused.
	Changed func(r *http.Request, c config.Change, version string, err error)
	// Hides reports whether the caller may not see secrets, such as headers' values; nil if all callers may.
	Hides func(*http.Request) bool
}

// Limits on the server's side.
const (
	storeTimeout = 15 * time.Second // how long the store may take unless a client asked to wait; less than clients' timeout
	maxWait      = time.Minute      // how long a request may wait for another version
	maxWaiting   = 256              // how many requests may wait at the same time
	maxRevisions = 1000             // how many revisions an answer may have
)

// Handler returns the API for a store: everything at and below /api/v1/config. It lets everybody use it: the caller decides who may, since
// even reading a configuration may show headers with secret values. A request that waits for a change ends when its
// context ends or the store is closed; the caller that shuts the server down must first do one of the two. The server limits how long a
// request may take to arrive ([http.Server.ReadTimeout]). Its WriteTimeout must be longer than a minute, since requests may wait.
func Handler(store config.Store, o HandlerOptions) http.Handler {
	h := &handler{store: store, o: o, waiting: make(chan struct{}, maxWaiting)}
	mux := http.NewServeMux()
	for _, route := range []struct {
		method, path string
		serve        func(*http.Request) (any, error)
	}{
		{http.MethodGet, root, inBounds(h.show)},
		{http.MethodGet, root + "/{$}", inBounds(h.show)},
		{http.MethodGet, versionPath, h.version},
		{http.MethodGet, historyPath, inBounds(h.history)},
		{http.MethodGet, versionsPath + "{version}", inBounds(h.at)},
		{http.MethodPost, changesPath, h.change},
	} {
		mux.HandleFunc(route.path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != route.method && (r.Method != http.MethodHead || route.method != http.MethodGet) {
				answerMethod(w, r, route.method)
				return
			}
			if r.Method == http.MethodPost {
				r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
			}
			body, err := route.serve(r)
			if err != nil {
				answerError(w, err)
				return
			}
			answer(w, http.StatusOK, body)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		text := spelling.Unknown("path", fmt.Sprintf("%.100s", r.URL.Path), []string{root, versionPath, historyPath, versionsPath + "VERSION", changesPath}).Error()
		answerError(w, &statusError{http.StatusNotFound, kindUnknown, text})
	})
	return mux
}

var errSlow = fmt.Errorf("the store did not answer within %v", storeTimeout)

// inBounds limits how long the store may take to serve a request.
func inBounds(serve func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), storeTimeout, errSlow)
		defer cancel()
		body, err := serve(r.WithContext(ctx))
		if err != nil {
			return nil, inTime(ctx, err)
		}
		return body, nil
	}
}

type handler struct {
	store   config.Store
	o       HandlerOptions
	waiting chan struct{} // one element for each request that waits
}

// show returns the configuration.
func (h *handler) show(r *http.Request) (any, error) {
	if view, err := h.wantsView(r); err != nil {
		return nil, err
	} else if view {
		return h.view(r)
	}
	snapshot, err := h.store.Load(r.Context())
	if err != nil {
		return nil, err
	}
	content := snapshot.Content()
	return h.document(r, snapshot.Version(), &content), nil
}

// document returns a configuration as the caller may see it.
func (h *handler) document(r *http.Request, version string, content *config.Content) document {
	if h.o.Hides != nil && h.o.Hides(r) {
		return encodeShown(version, content)
	}
	return encode(version, content)
}

// version returns the current version. With ?unlike=VERSION&wait=20s it answers as soon as the version is another one, or after
// that time.
func (h *handler) version(r *http.Request) (any, error) {
	type answer struct {
		Version string `json:"version"`
	}
	query := r.URL.Query()
	wait := time.Duration(0)
	if text := query.Get("wait"); text != "" {
		var err error
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
			return nil, badRequest("wait: invalid duration %.40q: use at most %v, such as 20s", text, maxWait)
		}
	}
	if !query.Has("unlike") || wait == 0 {
		version, err := h.newest(r.Context())
		return answer{version}, err
	}
	select {
	case h.waiting <- struct{}{}:
		defer func() { <-h.waiting }()
	default:
		return nil, fmt.Errorf("%d other requests already wait for a change: try again later", maxWaiting)
	}
	version, err := h.await(r.Context(), query.Get("unlike"), wait)
	return answer{version}, err
}

// await returns the version as soon as it is not the known one, or after the wait.
func (h *handler) await(ctx context.Context, known string, wait time.Duration) (version string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timeout := time.After(wait)
	changes := h.store.Watch(ctx) // it has a value at once
	for version == "" || version == known {
		select {
		case _, ok := <-changes:
			if !ok {
				return "", errors.Join(ctx.Err(), config.ErrClosed)
			}
		case <-timeout:
			return known, nil
		}
		if version, err = h.newest(ctx); err != nil {
			return "", err
		}
	}
	return version, nil
}

// newest returns the version that the store has now.
func (h *handler) newest(ctx context.Context) (version string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, storeTimeout, errSlow)
	defer cancel()
	snapshot, err := h.store.Load(ctx)
	if err != nil {
		return "", inTime(ctx, err)
	}
	return snapshot.Version(), nil
}

// history returns the latest revisions.
func (h *handler) history(r *http.Request) (any, error) {
	limit := 20
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 || limit > maxRevisions {
			return nil, badRequest("limit: invalid number %.40q: use a whole number from 0 to %d", text, maxRevisions)
		}
	}
	revisions, err := h.store.History(r.Context(), limit)
	if revisions == nil {
		revisions = []config.Revision{}
	}
	return revisions, err
}

// at returns the content of the configuration at an older version.
func (h *handler) at(r *http.Request) (any, error) {
	version := r.PathValue("version")
	content, err := h.store.At(r.Context(), version)
	if err != nil {
		return nil, err
	}
	return h.document(r, version, &content), nil
}
