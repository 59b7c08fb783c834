package admin

import (
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/api"
)

const (
	// eventTimeout is how long a subscriber may take to accept an event. One that takes longer is cut off.
	eventTimeout = 10 * time.Second
	// heartbeatInterval is how often something is sent at least, so that both sides, and proxies between them, see that the other is
	// still there.
	heartbeatInterval = 15 * time.Second
)

// The lines of a stream of server-sent events (WHATWG HTML, section 9.2.6) that are no events: how long, in milliseconds, a subscriber
// should wait before it connects again, and a comment.
const (
	retryLine = "retry: 2000\n\n"
	heartbeat = ":\n\n"
)

// eventRoutes returns GET /api/v1/events and GET /api/v1/history.
func (s *Source) eventRoutes() []route {
	return []route{
		{path: api.EventsPath, methods: methods{http.MethodGet: s.serveEvents}},
		{path: api.HistoryPath, methods: methods{http.MethodGet: served(func(_ http.ResponseWriter, r *http.Request) (any, error) {
			if err := onlyParameters(r); err != nil {
				return nil, err
			}
			return s.History(), nil
		})}},
	}
}

// serveEvents serves the stream of events until the subscriber leaves or is too slow, or the stream ends.
func (s *Source) serveEvents(w http.ResponseWriter, r *http.Request) {
	query, err := api.ParseEventQuery(r.URL.Query())
	if err != nil {
		answerError(w, BadRequest("%v", err))
		return
	}
	if r.ContentLength != 0 { // it could be sent for as long as the stream lasts
		answerError(w, BadRequest("the request has a body: %s takes none", api.EventsPath))
		return
	}
	header := w.Header()
	if r.Method == http.MethodHead {
		header.Set("Content-Type", "text/event-stream")
		return
	}
	events, cancel, err := s.Subscribe(query)
	if err != nil {
		answerError(w, Busy("%v", err))
		return
	}
	defer cancel()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would keep events back
	stream := http.NewResponseController(w)
	send := func(text []byte) error { // under its own deadline instead of the one for whole answers, [Limits.Answer]
		if err := stream.SetWriteDeadline(time.Now().Add(eventTimeout)); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		return stream.Flush()
	}
	silent := time.NewTimer(heartbeatInterval)
	defer silent.Stop()
	next := []byte(retryLine)
	for open := true; open && send(next) == nil; {
		silent.Reset(heartbeatInterval)
		select {
		case next, open = <-events:
		case <-silent.C:
			next = []byte(heartbeat)
		case <-r.Context().Done():
			open = false
		}
	}
}
