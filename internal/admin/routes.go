package admin

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// route is a path of the API, or several paths with a handler of their own.
type route struct {
	// path is a pattern of [http.ServeMux] without a method.
	path string
	// open: everybody who can reach the address may use it. All other routes are behind the guard.
	open bool
	// acts: a GET has an effect, and needs the same proof as a change, see [Access.unproven].
	acts bool
	// methods are the handlers by method. GET serves HEAD, too.
	methods methods
	// all serves all methods, instead of methods.
	all http.Handler
	// deprecated: a later version removes the path; the zero value for all others.
	deprecated deprecation
}

type methods map[string]http.HandlerFunc

// served makes a handler of a function that returns the JSON value to answer, or an error, see [Error].
func served(f func(http.ResponseWriter, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := f(w, r)
		if err != nil {
			answerError(w, err)
			return
		}
		body, err := encode(value)
		if err != nil {
			answerError(w, err)
			return
		}
		answer(w, http.StatusOK, "application/json", body)
	}
}

// handle adds the routes to a new mux, and the guard to those that are not open.
func handle(routes []route, access Access) http.Handler {
	mux := http.NewServeMux()
	var paths []string
	for _, route := range routes {
		mux.Handle(route.path, route.handler(access))
		paths = append(paths, strings.TrimSuffix(route.path, "{$}"))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answerError(w, Unknown("path", r.URL.Path, paths))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		// No page of another origin shows an answer in a frame, where an operator could be made to click, or as an image or script.
		header.Set("X-Frame-Options", "DENY")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		mux.ServeHTTP(w, r)
	})
}

// handler returns a route's handler. It tells strangers nothing, not even which methods there are.
func (v route) handler(access Access) http.Handler {
	next := v.all
	if next == nil {
		next = http.HandlerFunc(v.serve)
	}
	if !v.deprecated.since.IsZero() {
		next = v.deprecated.announce(next)
	}
	if v.open {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := access.refusal(r)
		if err == nil && v.hasEffect(r.Method) {
			err = access.unproven(r)
		}
		if err != nil {
			answerError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hasEffect reports whether a request with the method changes something, as far as the route has the method.
func (v route) hasEffect(method string) bool {
	if _, known := v.methods[method]; !known && v.all == nil && method != http.MethodHead {
		return false
	}
	return changes(method) || v.acts
}

func (v route) serve(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	serve := v.methods[method]
	if serve == nil {
		answerMethod(w, r, slices.Collect(maps.Keys(v.methods)))
		return
	}
	serve(w, r)
}

// onlyParameters returns an error if a request's URL has a query parameter other than these. A mistyped filter must not be
// taken for none.
func onlyParameters(r *http.Request, allowed ...string) error {
	for name := range r.URL.Query() {
		if !slices.Contains(allowed, name) {
			if len(allowed) == 0 {
				return BadRequest("unknown parameter %.100q: this path takes none", name)
			}
			return BadRequest("%v", spelling.Unknown("parameter", cut(name), allowed))
		}
	}
	return nil
}
