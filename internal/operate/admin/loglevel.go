package admin

import (
	"net/http"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// LogLevel is the level of the process's log. Its functions may be called from any goroutine.
type LogLevel struct {
	// Get returns the level.
	Get func() string
	// Set changes it to one of Allowed. The error may be an [Error].
	Set func(level string) error
	// Allowed are all levels, the one that logs the most first.
	Allowed []string
}

// routes returns GET and PUT /api/v1/log/level.
func (l *LogLevel) routes(audit *Audit) []route {
	return []route{{path: api.LogLevelPath, action: "log-level", methods: methods{
		http.MethodGet: served(func(_ http.ResponseWriter, r *http.Request) (any, error) {
			if err := onlyParameters(r); err != nil {
				return nil, err
			}
			return api.LogLevel{Level: l.Get()}, nil
		}),
		http.MethodPut: served(func(w http.ResponseWriter, r *http.Request) (any, error) {
			if err := onlyParameters(r); err != nil {
				return nil, err
			}
			return l.change(w, r, audit)
		}),
	}}}
}

// change sets the level, and notes that in the audit log.
func (l *LogLevel) change(w http.ResponseWriter, r *http.Request, audit *Audit) (any, error) {
	var body api.LogLevel
	if err := readBody(w, r, &body); err != nil {
		return nil, err
	}
	if err := checkOrder(&body.Order); err != nil {
		return nil, err
	}
	ordered(r, body.Order)
	if body.Level == "" {
		return nil, BadRequest("level: the value is missing: use %s", spelling.OneOf(l.Allowed))
	}
	if !slices.Contains(l.Allowed, body.Level) {
		return nil, BadRequest("level: %v", spelling.Unknown("log level", cut(body.Level), l.Allowed))
	}
	was := l.Get()
	if err := l.Set(body.Level); err != nil {
		return nil, err
	}
	audit.Note(r, "log-level", body.Level, body.Order, "it was "+was)
	return api.LogLevel{Level: body.Level}, nil
}
