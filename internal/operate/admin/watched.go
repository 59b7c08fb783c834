package admin

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"unicode"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// watched is the answer to a request that has an effect. It knows whether the request's handler has noted the action in the audit log,
// so that one that fails before that is noted, too. One goroutine uses it.
type watched struct {
	http.ResponseWriter
	order   api.Order // as far as the handler has read it
	noted   bool
	failure *Error // what was answered; nil if the action was carried out
}

// Unwrap is for [http.ResponseController].
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type watchedKey struct{}

// watch serves a request that has an effect, and notes it if it fails.
func (v route) watch(w http.ResponseWriter, r *http.Request, audit *Audit, next http.Handler) {
	if audit == nil || v.action == "" {
		next.ServeHTTP(w, r)
		return
	}
	watched := &watched{ResponseWriter: w}
	r = r.WithContext(context.WithValue(r.Context(), watchedKey{}, watched))
	next.ServeHTTP(watched, r)
	if f := watched.failure; f != nil && f.Kind != api.KindRequest && !watched.noted { // what is not understood is no action
		audit.NoteFailure(r, v.action, targetOf(r), watched.order, watched.failure)
	}
}

// noted says that the audit log has a request.
func noted(r *http.Request) {
	if w, ok := r.Context().Value(watchedKey{}).(*watched); ok {
		w.noted = true
	}
}

// ordered says what an order says of itself, for the case that it fails.
func ordered(r *http.Request, order api.Order) {
	if w, ok := r.Context().Value(watchedKey{}).(*watched); ok {
		w.order = order
	}
}

// targetOf returns what a request is about, as its sender says. It may be any text.
func targetOf(r *http.Request) string {
	target := cut(cmp.Or(r.PathValue("name"), r.PathValue("id"), r.URL.Query().Get("backend"), r.URL.Query().Get("session"), r.URL.Query().Get("service")))
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, target)
}
