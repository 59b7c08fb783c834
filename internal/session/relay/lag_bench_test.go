package relay

import (
	"fmt"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// BenchmarkLags asks sessions that one loop owns for their lags, as each proxy does once a second and for each question about its statistics.
func BenchmarkLags(b *testing.B) {
	for _, n := range []int{256, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig(b, setup{Profile: "echo", Cap: n, Script: &wstest.Server{Serve: wstest.Echo}})
			r.Ready(n)
			for range n {
				r.Join()
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if lags := r.sessions.Lags(0); len(lags) != 1 {
					b.Fatal(lags)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/session")
		})
	}
}

// BenchmarkUsage asks the same sessions, each of which has sent something since, for what they have used, as each proxy does once a second.
func BenchmarkUsage(b *testing.B) {
	const n = 3000
	r := newRig(b, setup{Profile: "vosk", Cap: n, Script: &wstest.Server{Serve: wstest.Echo}})
	r.Ready(n)
	for range n {
		r.Join()
	}
	sessions := r.sessions.All()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		r.sessions.Each(sessions, func(s *Session) { s.scanner.Bytes += 3200 })
		b.StartTimer()
		var booked meter.Used
		r.sessions.Usage(0, func(u Usage) { booked.Add(u.Used) })
		if booked.In.Bytes != n*3200 {
			b.Fatal(booked)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/session")
}
