package live

import (
	"math"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

const (
	pointInterval = 10 * time.Second
	historyLength = time.Hour
)

// totals are the numbers from whose differences a point of the history is made.
type totals struct {
	at                 time.Time
	sessions           uint64 // begun
	frames, bytes      uint64 // relayed both ways
	failed, refused    uint64
	moved, notMoved    uint64 // to other backends
	firstReply, waited meter.Distribution
}

// totalsOf sums up the statistics and what was counted of all backends.
func totalsOf(at time.Time, s *api.Stats, m *meter.Totals) totals {
	r := &s.Relayed
	t := totals{
		at: at, sessions: s.Sessions.Total,
		frames: r.FramesFromClients + r.FramesFromBackends, bytes: r.BytesFromClients + r.BytesFromBackends,
		failed: m.Failed(), firstReply: m.FirstReply, waited: m.Wait,
	}
	for _, n := range m.Failovers {
		t.moved, t.notMoved = t.moved+n.Moved, t.notMoved+n.NotMoved
	}
	for _, n := range s.Sessions.Refused {
		t.refused += n
	}
	return t
}

// point returns the point of the history between two totals.
func (t *totals) point(before *totals, s *api.Stats) api.Point {
	seconds := t.at.Sub(before.at).Seconds()
	perSecond := func(now, before uint64) float64 { return rate(difference(now, before), seconds) }
	p := api.Point{
		Time: t.at.UTC(), Sessions: float64(s.Sessions.Active),
		SessionsPerSecond: perSecond(t.sessions, before.sessions),
		FramesPerSecond:   perSecond(t.frames, before.frames),
		BytesPerSecond:    perSecond(t.bytes, before.bytes),
		Failed:            difference(t.failed, before.failed),
		Refused:           difference(t.refused, before.refused),
		Moved:             difference(t.moved, before.moved),
		NotMoved:          difference(t.notMoved, before.notMoved),
		FirstReplySeconds: median(t.firstReply, before.firstReply),
		WaitedSeconds:     median(t.waited, before.waited),
	}
	for _, service := range s.Services {
		p.Waiting += float64(service.Queue.Waiting)
	}
	return p
}

// median returns the median of what was counted between two distributions in seconds, with four digits after the point; 0 for nothing.
func median(now, before meter.Distribution) float64 {
	return math.Round(now.Since(before).Quantile(0.5).Seconds()*10_000) / 10_000
}

// difference returns by how much a counter has risen; 0 if it has fallen.
func difference(now, before uint64) uint64 { return now - min(now, before) }

// rate returns how many there were per second, with three digits after the point; 0 for no time.
func rate(n uint64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return math.Round(float64(n)/seconds*1000) / 1000
}

// History returns the last hour, oldest point first. It begins when the hub was started.
func (h *Hub) History() api.History {
	h.mu.Lock()
	defer h.mu.Unlock()
	return api.History{IntervalSeconds: pointInterval.Seconds(), Points: append([]api.Point{}, h.points...)}
}

// totals returns the totals of this moment, and the statistics that they are from.
func (h *Hub) totals() (totals, api.Stats) {
	stats, counted := h.options.Source.Stats(), h.options.Source.Totals()
	return totalsOf(time.Now(), &stats, &counted), stats
}

// addPoint adds a point to the history and sends it to the subscribers.
func (h *Hub) addPoint() {
	now, stats := h.totals()
	point := now.point(&h.before, &stats)
	h.before, h.history = now, nil
	h.mu.Lock()
	if len(h.points) == int(historyLength/pointInterval) {
		h.points = slices.Delete(h.points, 0, 1)
	}
	h.points = append(h.points, point)
	h.mu.Unlock()
	var event []byte
	for _, s := range h.present() {
		if !s.greeted {
			continue // it gets the whole history
		}
		if event == nil {
			event = h.encode(api.EventHistory, api.History{IntervalSeconds: pointInterval.Seconds(), Points: []api.Point{point}})
		}
		h.send(s, event)
	}
}
