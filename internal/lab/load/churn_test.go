package load

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// churning are options for four clients with sessions of 50 ms.
func churning(url string) Options {
	o := quick(url)
	o.Duration, o.SessionLength, o.ProgressInterval = time.Hour, 50*time.Millisecond, 5*time.Millisecond
	return o
}

// until runs a load until a report of progress says so.
func until(t *testing.T, o Options, enough func(Progress) bool) *Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := Run(ctx, o, func(p Progress) {
		if enough(p) {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r.Figures)
	checkAccounts(t, r)
	return r
}

// checkAccounts holds the figures of a result against one another: nothing may be lost silently.
func checkAccounts(t *testing.T, r *Result) {
	t.Helper()
	check := func(name string, f *Figures) {
		if got := int64(f.ConnectFailures) + f.Complete + f.Refused + f.Failed + f.Cut; got != f.Begun {
			t.Errorf("%s: %d sessions begun, but %d ended", name, f.Begun, got)
		}
		if got := f.Connect.Count() + f.ConnectAgain.Count(); got != f.Begun-int64(f.ConnectFailures)-f.Refused && !r.Interrupted {
			t.Errorf("%s: %d sessions connected, but %d ended that did", name, got, f.Begun-int64(f.ConnectFailures)-f.Refused)
		}
		firsts := f.Connect.Count() + f.ConnectAgain.Count()
		answered := f.Received + f.FirstEcho.Count() + f.ReplyAgain.Count()
		if got := answered + f.Lost + f.Abandoned; got != f.Sent+firsts && f.Mixed == 0 {
			t.Errorf("%s: %d messages sent, but %d answered, %d lost and %d abandoned", name, f.Sent+firsts, answered, f.Lost, f.Abandoned)
		}
	}
	check("all", &r.Figures)
	var sum Figures
	for _, target := range r.Targets {
		check(target.URL, &target.Figures)
		sum.Connections += target.Connections
		sum.Begun += target.Begun
		sum.Sent += target.Sent
		sum.Received += target.Received
	}
	if sum.Connections != r.Connections || sum.Begun != r.Begun || sum.Sent != r.Sent || sum.Received != r.Received {
		t.Errorf("the targets' figures are together %+v", sum)
	}
	var points Point
	end := time.Duration(0)
	for _, p := range r.Series {
		if p.Start != end || p.End < p.Start {
			t.Errorf("a point of the series is from %s to %s; the one before ended at %s", p.Start, p.End, end)
		}
		end = p.End
		points.Sent += p.Sent
		points.Received += p.Received
		points.Lost += p.Lost
		points.Mixed += p.Mixed
		points.Connects += p.Connects
		points.Failures += p.Failures
		points.Completed += p.Completed
	}
	want := Point{
		Sent: r.Sent, Received: r.Received, Lost: r.Lost, Mixed: r.Mixed, Failures: r.Failures(), Completed: r.Complete,
		Connects: r.Connect.Count() + r.ConnectAgain.Count(),
	}
	if points != want {
		t.Errorf("the points of the series are together %+v; want %+v", points, want)
	}
}

func TestChurnBeginsSessionsAnew(t *testing.T) {
	for name, o := range map[string]Options{
		"busy":      {Rate: 200},
		"idle":      {Rate: 0},
		"no jitter": {Rate: 200, NoJitter: true},
		"one dial":  {Rate: 200, DialParallel: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := sim.Start(sim.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			all := churning(server.URL())
			all.Rate, all.NoJitter, all.DialParallel = o.Rate, o.NoJitter, o.DialParallel
			r := until(t, all, func(p Progress) bool { return p.Sessions >= 20 })
			if err := r.Err(); err != nil || len(r.Errors) > 0 {
				t.Errorf("%v, %v", err, r.Errors)
			}
			if r.Complete < 20 || r.ReplyAgain.Count() < 16 || r.FirstEcho.Count() != 4 || r.SessionsPerSecond <= 0 {
				t.Errorf("%d sessions complete, %d first replies, %d first echoes, %.1f/s",
					r.Complete, r.ReplyAgain.Count(), r.FirstEcho.Count(), r.SessionsPerSecond)
			}
			if (r.Latency.Count() > 0) != (o.Rate > 0) || r.Latency.Max() > time.Minute {
				t.Errorf("%d latencies, the longest %s", r.Latency.Count(), r.Latency.Max())
			}
			if codes := r.CloseCodes; len(codes) != 1 || codes[frame.NormalClosure] < r.Complete {
				t.Errorf("close codes %v", codes)
			}
			if !r.Interrupted {
				t.Error("the result does not say that the run was interrupted")
			}
		})
	}
}

func TestChurnGoesOnAfterSessionsThatFail(t *testing.T) {
	var sessions atomic.Int64
	s := wstest.StartLibraryServer(t, func(c *websocket.Conn) error {
		if sessions.Add(1)%3 == 0 {
			return c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseTryAgainLater, "full"))
		}
		return wstest.LibraryEcho(c)
	})
	r := until(t, churning(s.URL), func(p Progress) bool { return p.Failed >= 4 && p.Sessions >= 8 })
	if r.Failed < 4 || r.Errors["closed with 1013"] != r.Failed || r.CloseCodes[1013] != r.Failed || r.Err() == nil {
		t.Errorf("%d failed, %v, close codes %v, %v", r.Failed, r.Errors, r.CloseCodes, r.Err())
	}
}

func TestChurnGoesOnAfterSessionsThatCannotConnect(t *testing.T) {
	var requests atomic.Int64
	var upgrader websocket.Upgrader
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The server refuses the first client, and every third one after it.
		if requests.Add(1)%3 == 1 {
			http.Error(w, "full", http.StatusServiceUnavailable)
			return
		}
		if c, err := upgrader.Upgrade(w, r, nil); err == nil {
			defer c.Close()
			_ = wstest.LibraryEcho(c)
		}
	}))
	defer server.Close()
	o := churning("ws" + strings.TrimPrefix(server.URL, "http"))
	r := until(t, o, func(p Progress) bool { return p.ConnectFailures >= 8 && p.Sessions >= 8 })
	if r.ConnectFailures == 0 || r.Errors["connect: HTTP 503"] != int64(r.ConnectFailures) {
		t.Errorf("%d could not connect at first, %v", r.ConnectFailures, r.Errors)
	}
	if r.Refused < 4 || r.Errors["connect again: HTTP 503"] != r.Refused || r.Failed != 0 || r.Err() == nil {
		t.Errorf("%d could not connect again, %v, %v", r.Refused, r.Errors, r.Err())
	}
}

// The progress has the clients that are connected now, and the attempts that fail. A server that is gone has none connected.
func TestProgressOfChurnWithoutServer(t *testing.T) {
	var gone atomic.Bool
	var upgrader websocket.Upgrader
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			http.Error(w, "gone", http.StatusBadGateway)
			return
		}
		if c, err := upgrader.Upgrade(w, r, nil); err == nil {
			defer c.Close()
			_ = wstest.LibraryEcho(c)
		}
	}))
	defer server.Close()
	o := churning("ws" + strings.TrimPrefix(server.URL, "http"))
	var last Progress
	r := until(t, o, func(p Progress) bool {
		if last = p; p.Sessions >= 4 {
			gone.Store(true)
		}
		return p.Connected == 0 && p.ConnectFailures >= 8
	})
	if last.Connected != 0 || last.Connections != o.Connections || r.Connected != o.Connections || r.Refused < 8 {
		t.Errorf("progress %+v; %d clients connected, %d could not again", last, r.Connected, r.Refused)
	}
}

// Clients that lost their first session dial again while others still dial for the first time. The run continues
// nevertheless, and no client dials twice at once.
func TestChurnEndsOnTimeIfTheServerDiesEarly(t *testing.T) {
	for name, silent := range map[string]bool{"refuses": false, "silent": true} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(vanishing(silent))
			defer server.Close()
			o := churning("ws" + strings.TrimPrefix(server.URL, "http"))
			o.Connections, o.SessionLength, o.Duration = 3, 10*time.Millisecond, 200*time.Millisecond
			if silent {
				o.ConnectTimeout = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			r, err := Run(ctx, o, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := int64(r.ConnectFailures) + r.Complete + r.Refused + r.Failed + r.Cut; got != r.Begun {
				t.Errorf("%d sessions begun, but %d ended", r.Begun, got)
			}
			if r.Interrupted || r.Duration < o.Duration || r.ConnectFailures == 0 || r.Refused == 0 {
				t.Errorf("interrupted: %v, steady for %s, %d could not connect at first, %d again",
					r.Interrupted, r.Duration, r.ConnectFailures, r.Refused)
			}
		})
	}
}

// A server that gives a session what belongs to an earlier one is what the load generator must not miss.
func TestChurnNoticesEarlierSessions(t *testing.T) {
	var kept atomic.Pointer[[]byte]
	s := wstest.StartLibraryServer(t, wstest.Answering(func(c *websocket.Conn, number, kind int, message []byte) error {
		if number == 0 {
			if earlier := kept.Swap(&message); earlier != nil {
				if err := c.WriteMessage(kind, *earlier); err != nil {
					return err
				}
			}
		}
		return c.WriteMessage(kind, message)
	}))
	o := churning(s.URL)
	o.Connections = 1
	r := until(t, o, func(p Progress) bool { return p.Mixed >= 3 })
	if r.Mixed < 3 || r.Errors[earlier] != r.Mixed || r.Lost != 0 || r.Err() == nil {
		t.Errorf("%d mixed, %d lost, %v, %v", r.Mixed, r.Lost, r.Errors, r.Err())
	}
}

// The last echoes of a session are awaited for a bounded time, and then counted as lost.
func TestChurnCountsWhatASessionLoses(t *testing.T) {
	s := wstest.StartLibraryServer(t, wstest.Answering(func(c *websocket.Conn, number, kind int, message []byte) error {
		if number > 2 {
			return nil
		}
		return c.WriteMessage(kind, message)
	}))
	o := churning(s.URL)
	o.Drain = 20 * time.Millisecond
	r := until(t, o, func(p Progress) bool { return p.Sessions >= 8 })
	if r.Lost == 0 || r.Errors[missing] != r.Lost || r.Failed != 0 {
		t.Errorf("%d lost, %v", r.Lost, r.Errors)
	}
}

func TestChurnGivesUpOnServersThatDoNotEndConnections(t *testing.T) {
	release := make(chan struct{})
	s := wstest.StartLibraryServer(t, func(c *websocket.Conn) error {
		err := wstest.LibraryEcho(c)
		<-release // the library has answered the close frame
		return err
	})
	defer close(release)
	r := until(t, churning(s.URL), func(p Progress) bool { return p.Failed >= 2 })
	if r.Failed < 2 || r.Errors[notEnded] != r.Failed {
		t.Errorf("%d failed, %v", r.Failed, r.Errors)
	}
}
