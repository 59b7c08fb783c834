package relay

import (
	"fmt"
	"testing"

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
				if lags := r.sessions.Lags(); len(lags) != 1 {
					b.Fatal(lags)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/session")
		})
	}
}
