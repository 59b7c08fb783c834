package admin

import (
	"log/slog"
	"net/http"
	"time"
)

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
	or := func(d, value time.Duration) time.Duration {
		if d > 0 {
			return d
		}
		return value
	}
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: or(limits.Header, 5*time.Second),
		ReadTimeout:       or(limits.Request, 30*time.Second),
		WriteTimeout:      or(limits.Answer, 2*time.Minute),
		IdleTimeout:       or(limits.Idle, time.Minute),
		MaxHeaderBytes:    maxHeader,
		ConnContext:       withPeer,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
