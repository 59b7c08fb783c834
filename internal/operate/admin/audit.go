package admin

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// auditSize is how many actions the audit log keeps in memory.
const auditSize = 500

// How many refused requests the audit log takes: at most maxRefused in a row, and then one each refusedEvery. Everyone who reaches the address
// can send them, and they must not push what operators did out of memory, nor fill the log.
const (
	maxRefused   = 20
	refusedEvery = time.Minute
)

// Audit is the audit log: what operators did to the running proxy, and what others tried to do. It keeps the latest actions in memory
// and writes each to the log. Its methods may be called from any goroutine.
type Audit struct {
	log *slog.Logger     // static
	now func() time.Time // static

	mu      sync.Mutex
	actions []api.Action  // guarded by mu; a ring: the action of number n is at n modulo auditSize
	count   uint64        // guarded by mu: actions so far
	refused *rate.Limiter // guarded by mu
	leftOut uint64        // guarded by mu: refused requests that were not noted since the last one that was
}

// NewAudit returns an empty audit log that writes each action to log at level info, and each refused one at level warn.
func NewAudit(log *slog.Logger) *Audit {
	return &Audit{log: log, now: time.Now, refused: rate.NewLimiter(rate.Every(refusedEvery), maxRefused)}
}

// Note adds an action that was carried out. target is a session's id or the name of a service or backend; detail says what came of it.
func (a *Audit) Note(r *http.Request, action, target string, order api.Order, detail string) {
	noted(r)
	a.add(api.Action{Action: action, Target: target, Who: order.Who, Why: order.Why, Result: api.ResultDone, Detail: detail}, CallerOf(r))
}

// NoteFailure adds an action that failed; err says why.
func (a *Audit) NoteFailure(r *http.Request, action, target string, order api.Order, err error) {
	noted(r)
	a.add(api.Action{Action: action, Target: target, Who: order.Who, Why: order.Why, Result: api.ResultFailed, Detail: err.Error()}, CallerOf(r))
}

// refuse adds a request that the guard refused, unless there are too many.
func (a *Audit) refuse(r *http.Request, action, target string, caller *Caller, err error) {
	a.mu.Lock()
	if !a.refused.AllowN(a.now(), 1) {
		a.leftOut++
		a.mu.Unlock()
		return
	}
	leftOut := a.leftOut
	a.leftOut = 0
	a.mu.Unlock()
	if leftOut > 0 {
		a.log.Warn("operator actions refused, too many to list", "count", leftOut)
	}
	if caller == nil {
		caller = &Caller{From: fromOf(r)}
	}
	a.add(api.Action{Action: action, Target: target, Result: api.ResultRefused, Detail: err.Error()}, *caller)
}

// add adds an entry, and completes it.
func (a *Audit) add(entry api.Action, caller Caller) {
	entry.Time, entry.Role, entry.Caller, entry.From = a.now().UTC(), caller.Role, caller.Name, caller.From
	a.mu.Lock()
	if len(a.actions) < auditSize {
		a.actions = append(a.actions, entry)
	} else {
		a.actions[a.count%auditSize] = entry
	}
	a.count++
	a.mu.Unlock()
	level := slog.LevelInfo
	if entry.Result == api.ResultRefused {
		level = slog.LevelWarn
	}
	a.log.Log(context.Background(), level, "operator action", "action", entry.Action, "target", entry.Target, "result", entry.Result, "who", entry.Who,
		"why", entry.Why, "role", entry.Role, "caller", entry.Caller, "from", entry.From, "detail", entry.Detail)
}

// Since returns the actions with numbers from first on, oldest first, and the number of the next one to come. The first action since
// the start has the number 0. Actions that are no longer in memory are left out.
func (a *Audit) Since(first uint64) (actions []api.Action, next uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := uint64(len(a.actions))
	actions = []api.Action{}
	for n := max(first, a.count-kept); n < a.count; n++ {
		actions = append(actions, a.actions[n%auditSize])
	}
	return actions, a.count
}

// routes returns GET /api/v1/audit: the actions in memory, newest first.
func (a *Audit) routes() []route {
	return []route{{path: api.AuditPath, methods: methods{http.MethodGet: served(func(http.ResponseWriter, *http.Request) (any, error) {
		actions, _ := a.Since(0)
		slices.Reverse(actions)
		return actions, nil
	})}}}
}

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
