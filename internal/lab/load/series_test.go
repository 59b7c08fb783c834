package load

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func TestSeriesShowsTheWholeRun(t *testing.T) {
	o := quick(wstest.StartLibraryServer(t, wstest.LibraryEcho).URL)
	o.URLs = append(o.URLs, wstest.StartLibraryServer(t, wstest.LibraryEcho).URL)
	o.SampleInterval, o.ProgressInterval = 50*time.Millisecond, 5*time.Millisecond
	r := mustRun(t, o)
	checkAccounts(t, r)
	if n := len(r.Series); n < 2 || n > 200 {
		t.Fatalf("%d points", n)
	}
	phase, busy := Connecting, 0
	for i, p := range r.Series {
		if p.Phase < phase {
			t.Errorf("point %d is of the phase %s, after one of %s", i, p.Phase, phase)
		}
		phase = p.Phase
		if p.Received > 0 {
			busy++
			if p.P50 <= 0 || p.P50 > p.P90 || p.P90 > p.P99 || p.P99 > p.Max || p.Max > r.Latency.Max() {
				t.Errorf("point %d: %+v", i, p)
			}
		} else if p.P50+p.P90+p.P99+p.Max != 0 {
			t.Errorf("point %d has latencies without messages: %+v", i, p)
		}
		if p.Active != 4 && p.Phase == Steady {
			t.Errorf("point %d: %d connections are open at its end", i, p.Active)
		}
		if i < len(r.Series)-1 && p.End-p.Start < o.SampleInterval/shortPoint {
			t.Errorf("point %d is %s long", i, p.End-p.Start)
		}
	}
	if last := r.Series[len(r.Series)-1]; busy == 0 || last.Active != 4 {
		t.Errorf("%d points have messages, %d connections were open before the run closed them", busy, last.Active)
	}
	if r.AllConnected <= 0 || r.LastFirstEcho < r.AllConnected || r.LastFirstEcho < r.FirstEcho.Quantile(0.5) {
		t.Errorf("all connected after %s, last first echo after %s", r.AllConnected, r.LastFirstEcho)
	}
	for _, target := range r.Targets {
		if target.Connections != 2 || target.Connected != 2 || target.Received != 80 || target.MessagesPerSecond <= 0 {
			t.Errorf("%+v", target)
		}
	}
}

// Points are added up from what is collected at uneven times; short ones go with others.
func TestCollectionMakesPoints(t *testing.T) {
	const second, least = time.Second, 100 * time.Millisecond
	c := newCollection(2)
	receive := func(target int, n int64, latency time.Duration) {
		full := c.take()
		full.Received = n
		for range n {
			full.Latency.Record(int64(latency))
		}
		c.put(target, full)
	}
	c.close(50*time.Millisecond, least, Steady) // too short
	receive(0, 10, 10*time.Millisecond)
	receive(1, 20, 20*time.Millisecond)
	c.close(second, least, Steady)
	receive(0, 5, 30*time.Millisecond)
	c.close(2*second, least, Draining)
	receive(1, 1, 40*time.Millisecond)
	points := c.finish(2*second+50*time.Millisecond, least, 7)
	if len(points) != 2 {
		t.Fatalf("%+v", points)
	}
	first, last := points[0], points[1]
	if first.Start != 0 || first.End != second || first.Phase != Steady || first.Received != 30 || first.Max.Round(time.Millisecond) != 20*time.Millisecond {
		t.Errorf("%+v", first)
	}
	if last.Start != second || last.End != 2*second+50*time.Millisecond || last.Received != 6 || last.Active != 7 || last.P50.Round(time.Millisecond) != 30*time.Millisecond ||
		last.Max.Round(time.Millisecond) != 40*time.Millisecond {
		t.Errorf("%+v", last)
	}
	if rate := last.PerSecond(last.Received); rate < 5.7 || rate > 5.8 {
		t.Errorf("%f per second", rate)
	}
	if c.total.Received != 36 || c.byTarget[0].Received != 15 || c.byTarget[1].Received != 21 || c.total.Latency.Count() != 36 {
		t.Errorf("in all %d, of targets %d and %d", c.total.Received, c.byTarget[0].Received, c.byTarget[1].Received)
	}
}

func TestRunThatIsInterruptedWhileConnectingTellsWhatItHas(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(hesitant(stop))
	defer server.Close()
	defer close(stop)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	o := quick("ws" + strings.TrimPrefix(server.URL, "http"))
	o.ConnectTimeout, o.ProgressInterval = time.Hour, 5*time.Millisecond
	r, err := Run(ctx, o, func(p Progress) {
		if p.Connected == 2 {
			cancel(errors.New("enough"))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	checkAccounts(t, r)
	if !r.Interrupted || r.Connected != 2 || r.ConnectFailures != 0 || r.FirstEcho.Count() != 2 || r.Begun != 2 || len(r.Series) == 0 {
		t.Errorf("%+v, %d points", r.Figures, len(r.Series))
	}
}
