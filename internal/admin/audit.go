package admin

import (
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/api"
)

// auditSize is how many actions the audit log keeps in memory.
const auditSize = 500

// Audit is the audit log: what operators did to the running proxy. It keeps the latest actions in memory and writes each to the log.
// Its methods may be called from any goroutine.
type Audit struct {
	log *slog.Logger     // static
	now func() time.Time // static

	mu      sync.Mutex
	actions []api.Action // guarded by mu; a ring: the action of number n is at n modulo auditSize
	count   uint64       // guarded by mu: actions so far
}

// NewAudit returns an empty audit log that writes each action to log at level info.
func NewAudit(log *slog.Logger) *Audit { return &Audit{log: log, now: time.Now} }

// Note adds an action that was carried out. target is a session's id or the name of a service or backend; detail says what came of it.
func (a *Audit) Note(r *http.Request, action, target string, order api.Order, detail string) {
	entry := api.Action{
		Time: a.now().UTC(), Action: action, Target: target, Who: order.Who, Why: order.Why, From: callerOf(r), Detail: detail,
	}
	a.mu.Lock()
	if len(a.actions) < auditSize {
		a.actions = append(a.actions, entry)
	} else {
		a.actions[a.count%auditSize] = entry
	}
	a.count++
	a.mu.Unlock()
	a.log.Info("operator action", "action", entry.Action, "target", entry.Target, "who", entry.Who, "why", entry.Why, "from", entry.From,
		"detail", entry.Detail)
}

// callerOf returns where a request came from, as the audit log shows it.
func callerOf(r *http.Request) string {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(interface{ Network() string }); ok && at.Network() == "unix" {
		return "admin socket"
	}
	return r.RemoteAddr
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
	return []route{{path: api.AuditPath, methods: methods{http.MethodGet: served(func(_ http.ResponseWriter, r *http.Request) (any, error) {
		if err := onlyParameters(r); err != nil {
			return nil, err
		}
		actions, _ := a.Since(0)
		slices.Reverse(actions)
		return actions, nil
	})}}}
}
