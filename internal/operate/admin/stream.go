package admin

import (
	"net/http"
	"time"
)

const (
	// sendTimeout is how long a reader of a stream may take to accept what is sent. One that takes longer does not read.
	sendTimeout = 10 * time.Second
	// heartbeatInterval is how long a stream may be silent. Proxies on the way, and readers, tell by it that it is alive.
	heartbeatInterval = 15 * time.Second
)

// stream is an answer that is sent piece by piece, for as long as its reader likes. One goroutine uses it.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

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
	return &stream{w, http.NewResponseController(w)}
}

// send sends a piece, under its own deadline instead of the one for whole answers, [Limits.Answer].
func (s *stream) send(text []byte) error {
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
