package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// playedMoves are what the proxy that a test plays says of orders to move: first at once, then whenever it is asked.
var playedMoves = map[string][2]api.Moving{
	"gpu-1": {
		{Backend: "gpu-1", Sessions: []api.MovingSession{
			{ID: "q7m2kd4x-1", State: api.MoveDone, To: "gpu-2"},
			{ID: "q7m2kd4x-2", State: api.MoveWaiting},
			{ID: "q7m2kd4x-3", State: api.MoveWaiting},
			{ID: "q7m2kd4x-4", State: api.MoveUnderway, To: "gpu-2"},
		}},
		{Backend: "gpu-1", Done: true, Sessions: []api.MovingSession{
			{ID: "q7m2kd4x-1", State: api.MoveDone, To: "gpu-2"},
			{ID: "q7m2kd4x-2", State: api.MoveDone, To: "gpu-2", ReplayedSeconds: 2.14},
			{ID: "q7m2kd4x-3", State: api.MoveEnded},
			{ID: "q7m2kd4x-4", State: api.MoveRefused, Why: "no other backend has a place"},
		}},
	},
	"q7m2kd4x-5": {
		{
			Sessions: []api.MovingSession{{ID: "q7m2kd4x-5", State: api.MoveWaiting}},
			Missing:  []api.MissingProxy{{ID: "b", Name: "proxy-b", Why: "it did not answer"}},
		},
		{Done: true, Sessions: []api.MovingSession{{ID: "q7m2kd4x-5", State: api.MoveDone, To: "gpu-2"}}},
	},
	"gpu-2": {{Backend: "gpu-2", Done: true, Sessions: []api.MovingSession{{ID: "q7m2kd4x-9", State: api.MoveDone, To: "gpu-1"}}}},
	"q7m2kd4x-1": {
		{Sessions: []api.MovingSession{{ID: "q7m2kd4x-1", State: api.MoveWaiting}}},
		{Done: true, Sessions: []api.MovingSession{{ID: "q7m2kd4x-1", State: api.MoveDone, To: "gpu-2", ReplayedSeconds: 0.5}}},
	},
	"q7m2kd4x-2": {{Done: true, Sessions: []api.MovingSession{{ID: "q7m2kd4x-2", State: api.MoveRefused, Why: "its audio is older than the window"}}}},
	"q7m2kd4x-3": {{Done: true, Sessions: []api.MovingSession{{ID: "q7m2kd4x-3", State: api.MoveEnded}}}},
	"q7m2kd4x-4": {{Done: true, Replaced: true, Sessions: []api.MovingSession{{ID: "q7m2kd4x-4", State: api.MoveWaiting}}}},
}

// serveMoves adds orders to move to the proxy that a test plays. The orders are in s.orders.
func (s *stage) serveMoves(mux *http.ServeMux) {
	for _, path := range []string{api.BackendsPath, api.SessionsPath} {
		mux.HandleFunc(path+"/{what}/move", func(w http.ResponseWriter, r *http.Request) {
			answer := 1
			if r.Method == http.MethodPost {
				var order api.Order
				if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
					s.t.Error(err)
				}
				s.moves.add(r.PathValue("what") + "?" + r.URL.RawQuery + " by " + order.Who + ": " + order.Why)
				answer = 0
			}
			_ = json.NewEncoder(w).Encode(playedMoves[r.PathValue("what")][answer])
		})
	}
}

// orders are the orders to move that came.
type orders struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func (o *orders) add(order string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, order)
}

// take returns the orders since the last time.
func (o *orders) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := strings.Join(o.all, "\n")
	o.all = nil
	return all
}

func TestSessionMove(t *testing.T) {
	s := onProxy(t, open)
	same(t, "moved", s.must("session move q7m2kd4x-1 --to gpu-2 --timeout 5s --who alice --why test"), "session q7m2kd4x-1: moved to gpu-2, 0.5 s replayed")
	same(t, "the order", s.moves.take(), "q7m2kd4x-1?timeout=5s&to=gpu-2 by alice: test")
	for id, want := range map[string][2]string{
		"q7m2kd4x-2": {"session q7m2kd4x-2: not moved: its audio is older than the window\n", "the session was not moved"},
		"q7m2kd4x-3": {"session q7m2kd4x-3: ended meanwhile\n", "the session has ended"},
		"q7m2kd4x-4": {"", "another order to move the same took the place of this one"},
	} {
		if status, out, messages := s.run("session", "move", id); status != 1 || out != want[0] || !strings.Contains(messages, want[1]) {
			t.Errorf("%s: status %d, printed %q, said %q; want 1, %q", id, status, out, messages, want)
		}
	}
}

// Each session's fate is printed once, and one that could not be moved makes the exit status 1.
func TestDrainByMoving(t *testing.T) {
	s := onProxy(t, open).begin()
	s.playing(func() api.Stats {
		stats := playedStats()
		for i := range stats.Backends {
			stats.Backends[i].State = "draining"
		}
		stats.Configuration.Version = "5"
		return stats
	})
	status, out, messages := s.run("backend", "drain", "gpu-1", "--move", "--who", "alice", "--why", "new model")
	_, moves, _ := strings.Cut(out, "-> 5\n")
	same(t, "what it prints", moves, `
session q7m2kd4x-1: moved to gpu-2, nothing replayed
session q7m2kd4x-2: moved to gpu-2, 2.1 s replayed
session q7m2kd4x-3: ended meanwhile
session q7m2kd4x-4: not moved: no other backend has a place
backend gpu-1: 2 sessions moved, 1 not moved, 1 ended meanwhile`)
	if status != 1 || !strings.Contains(messages, "backend gpu-1 still serves 1 session that could not be moved") {
		t.Errorf("status %d, said %q", status, messages)
	}
	same(t, "the order", s.moves.take(), "gpu-1?timeout=30s by alice: new model")
	s.playing(func() api.Stats {
		stats := playedStats()
		stats.Backends[1].State, stats.Configuration.Version = "draining", "6"
		return stats
	})
	out = s.must("backend drain gpu-2 --move --timeout 0s --who alice")
	if !strings.HasSuffix(out, "session q7m2kd4x-9: moved to gpu-1, nothing replayed\nbackend gpu-2: 1 session moved, 0 not moved, 0 ended meanwhile\n") {
		t.Errorf("all moved: %s", out)
	}
	same(t, "the order", s.moves.take(), "gpu-2?timeout=0s by alice:")
	s.playing(func() api.Stats {
		stats := playedStats()
		stats.Backends[1].State, stats.Configuration.Version = "draining", "8"
		return stats
	})
	s.must("backend enable gpu-2")
	status, out, messages = s.run("backend", "drain", "gpu-2", "--move", "--output", "json")
	var change any
	if err := json.Unmarshal([]byte(out), &change); err != nil || status != 0 || !strings.Contains(messages, "session q7m2kd4x-9: moved to gpu-1") {
		t.Errorf("as JSON: status %d, %v: %s %s", status, err, out, messages)
	}
}

// A proxy that did not answer when the order was given may not have it, whatever it answers later.
func TestMoveThatAProxyMissed(t *testing.T) {
	s := onProxy(t, open).begin()
	status, out, messages := s.run("session", "move", "q7m2kd4x-5")
	if status != 1 || !strings.Contains(out, "moved to gpu-2") || !strings.Contains(messages, "proxy-b") {
		t.Errorf("status %d, %s, %s", status, out, messages)
	}
}

// Lists and the status of a proxy with failover show it.
func TestShowsFailover(t *testing.T) {
	s := onProxy(t, open).begin()
	s.playing(func() api.Stats {
		stats := playedStats()
		stats.Replay = &api.Replay{MemoryBytes: 12 << 20, LimitBytes: 1 << 30}
		stats.Services[0].Failover = &api.ServiceFailover{Mode: "replay", Verdict: "full", Moved: 6, NotMoved: 1}
		up, down := &stats.Backends[0], &stats.Backends[1]
		up.Canary, up.CanarySeconds, up.LagSeconds = "up", 0.062, 1.2
		down.Canary, down.CanarySince, down.CanarySeconds, down.Stalls, down.Moved = "down", noon.Add(time.Second), 0.34, 2, 6
		return stats
	})
	out := s.must("backend ls -o wide")
	for _, want := range []string{"LAG   STALLS  MOVED  CANARY\n", "1.2s  -       -      up, 62ms\n", "-     2       6      down, 340ms\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	want := "\n\nFailover: 6 sessions moved to other backends since the start, 1 could not; replay memory 12 MiB of 1.0 GiB\n\nSERVICE "
	if out := s.must("status"); !strings.Contains(out, want) {
		t.Errorf("%q is missing in\n%s", want, out)
	}
}
