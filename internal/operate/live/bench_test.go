package live

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// BenchmarkSample takes a sample of 9,000 sessions on 3 backends and queues its events for 5 subscribers with the same query. It does not
// include reading the sessions from their event loops.
func BenchmarkSample(b *testing.B) {
	sessions := make([]Session, 9000)
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range sessions {
		sessions[i] = Session{
			Number: uint64(i), Address: origin.Address{AddrPort: netip.MustParseAddrPort("10.0.0.9:45678")}, ConnectionNumber: uint32(i),
			Session: api.Session{
				Service: "stt", Backend: fmt.Sprintf("gpu-%d", i%3), State: api.StateRelaying, Started: began.Add(time.Duration(i) * time.Millisecond),
				AgeSeconds: float64(i) / 7, BytesFromClient: uint64(i) * 3200, BytesFromBackend: uint64(i) * 50, FirstReplySeconds: 0.123456,
			},
		}
	}
	stats := api.Stats{Services: make([]api.Service, 1), Backends: make([]api.Backend, 3)}
	round := uint64(0)
	h := &Hub{options: Options{Log: slog.New(slog.DiscardHandler), Source: Source{
		Stats: func() api.Stats { return stats },
		Sessions: func(_ context.Context, all []Session) []Session {
			all = append(all, sessions...)
			for i := range all {
				all[i].FramesFromClient, all[i].FramesFromBackend = round*uint64(1+i*7919%100), round*uint64(i*104729%10)
			}
			return all
		},
		Name: func(s *Session) {
			s.ID, s.Client, s.Connection = fmt.Sprintf("q7m2kd4x-%d", s.Number), s.Address.String(), fmt.Sprintf("%s/%d", s.Backend, s.ConnectionNumber)
		},
	}}}
	var subscribers []*subscription
	for range 5 {
		s := &subscription{query: every(2), events: make(chan []byte, queueSize), greeted: true}
		h.subscribers, subscribers = append(h.subscribers, s), append(subscribers, s)
	}
	now, size := began, 0
	b.ReportAllocs()
	for b.Loop() {
		round++
		now = now.Add(2 * time.Second)
		h.take(now)
		for _, s := range subscribers {
			h.show(s)
		}
		for _, s := range subscribers {
			size = len(<-s.events) + len(<-s.events)
		}
	}
	b.ReportMetric(float64(size), "bytes/subscriber")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/2*100, "%core@2s")
}
