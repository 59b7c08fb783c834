package admin

import (
	"errors"
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
		{path: api.HistoryPath, methods: methods{http.MethodGet: served(func(http.ResponseWriter, *http.Request) (any, error) {
			return s.History(), nil
		})}},
	}
}

// serveEvents serves the stream of events until the subscriber leaves, is too slow or is no longer admitted, or the stream ends.
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

const (
	// sendTimeout is how long a reader of a stream may take to accept what is sent. One that takes longer does not read.
	sendTimeout = 10 * time.Second
	// heartbeatInterval is how long a stream may be silent. Proxies on the way, and readers, tell by it that it is alive.
	heartbeatInterval = 15 * time.Second
)

// stream is an answer that is sent piece by piece, for as long as its reader likes, and the guard admits that. One goroutine uses it.
type stream struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	admitted func() bool // nil for a request that is carried out to its end
}

// errNotAdmitted ends a stream whose reader the guard no longer admits.
var errNotAdmitted = errors.New("the admin API no longer admits this reader: the tokens have changed")

// beginStream returns the stream of events of that type that answers a request, unless there is nothing to stream: then it has answered
// the request, and returns nil.
func beginStream(w http.ResponseWriter, r *http.Request, contentType string) *stream {
	if r.ContentLength != 0 { // it could be sent for as long as the stream lasts
		answerError(w, BadRequest("the request has a body: %s takes none", cut(r.URL.Path)))
		return nil
	}
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would keep events back
	if r.Method == http.MethodHead {
		return nil
	}
	return &stream{w, http.NewResponseController(w), stillAdmitted(r)}
}

// send sends a piece, unless the guard no longer admits the reader.
func (s *stream) send(text []byte) error {
	if s.admitted != nil && !s.admitted() {
		_ = s.control.SetWriteDeadline(time.Now().Add(sendTimeout)) // for the end of the answer: the one of the last piece may have passed
		return errNotAdmitted
	}
	return s.write(text)
}

// write sends a piece, under its own deadline instead of the one for whole answers, [Limits.Answer].
func (s *stream) write(text []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

// fail answers the request with an error instead. Nothing must have been sent.
func (s *stream) fail(err error) {
	s.w.Header().Del("X-Accel-Buffering")
	answerError(s.w, err)
}
