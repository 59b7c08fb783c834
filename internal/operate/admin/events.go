package admin

import (
	"net/http"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
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
	stream := beginStream(w, r, "text/event-stream")
	if stream == nil {
		return
	}
	events, cancel, err := s.Subscribe(query)
	if err != nil {
		stream.fail(Busy("%v", err))
		return
	}
	defer cancel()
	silent := time.NewTimer(heartbeatInterval)
	defer silent.Stop()
	next := []byte(retryLine)
	for open := true; open && stream.send(next) == nil; {
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
