// Package admin serves the admin API over HTTP: liveness, readiness, statistics, metrics and the configuration.
package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/api"
)

// Source provides the data of the API. All fields but Dashboard are required; the functions may be called from any goroutine at any time.
type Source struct {
	// Ready returns nil if clients can be served, otherwise an error that says why not.
	Ready func() error
	// Stats returns the statistics.
	Stats func() api.Stats
	// Configuration serves /api/v1/config and below, to read and change the configuration.
	Configuration http.Handler
	// Metrics serves /metrics. It is a handler so that this package does not depend on a format.
	Metrics http.Handler
	// Dashboard serves / and /static/, for browsers; nil for none: then / lists the paths of the API.
	Dashboard http.Handler
}

// Handler returns the API. Everything but the configuration is read-only. It logs answers that it cannot encode.
func Handler(source Source, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := source.Ready(); err != nil {
			text(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		text(w, http.StatusOK, "ready")
	})
	mux.HandleFunc("GET /api/v1/stats", func(w http.ResponseWriter, _ *http.Request) {
		// Encode before sending the status, so that an encoding error does not become a 200 without a body.
		body, err := json.MarshalIndent(source.Stats(), "", "  ")
		if err != nil {
			log.Error("statistics cannot be encoded", "error", err)
			text(w, http.StatusInternalServerError, "the statistics cannot be encoded: "+err.Error())
			return
		}
		answer(w, http.StatusOK, "application/json", body)
	})
	mux.Handle("/api/v1/config", source.Configuration)
	mux.Handle("/api/v1/config/", source.Configuration)
	mux.Handle("GET /metrics", source.Metrics)
	if source.Dashboard != nil {
		mux.Handle("GET /{$}", source.Dashboard)
		mux.Handle("GET /static/", source.Dashboard)
	} else {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
			text(w, http.StatusOK, "wsbouncer admin: /healthz /readyz /api/v1/stats /api/v1/config /metrics")
		})
	}
	return mux
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
