package admin

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// route is a path of the API, or several paths with one handler.
type route struct {
	// path is a pattern of [http.ServeMux] without a method.
	path string
	// open: every caller who can reach the address may use it. All other routes are behind the guard.
	open bool
	// acts: a GET has an effect, and needs the same role and proof as a change, see [unproven].
	acts bool
	// action is the name of the route's effect in the audit log; empty if it has none, or if its handler notes all by itself.
	action string
	// methods are the handlers by method. GET serves HEAD, too.
	methods methods
	// all serves all methods, instead of methods.
	all http.Handler
	// deprecated: a later version removes the path; the zero value for all others.
	deprecated deprecation
}

type methods map[string]http.HandlerFunc

// handled makes a handler of a function that answers, or returns an error to answer, see [Error]. The request's URL may have these query parameters
// only.
func handled(f func(http.ResponseWriter, *http.Request) error, parameters ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := onlyParameters(r, parameters)
		if err == nil {
			err = f(w, r)
		}
		if err != nil {
			answerError(w, err)
		}
	}
}

// served makes a handler of a function that returns the JSON value to answer, or an error, as handled does.
func served(f func(http.ResponseWriter, *http.Request) (any, error), parameters ...string) http.HandlerFunc {
	return handled(func(w http.ResponseWriter, r *http.Request) error {
		value, err := f(w, r)
		if err != nil {
			return err
		}
		body, err := encode(value)
		if err == nil {
			answer(w, http.StatusOK, "application/json", body)
		}
		return err
	}, parameters...)
}

// anyParameter allows all query parameters: the function looks at them itself, or ignores them.
const anyParameter = "*"

// handle adds the routes to a new mux, and the guard to those that are not open.
func handle(routes []route, access Access) http.Handler {
	mux := http.NewServeMux()
	var paths []string
	for _, route := range routes {
		mux.Handle(route.path, route.handler(access))
		paths = append(paths, strings.TrimSuffix(route.path, "{$}"))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, err := access.admit(r) // for what this proxy does not know, the whole fleet may be asked
		if err == nil {
			err = Unknown("path", r.URL.Path, paths)
		}
		answerError(w, err)
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

// handler returns a route's handler. It shows strangers nothing, not even which methods there are.
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
		hasEffect := v.hasEffect(r.Method)
		operator, reader := access.tokens() // before the guard reads them: a change after that is noticed
		caller, err := v.admit(r, &access, hasEffect)
		if err != nil {
			access.note(r, v.action, caller, err, hasEffect)
			answerError(w, err)
			return
		}
		role := api.RoleReader
		if hasEffect {
			role = api.RoleOperator
		}
		request := r
		r = withAdmission(withCaller(r, caller), func() bool { return access.stillAdmits(request, role, operator, reader) })
		if !hasEffect {
			next.ServeHTTP(w, r)
			return
		}
		v.watch(w, r, access.Audit, next)
	})
}

// admit returns who sent a request, and an error if that caller may not make it. The caller is nil if that is not known.
func (v route) admit(r *http.Request, access *Access, hasEffect bool) (*Caller, error) {
	caller, err := access.admit(r)
	if err != nil || !hasEffect {
		return caller, err
	}
	if err := unproven(r, caller); err != nil {
		return caller, err
	}
	if !caller.may(api.RoleOperator) {
		if caller.Name == thisMachine {
			return caller, access.readOnly()
		}
		return caller, refused(http.StatusForbidden, "the %s may only read: this needs the token of operators (--admin-token)", caller.Name)
	}
	return caller, nil
}

// note notes a refused request in the audit log, if it would have had an effect or had a wrong token.
func (a *Access) note(r *http.Request, action string, caller *Caller, err error, hasEffect bool) {
	switch {
	case a.Audit == nil:
	case err.Error() == wrongToken:
		a.Audit.refuse(r, "login", "", caller, err)
	case hasEffect:
		a.Audit.refuse(r, cmp.Or(action, r.Method), cmp.Or(targetOf(r), cut(r.URL.Path)), caller, err)
	}
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
func onlyParameters(r *http.Request, allowed []string) error {
	for name := range r.URL.Query() {
		if !slices.Contains(allowed, name) && !slices.Contains(allowed, anyParameter) {
			if len(allowed) == 0 {
				return BadRequest("unknown parameter %.100q: this path takes none", name)
			}
			return BadRequest("%v", spelling.Unknown("parameter", cut(name), allowed))
		}
	}
	return nil
}

// promise is the page that says for how long deprecated paths work.
const promise = "https://github.com/wsbouncer/wsbouncer/blob/main/docs/reference/stability.md"

// deprecation says that a path will go. The path works until then; its answers say so, in headers for programs. It is deprecated in
// openapi.json, too, which a test checks.
type deprecation struct {
	since  time.Time // when the path was deprecated
	sunset time.Time // no release before this time removes it
}

// announce adds the headers Deprecation (RFC 9745, section 2) and Sunset (RFC 8594, section 3), and a link to the promise, to all
// answers of a handler.
func (d deprecation) announce(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Deprecation", "@"+strconv.FormatInt(d.since.Unix(), 10))
		header.Set("Sunset", d.sunset.UTC().Format(http.TimeFormat))
		header.Add("Link", "<"+promise+`>; rel="deprecation"; type="text/html"`)
		next.ServeHTTP(w, r)
	})
}
