package peers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// maxBody limits the body of a request for the whole fleet in bytes. It says who asks, and why.
const maxBody = 64 << 10

// Handler returns the admin API with answers for the whole fleet: a request with ?fleet=true is served by this proxy first, which
// decides whether the caller may make it, and then by all others. One that comes from another proxy is about this one only. next must ask
// [Peers.Proven] for what such a request proves.
func (p *Peers) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		view := (*View)(p.options.Ledger.Status())
		if wanted := r.Header.Get(api.ForHeader); wanted != "" && fleet.ID(wanted) != view.Self {
			fail(w, http.StatusMisdirectedRequest, api.KindOther, "the request is for another proxy than the one that has got it: does its address lead to several?")
			return
		}
		if p.challenged(w, r) {
			return
		}
		query := r.URL.Query()
		if !query.Has(api.FleetParameter) {
			next.ServeHTTP(w, r)
			return
		}
		wanted := query.Get(api.FleetParameter)
		if wanted != "true" && wanted != "false" {
			fail(w, http.StatusBadRequest, api.KindRequest, fmt.Sprintf("fleet: invalid value %.40q: use true or false", wanted))
			return
		}
		query.Del(api.FleetParameter)
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
		merge := mergerOf(r)
		if merge == nil {
			fail(w, http.StatusBadRequest, api.KindRequest, fmt.Sprintf("fleet: %s %.100q is about one proxy: ask the others at their own addresses", r.Method, r.URL.Path))
			return
		}
		if wanted == "false" || r.Header.Get(api.PeerHeader) != "" || len(view.Members) < 2 {
			next.ServeHTTP(w, r)
			return
		}
		p.serve(w, r, next, view, query, merge)
	})
}

// serve answers for the whole fleet.
func (p *Peers) serve(w http.ResponseWriter, r *http.Request, next http.Handler, view *View, query url.Values, merge merger) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil { // as the API itself answers it
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
		next.ServeHTTP(w, r)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	own := &recorded{header: make(http.Header), status: http.StatusOK}
	next.ServeHTTP(own, r)
	if !own.asksOthers() {
		own.copy(w)
		return
	}
	q := &question{request: r, status: own.status, body: own.body.Bytes(), fleet: view.Shown(time.Now()), self: view.label(view.Self), each: func(func(*answer) bool) {}}
	ask := client.Request{Method: r.Method, Path: r.URL.EscapedPath(), Query: query}
	if r.Method == http.MethodHead {
		ask.Method = http.MethodGet
	}
	if len(body) > 0 {
		ask.Body = json.RawMessage(body)
	}
	if !own.isFinal(r) {
		asked := p.ask(r.Context(), view, ask)
		defer asked.end()
		q.others, q.each = asked.answers, asked.each()
	}
	status, value, err := merge(q)
	if err != nil {
		fail(w, http.StatusInternalServerError, api.KindInternal, fmt.Sprintf("the answer for the whole fleet cannot be made: %v", err))
		return
	}
	own.header.Set("Content-Type", "application/json")
	to := &begun{w: w, header: own.header, status: status}
	if raw, ok := value.(json.RawMessage); ok {
		_, _ = to.Write(append(bytes.TrimRight(raw, "\n"), '\n')) // a client that has gone needs no answer
	} else if err := encode(to, value); err != nil && !to.begun {
		fail(w, http.StatusInternalServerError, api.KindInternal, fmt.Sprintf("the answer cannot be encoded: %v", err))
	}
}

// begun sends an answer from its first byte on, so that there is no copy of it: what cannot be encoded has none.
type begun struct {
	w      http.ResponseWriter
	header http.Header
	status int
	begun  bool
}

func (b *begun) Write(body []byte) (int, error) {
	if !b.begun {
		b.begun = true
		maps.Copy(b.w.Header(), b.header)
		b.w.WriteHeader(b.status)
	}
	return b.w.Write(body)
}

// failing is a body that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// recorded is this proxy's own answer. One goroutine uses it.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (a *recorded) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *recorded) WriteHeader(status int) { a.status = status }

// Write implements [http.ResponseWriter].
func (a *recorded) Write(b []byte) (int, error) { return a.body.Write(b) }

// asksOthers reports whether other proxies are asked, too: the caller may make the request, and it was understood. What this proxy does not
// know, or cannot do in its state, another one may.
func (a *recorded) asksOthers() bool {
	return a.status/100 == 2 || a.status == http.StatusNotFound || a.status == http.StatusConflict
}

// isFinal reports whether this proxy's answer is all there is: a session has one proxy, and this one has it.
func (a *recorded) isFinal(r *http.Request) bool {
	return a.status != http.StatusNotFound && isAboutOne(r)
}

// copy sends the answer.
func (a *recorded) copy(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // a client that has gone needs no answer
}

// fail answers with an error.
func fail(w http.ResponseWriter, status int, kind, text string) {
	var failure api.Failure
	failure.Error.Kind, failure.Error.Text = kind, text
	var b bytes.Buffer
	if err := encode(&b, failure); err != nil {
		panic(err) // it has nothing but texts
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that has gone needs no answer
}

func encode(to io.Writer, value any) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
