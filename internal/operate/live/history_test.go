package live

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// TestHistory records an hour and a bit.
func TestHistory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t)
		if h := r.History(); h.Points == nil || len(h.Points) != 0 || h.IntervalSeconds != 10 {
			t.Errorf("at the start: %+v", h)
		}
		begun := time.Now()
		busy := api.Stats{
			Services: []api.Service{{Queue: api.Queue{Waiting: 3}}, {Queue: api.Queue{Waiting: 4}}},
			Sessions: api.Sessions{
				Active: 7, Total: 25, Refused: map[int]uint64{404: 2, 503: 3},
				Ended: map[uint16]uint64{1000: 50, 1011: 15},
			},
			Relayed: api.Relayed{FramesFromClients: 100, FramesFromBackends: 21, BytesFromClients: 1000, BytesFromBackends: 7},
		}
		waits, replies := meter.NewHistogram(time.Second), meter.NewHistogram(time.Second, 3*time.Second)
		waits.Observe(time.Millisecond)
		replies.Observe(2 * time.Second)
		counted := meter.Totals{
			Ends: []meter.End{
				meter.NewEnd(meter.Client, 1000, meter.Normal, 50),
				meter.NewEnd(meter.Server, 1011, meter.BackendFailed, 7), meter.NewEnd(meter.Proxy, 1011, meter.InternalError, 8),
			},
			Failovers: meter.Failovers{{Moved: 4}, {Moved: 2, NotMoved: 1}},
			Times:     meter.Times{Wait: waits.Read(), FirstReply: replies.Read()},
		}
		r.change(func() { r.stats, r.totals = busy, counted })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want := api.Point{
			Time: begun.Add(10 * time.Second).UTC(), Sessions: 7, Waiting: 7, SessionsPerSecond: 2.5, FramesPerSecond: 12.1,
			BytesPerSecond: 100.7, Failed: 15, Refused: 5, Moved: 6, NotMoved: 1, WaitedSeconds: 0.001, FirstReplySeconds: 2,
		}
		if h := r.History(); len(h.Points) != 1 || h.Points[0] != want {
			t.Errorf("got  %+v\nwant %+v", h.Points, want)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want = api.Point{Time: begun.Add(20 * time.Second).UTC(), Sessions: 7, Waiting: 7}
		if h := r.History(); len(h.Points) != 2 || h.Points[1] != want {
			t.Errorf("without a change: got %+v; want %+v", h.Points, want)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		h := r.History()
		if len(h.Points) != 360 || !h.Points[359].Time.Equal(time.Now()) || h.Points[359].Time.Sub(h.Points[0].Time) != 3590*time.Second {
			t.Errorf("%d points from %v to %v", len(h.Points), h.Points[0].Time, h.Points[len(h.Points)-1].Time)
		}
	})
}

// TestHistoryInTheStream: the whole hour first, then each point.
func TestHistoryInTheStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t)
		time.Sleep(35 * time.Second)
		reader := r.subscribe(t, every(60))
		defer reader.cancel()
		first := reader.expect(t, "history stats sessions")
		if h := decode[api.History](t, first[0]); len(h.Points) != 3 {
			t.Errorf("%d points; want 3", len(h.Points))
		}
		time.Sleep(10 * time.Second)
		if h := decode[api.History](t, reader.expect(t, "history")[0]); len(h.Points) != 1 || h.IntervalSeconds != 10 {
			t.Errorf("%+v; want the new point", h)
		}
		late := r.subscribe(t, every(60))
		defer late.cancel()
		if h := decode[api.History](t, late.expect(t, "history stats sessions")[0]); len(h.Points) != 4 {
			t.Errorf("%d points; want 4", len(h.Points))
		}
	})
}

// TestTotalsThatFall: a counter that starts again is no huge rate.
func TestTotalsThatFall(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before := totals{at: at, sessions: 9, frames: 9, bytes: 9, failed: 9, refused: 9}
	now := totals{at: at.Add(10 * time.Second)}
	if p := now.point(&before, &api.Stats{}); p != (api.Point{Time: now.at}) {
		t.Errorf("%+v", p)
	}
	same := totals{at: at, sessions: 10}
	if p := same.point(&before, &api.Stats{}); p.SessionsPerSecond != 0 {
		t.Errorf("%+v in no time", p)
	}
}
