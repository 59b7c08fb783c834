// Package admin serves the admin API over HTTP: liveness, readiness, statistics, metrics, the configuration, and
// what operators do to the running proxy.
package admin

import (
	"cmp"
	"context"
	_ "embed"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Source provides the data of the API. All fields but Dashboard are required; the functions may be called from any goroutine at any time.
type Source struct {
	// Ready returns whether clients can be served.
	Ready func() Readiness
	// Stats returns the statistics.
	Stats func() api.Stats
	// Configuration serves /api/v1/config and below, to read and change the configuration. It notes changes in the audit log by itself.
	Configuration http.Handler
	// Metrics serves /metrics. It is a handler so that this package does not depend on a format.
	Metrics http.Handler
	// Sessions are the sessions and waiting clients.
	Sessions Sessions
	// Dashboard serves / and /static/, for browsers; nil for none: then / lists paths of the API.
	Dashboard http.Handler
	// Audit notes what operators do.
	Audit *Audit
	// Movers move sessions to other backends.
	Movers Movers
	// Actions are what operators do to services and backends.
	Actions Actions
	// Upgrades replace the process.
	Upgrades Upgrades
	// Backends returns the backends that run in an order of [api.BackendOrders]; empty for the default.
	Backends func(order string) []api.BackendInUse
	// Proxies is the fleet.
	Proxies Proxies
	// Forward answers another proxy that has a client whose session may be here: with the URL that the client is to come to, or with what takes
	// the client's connection over, and with a proof of who answers. An error says what is wrong with the request.
	Forward func(r *http.Request, c *api.ForwardedClient) (url, proof string, take func(net.Conn), err error)
	// LogLevel is the level of the log.
	LogLevel LogLevel
	// Settings are those of the process.
	Settings Settings
	// Commands is the --admin with which commands on the proxy's machine reach this API; empty if they find it without.
	Commands string
	// Problems returns what is wrong now, and what was.
	Problems func() api.ProblemList
	// Usage reports what clients have used.
	Usage func(context.Context, api.UsageQuery) (api.UsageReport, error)
	// History returns the last hour.
	History func() api.History
	// Subscribe returns a stream of encoded server-sent events, which ends when the channel is closed, and the function that ends it
	// from this side. An error says that there is no room for one more.
	Subscribe func(api.EventQuery) (events <-chan []byte, cancel func(), err error)
	// Tap starts a tap. The error is ErrNoSession, or an [Error] that says why it cannot.
	Tap func(api.TapQuery) (Tap, error)
}

// Handler returns the API. The guard admits callers with access; every caller who can reach the address may ask for liveness,
// readiness and metrics. The source's audit log notes what the guard refuses.
func Handler(source Source, access Access) http.Handler {
	access.Audit = source.Audit
	return handle(source.routes(), access)
}

// routes returns all paths of the API.
func (s *Source) routes() []route {
	routes := []route{
		{path: "/healthz", open: true, methods: methods{http.MethodGet: func(w http.ResponseWriter, _ *http.Request) {
			text(w, http.StatusOK, "ok")
		}}},
		{path: "/readyz", open: true, methods: methods{http.MethodGet: s.ready}},
		{path: api.StatsPath, methods: methods{http.MethodGet: served(func(http.ResponseWriter, *http.Request) (any, error) {
			return s.Stats(), nil
		}, anyParameter)}},
		{path: api.ProblemsPath, methods: methods{http.MethodGet: served(func(http.ResponseWriter, *http.Request) (any, error) {
			return s.Problems(), nil
		})}},
		{path: api.UsagePath, methods: methods{http.MethodGet: served(func(_ http.ResponseWriter, r *http.Request) (any, error) {
			q, err := api.ParseUsageQuery(r.URL.Query(), time.Now())
			if err != nil {
				return nil, BadRequest("%v", err)
			}
			return s.Usage(r.Context(), q)
		}, anyParameter)}},
		{path: api.ForwardPath, methods: methods{http.MethodPost: handled(s.serveForward)}},
		{path: "/metrics", open: true, methods: methods{http.MethodGet: s.Metrics.ServeHTTP}},
		{path: api.ConfigPath, action: "configure", all: s.Configuration},
		{path: api.ConfigPath + "/", action: "configure", all: s.Configuration},
	}
	// Every caller gets the page: the data that it shows come from the routes behind the guard.
	if s.Dashboard != nil {
		page := methods{http.MethodGet: s.Dashboard.ServeHTTP}
		routes = append(routes, route{path: "/{$}", open: true, methods: page}, route{path: "/static/", open: true, methods: page})
	} else {
		routes = append(routes, route{path: "/{$}", open: true, methods: methods{http.MethodGet: func(w http.ResponseWriter, _ *http.Request) {
			text(w, http.StatusOK, "wsbouncer admin: /healthz /readyz /api/v1/stats /api/v1/config /metrics")
		}}})
	}
	routes = append(routes, accessRoutes(s.Commands)...)
	routes = append(routes, s.Audit.routes()...)
	routes = append(routes, s.moveRoutes()...)
	routes = append(routes, s.actionRoutes()...)
	routes = append(routes, s.backendRoutes()...)
	routes = append(routes, s.upgradeRoutes()...)
	routes = append(routes, s.proxyRoutes()...)
	routes = append(routes, s.logLevelRoutes()...)
	routes = append(routes, s.settingsRoutes()...)
	routes = append(routes, s.sessionRoutes()...)
	routes = append(routes, s.eventRoutes()...)
	routes = append(routes, s.tapRoutes()...)
	return append(routes, openAPIRoutes()...)
}

func text(w http.ResponseWriter, status int, line string) {
	answer(w, status, "text/plain; charset=utf-8", []byte(line))
}

// answer sends an answer and forbids caches to keep it.
func answer(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
}

// Limits are the timeouts of the API's server. Zero means the default.
type Limits struct {
	// Header is how long a request's header may take to arrive; default 5 s.
	Header time.Duration
	// Request is how long a whole request, including its body, may take to arrive; default 30 s. It does not limit the time that a
	// handler works or waits after that.
	Request time.Duration
	// Answer is how long a request may take from its header to the last byte of its answer; default 2 min. It must be longer than
	// any handler waits.
	Answer time.Duration
	// Idle is how long a connection may wait for its next request; default 1 min.
	Idle time.Duration
}

// maxHeader is the maximum size of a request's header in bytes.
const maxHeader = 64 << 10

// NewServer returns a server for the API, on which no client can hold a connection for longer than the limits.
func NewServer(handler http.Handler, limits Limits, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: cmp.Or(limits.Header, 5*time.Second),
		ReadTimeout:       cmp.Or(limits.Request, 30*time.Second),
		WriteTimeout:      cmp.Or(limits.Answer, 2*time.Minute),
		IdleTimeout:       cmp.Or(limits.Idle, time.Minute),
		MaxHeaderBytes:    maxHeader,
		ConnContext:       withPeer,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// openAPI is the description of the API (OpenAPI 3.1). Tests hold it against the routes, the types of package api, and the answers of a
// running proxy.
//
//go:embed openapi.json
var openAPI []byte

// openAPIRoutes returns GET /api/v1/openapi.json.
func openAPIRoutes() []route {
	return []route{{path: api.OpenAPIPath, methods: methods{http.MethodGet: handled(func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-cache") // another version of the proxy may have another one
		_, _ = w.Write(openAPI)                     // a client that has gone needs no answer
		return nil
	})}}}
}
