package live

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// sample is the proxy at one instant. The hub's goroutine owns it.
type sample struct {
	at       time.Time
	stats    []byte // the event
	sessions []Session
	lists    map[api.SessionQuery][]byte // the events with the sessions that were asked for, as far as they were made
}

// run is the hub's goroutine.
func (h *Hub) run() {
	defer h.disconnect()
	points := time.NewTicker(pointInterval)
	defer points.Stop()
	defer h.tick.Stop()
	h.guarded(func() { h.before, _ = h.totals() })
	for {
		select {
		case <-h.ended.Done():
			return
		case <-points.C:
			h.guarded(h.addPoint)
		case <-h.joined:
			h.guarded(h.serve)
		case <-h.tick.C:
			h.guarded(h.serve)
		}
	}
}

// guarded calls f and survives its panic, if the options say so.
func (h *Hub) guarded(f func()) {
	defer h.options.Guard.Recover("live views", func() { h.tick.Reset(time.Second) })
	f()
}

// serve samples if a sample is due, sends the subscribers what they have not seen, and sets the timer.
func (h *Hub) serve() {
	subscribers := h.present()
	if len(subscribers) == 0 {
		h.sample, h.rates, h.history = nil, rates{}, nil
		return
	}
	interval := shortest(subscribers)
	if now := time.Now(); h.sample == nil || now.Sub(h.sample.at) >= interval {
		h.take(now)
	}
	h.sendNews(subscribers)
	for _, s := range subscribers {
		// Samples come at the shortest of all intervals: a subscriber with a longer one gets the nearest.
		if s.greeted && h.sample.at.Sub(s.shown) >= s.interval()-interval/2 {
			h.show(s)
		}
	}
	for _, s := range subscribers {
		if !s.greeted {
			h.greet(s)
		}
	}
	h.tick.Reset(time.Until(h.sample.at.Add(interval)))
}

func (s *subscription) interval() time.Duration {
	return time.Duration(s.query.IntervalSeconds) * time.Second
}

func shortest(all []*subscription) time.Duration {
	interval := all[0].interval()
	for _, s := range all {
		interval = min(interval, s.interval())
	}
	return max(interval, time.Second)
}

// take takes a sample.
func (h *Hub) take(now time.Time) {
	stats := h.encode(api.EventStats, h.options.Source.Stats())
	var sessions []Session
	if h.sample != nil { // its sessions are no longer needed
		sessions, h.sample = h.sample.sessions[:0], nil
	}
	sessions = h.options.Source.Sessions(h.ended, sessions)
	h.rates.measure(now, sessions)
	h.sample = &sample{at: now, stats: stats, sessions: sessions, lists: make(map[api.SessionQuery][]byte)}
}

// show sends a subscriber the last sample.
func (h *Hub) show(s *subscription) {
	query := s.query.SessionQuery
	list := h.sample.lists[query]
	if list == nil {
		list = h.encode(api.EventSessions, h.choose(query))
		h.sample.lists[query] = list
	}
	s.shown = h.sample.at
	h.send(s, h.sample.stats)
	h.send(s, list)
}

// choose returns the sessions of the last sample that a query chooses.
func (h *Hub) choose(query api.SessionQuery) api.SessionList {
	all := h.sample.sessions
	named := func(s *Session) *api.Session {
		if s.ID == "" {
			h.options.Source.Name(s)
		}
		return &s.Session
	}
	at := func(i int) *api.Session { return &all[i].Session }
	if query.Client != "" || query.Sort == "client" {
		at = func(i int) *api.Session { return named(&all[i]) }
	}
	chosen, matched := query.Pick(len(all), at)
	list := api.SessionList{Sessions: make([]api.Session, len(chosen)), Matched: matched, Total: len(all)}
	for k, i := range chosen {
		list.Sessions[k] = *named(&all[i])
	}
	return list
}

// greet sends a new subscriber what the others know already.
func (h *Hub) greet(s *subscription) {
	s.greeted = true
	if h.history == nil {
		h.history = h.encode(api.EventHistory, h.History())
	}
	h.send(s, h.history)
	ended, next := h.options.Source.Ended(0)
	h.send(s, news(h, api.EventEnded, before(ended, next, h.endings)))
	actions, next := h.options.Source.Audit(0)
	h.send(s, news(h, api.EventAudit, before(actions, next, h.actions)))
	h.show(s)
}

// sendNews sends the subscribers the sessions that have ended and the actions of operators since the last time.
func (h *Hub) sendNews(subscribers []*subscription) {
	ended, next := h.options.Source.Ended(h.endings)
	h.endings = next
	actions, next := h.options.Source.Audit(h.actions)
	h.actions = next
	events := [][]byte{news(h, api.EventEnded, ended), news(h, api.EventAudit, actions)}
	for _, s := range subscribers {
		for _, event := range events {
			if s.greeted {
				h.send(s, event)
			}
		}
	}
}

// before returns those of all, behind which the cursor is next, that are before another cursor.
func before[T any](all []T, next, cursor uint64) []T {
	return all[:max(0, len(all)-int(difference(next, cursor)))]
}

// news returns the event with the last of all; nil for none.
func news[T any](h *Hub, name string, all []T) []byte {
	if len(all) == 0 {
		return nil
	}
	return h.encode(name, all[max(0, len(all)-mostNews):])
}

// encode returns a server-sent event with that name and data as JSON, which has no line breaks (WHATWG HTML, section 9.2.6); nil if it
// cannot be encoded.
func (h *Hub) encode(name string, data any) []byte {
	var b bytes.Buffer
	b.WriteString("event: " + name + "\ndata: ")
	if err := json.NewEncoder(&b).Encode(data); err != nil {
		h.options.Log.Error("event cannot be encoded", "event", name, "error", err)
		return nil
	}
	b.WriteByte('\n') // behind the one of Encode: an empty line ends the event
	return b.Bytes()
}

// rates measures how fast sessions are, by the differences between two samples of their counters. The hub's goroutine owns it. Its
// zero value knows no sample.
type rates struct {
	sessions map[uint64]*counted // by number: what the last sample has
}

// counted is a session in the last sample.
type counted struct {
	at     time.Time // of that sample
	age    float64   // seconds
	frames uint64    // both ways
}

// measure sets the sessions' FramesPerSecond, by their ages: many are not all read at one time. The time in which a client waited does not count. A session that the last sample did not have, such as
// all sessions at the first sample, gets its average rate since it was served, and for its first second the frames that have passed by then: a rate
// over some milliseconds would put newcomers before all others.
func (r *rates) measure(at time.Time, all []Session) {
	if r.sessions == nil {
		r.sessions = make(map[uint64]*counted, len(all))
	}
	for i := range all {
		s := &all[i]
		frames := s.FramesFromClient + s.FramesFromBackend
		served := max(s.AgeSeconds-s.WaitedSeconds, 1)
		c := r.sessions[s.Number]
		if c == nil {
			r.sessions[s.Number] = &counted{at, s.AgeSeconds, frames}
			s.FramesPerSecond = rate(frames, served)
			continue
		}
		s.FramesPerSecond = rate(difference(frames, c.frames), min(s.AgeSeconds-c.age, served))
		*c = counted{at, s.AgeSeconds, frames}
	}
	if len(r.sessions) > len(all) { // some have ended
		maps.DeleteFunc(r.sessions, func(_ uint64, c *counted) bool { return !c.at.Equal(at) })
	}
}
