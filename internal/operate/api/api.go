// Package api is the contract of the admin API: the paths, and the types of what goes over them as JSON. The proxy's side
// (internal/operate/admin) and the users of the API (commands, internal/operate/top, the dashboard, benchmarks) import it, and it imports nothing
// of the proxy, so that a change inside the proxy does not change what programs elsewhere rely on. docs/reference/admin-api.md and the OpenAPI
// description are held against it by tests.
//
// Within version 1, fields are added and never renamed or removed, and durations are numbers of seconds.
package api

import "time"

// Paths of the API.
const (
	StatsPath     = "/api/v1/stats"
	SessionsPath  = "/api/v1/sessions"       // GET; DELETE with ?backend=NAME&within=30s; below it: /ID (GET, DELETE)
	TapPath       = "/api/v1/tap"            // GET: a stream of TapEvent
	EventsPath    = "/api/v1/events"         // GET: one stream of everything that changes, see Event
	HistoryPath   = "/api/v1/history"        // GET: History
	ProblemsPath  = "/api/v1/problems"       // GET: ProblemList
	AuditPath     = "/api/v1/audit"          // GET: []Action, newest first
	AccessPath    = "/api/v1/access"         // GET: Access, who the proxy takes the caller for
	LogLevelPath  = "/api/v1/log/level"      // GET, PUT: LogLevel
	ServicesPath  = "/api/v1/services"       // below it: /NAME/pause and /NAME/resume (POST)
	BackendsPath  = "/api/v1/backends"       // GET: []BackendInUse, with ?service=NAME&sort=scale-in; below it: /NAME/recycle (POST)
	UpgradePath   = "/api/v1/upgrade"        // POST: UpgradeOrder; a stream of UpgradeStep
	TakeOverPath  = "/api/v1/take-over"      // POST on the admin socket with Upgrade: TakeOverProtocol; see internal/fleet/takeover
	ForwardPath   = "/api/v1/forward"        // POST: ForwardedClient, with Upgrade: ForwardProtocol, from another proxy of the fleet
	ProxiesPath   = "/api/v1/proxies"        // GET: Fleet; below it: /NAME or /ID (GET: Proxy), /ID/forget (POST)
	ConfigPath    = "/api/v1/config"         // below it: the configuration, see internal/config/remote
	OpenAPIPath   = "/api/v1/openapi.json"   // GET: the OpenAPI description of all of this
	ChangeHeader  = "X-Wsbouncer-Change"     // every request that changes something has this header, or a JSON body
	SessionHeader = "X-Wsbouncer-Session-Id" // in the answer to a client's upgrade
)

// Failure is the body of an answer with an error status.
type Failure struct {
	Error struct {
		Kind string `json:"kind"` // for programs, see the constants below
		Text string `json:"text"` // for people: what is wrong, the value, and what is allowed
		// Nearest is the known name that is most like the one in a request for an unknown one; empty if none is.
		Nearest string `json:"nearest,omitempty"`
	} `json:"error"`
}

// Kinds of failures.
const (
	KindRequest = "request"   // 400, 405, 408, 413, 415: the request is not understood
	KindRefused = "refused"   // 401, 403, 429: the caller may not do this
	KindUnknown = "not-found" // 404: no such session, service or backend
	KindOther   = "other"     // 421: the request is for another proxy
	KindState   = "state"     // 409, 503: the thing is in a state in which this cannot be done
	KindBusy    = "busy"      // 503: too many streams are open already
	// KindInternal: 500, the proxy failed.
	KindInternal = "internal"
)

// MaxKillTime is the longest time over which DELETE /api/v1/sessions?backend=NAME&within=TIME spreads the ends of sessions.
const MaxKillTime = time.Hour

// Order is the body of a request for an action. All fields may be missing.
type Order struct {
	Who string `json:"who,omitempty"` // who asks; for the audit log
	Why string `json:"why,omitempty"` // for the audit log, and for a client whose session is ended
}

// Action is something that an operator did to the running proxy, or tried to: an entry of the audit log. What changed in the
// configuration is in the configuration's own history.
type Action struct {
	Time   time.Time `json:"time"`
	Action string    `json:"action"` // kill, kill-all, tap, pause, resume, recycle, log-level, reload, configure; login for a wrong token
	Target string    `json:"target"` // a session's id, the name of a service or backend, or a version of the configuration
	Result string    `json:"result"` // one of the results below
	Who    string    `json:"who,omitempty"`
	Why    string    `json:"why,omitempty"`
	Role   string    `json:"role,omitempty"`   // operator or reader, as the proxy knows it; empty for a caller whom it does not know
	Caller string    `json:"caller,omitempty"` // who it was, as the proxy knows it: "operator token", "user alice (uid 1000)", "proxy proxy-b"
	From   string    `json:"from"`             // the caller's address, or "admin socket"
	Detail string    `json:"detail,omitempty"` // what came of it, such as "31 sessions", or why it failed
}

// Results of actions.
const (
	ResultDone    = "done"
	ResultFailed  = "failed"  // the caller may do it, and it failed
	ResultRefused = "refused" // the caller may not do it
)

// Roles of callers.
const (
	RoleReader   = "reader"   // sees everything but secrets and the contents of sessions
	RoleOperator = "operator" // does everything
)

// Access is who the proxy takes the caller for.
type Access struct {
	Role   string `json:"role"`   // operator or reader
	Caller string `json:"caller"` // what proves it: "operator token", "reader token", a user of the proxy's machine
	From   string `json:"from"`   // the caller's address, or "admin socket"
	// Commands is the --admin with which commands on the proxy's machine reach it, such as unix:/run/admin.sock. Absent if they find it without.
	Commands string `json:"commands,omitempty"`
}

// Outcome is the answer to an action.
type Outcome struct {
	Text     string `json:"text"`               // what was done, for people
	Sessions int    `json:"sessions,omitempty"` // sessions or connections that are affected
	// Proxies say what came of it at each proxy, and Missing are those that could not be asked, if it was for the whole fleet.
	Proxies []ProxyOutcome `json:"proxies,omitempty"`
	Missing []MissingProxy `json:"missing,omitempty"`
}

// LogLevel is the level of the log.
type LogLevel struct {
	Level string `json:"level"` // debug, info, warn or error
	Order
}
