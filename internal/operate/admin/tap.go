package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Tap is a stream of events of sessions, which one goroutine reads.
type Tap interface {
	// Next returns the events since the last call, and waits until there are some, or returns the context's error. more is false after the
	// last ones.
	Next(ctx context.Context) (events []api.TapEvent, more bool, err error)
	// End ends the tap with an event that gives the reason, which Next still returns. Close ends it at once. Both may be called from any
	// goroutine.
	End(reason string)
	Close()
}

// ErrNoSession is the error of [Source.Tap] for the id of a session that is not there, or over.
var ErrNoSession = errors.New("no such session")

// tapRoutes returns GET /api/v1/tap.
func (s *Source) tapRoutes() []route {
	return []route{{path: api.TapPath, acts: true, action: "tap", methods: methods{http.MethodGet: s.serveTap}}}
}

// serveTap serves a tap until it ends, its time has passed, or the reader leaves, is too slow or is no longer admitted.
func (s *Source) serveTap(w http.ResponseWriter, r *http.Request) {
	query, err := api.ParseTapQuery(r.URL.Query())
	if err != nil {
		answerError(w, BadRequest("%v", err))
		return
	}
	ordered(r, query.Order)
	stream := beginStream(w, r, "application/x-ndjson")
	if stream == nil {
		return
	}
	tap, err := s.startTap(query)
	if err != nil {
		stream.fail(err)
		return
	}
	defer tap.Close()
	limit := time.Duration(query.Seconds * float64(time.Second))
	s.Audit.Note(r, "tap", tapTarget(query), query.Order, "for at most "+limit.String())
	over := time.AfterFunc(limit, func() { tap.End("its time of " + limit.String() + " has passed") })
	defer over.Stop()
	sendTap(r.Context(), stream, tap)
}

// startTap starts a tap, unless what it names does not exist: it would wait without success.
func (s *Source) startTap(q api.TapQuery) (Tap, error) {
	if q.Service != "" || q.Backend != "" {
		var services []string
		now := s.Stats()
		backends := now.BackendNames()
		for i := range now.Services {
			services = append(services, now.Services[i].Name)
		}
		switch {
		case q.Service != "" && !slices.Contains(services, q.Service):
			return nil, Unknown("service", q.Service, services)
		case q.Backend != "" && !slices.Contains(backends, q.Backend):
			return nil, Unknown("backend", q.Backend, backends)
		}
	}
	tap, err := s.Tap(q)
	if errors.Is(err, ErrNoSession) {
		if detail, ok := s.Sessions.Detail(q.Session); ok {
			return nil, WrongState("session %s has ended: %s, code %d (%s)", q.Session, detail.By, detail.Code, detail.Reason)
		}
		return nil, unknownSession(q.Session)
	}
	return tap, err
}

// tapTarget says for the audit log what is tapped.
func tapTarget(q api.TapQuery) string {
	var words []string
	for _, part := range [][2]string{{"", q.Session}, {"client ", q.Client}, {"backend ", q.Backend}, {"service ", q.Service}} {
		if part[1] != "" {
			words = append(words, part[0]+cut(part[1]))
		}
	}
	return strings.Join(words, ", ")
}

// sendTap sends a tap's events as they come.
func sendTap(reader context.Context, stream *stream, tap Tap) {
	if stream.send(nil) != nil { // the header, so that the reader knows that the tap has begun
		return
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	for more := true; more; {
		ctx, cancel := context.WithTimeout(reader, heartbeatInterval)
		var events []api.TapEvent
		var err error
		events, more, err = tap.Next(ctx)
		cancel()
		b.Reset()
		for i := range events {
			err = cmp.Or(err, encoder.Encode(&events[i]))
		}
		switch {
		case errors.Is(err, context.DeadlineExceeded) && reader.Err() == nil:
			b.WriteByte('\n')
		case err != nil:
			return
		}
		switch err = stream.send(b.Bytes()); {
		case errors.Is(err, errNotAdmitted):
			b.Reset() // without the events: the reader may not see them
			if encoder.Encode(&api.TapEvent{Time: time.Now().UTC(), Event: api.TapEnd, Reason: err.Error()}) == nil {
				_ = stream.write(b.Bytes())
			}
			return
		case err != nil:
			return
		}
	}
}
