package chaos

import (
	"net/http"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// healthyServer is a well-behaved simulated server that records which sessions reached it.
type healthyServer struct {
	name string
	sim  *sim.Server

	mu    sync.Mutex
	heard map[uint64]struct{} // guarded by mu: sessions that have not ended
}

func startHealthy(name, protocol string, seed uint64, admit func(r *http.Request) int) (*healthyServer, error) {
	w := &healthyServer{name: name, heard: make(map[uint64]struct{})}
	var err error
	w.sim, err = sim.Start(sim.Options{
		Protocol: protocol, Seed: seed, Admit: admit, Jitter: 2 * time.Millisecond,
		Heard: func(session uint64) {
			w.mu.Lock()
			w.heard[session] = struct{}{}
			w.mu.Unlock()
		},
	})
	return w, err
}

// served reports whether a session reached the server, and forgets it.
func (w *healthyServer) served(session uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.heard[session]
	delete(w.heard, session)
	return ok
}

// hostile is the hostile server of a scenario. It is static.
type hostile struct {
	name  string
	url   string
	meter *meter      // of a simulated server it counts only the attempts
	sim   *sim.Server // nil for a raw one
	stop  func()
}

// startHostile starts the hostile server of a scenario. A simulated one speaks the protocol.
func startHostile(name, protocol string, s *scenario, seed uint64) (*hostile, error) {
	h := &hostile{name: name, meter: new(meter)}
	if s.behave != nil {
		raw, err := startRaw(seed, h.meter, s.behave)
		if err != nil {
			return nil, err
		}
		h.url, h.stop = raw.url(), raw.close
		return h, nil
	}
	o := *s.simulated
	o.Protocol, o.Seed = protocol, seed
	admit := o.Admit
	o.Admit = func(r *http.Request) int {
		h.meter.attempt(time.Now())
		if admit != nil {
			return admit(r)
		}
		return 0
	}
	server, err := sim.Start(o)
	if err != nil {
		return nil, err
	}
	h.sim, h.url, h.stop = server, server.URL(), server.Close
	return h, nil
}

// read returns what the server has seen.
func (h *hostile) read() reading {
	r := h.meter.read()
	if h.sim != nil {
		stats := h.sim.Stats()
		r.open, r.peak = stats.Connections, stats.Peak
	}
	return r
}

// busyAtTimes refuses upgrades with 503 for three of every six seconds.
func busyAtTimes() func(*http.Request) int {
	begin := time.Now()
	return func(*http.Request) int {
		if time.Since(begin)/(3*time.Second)%2 == 0 {
			return http.StatusServiceUnavailable
		}
		return 0
	}
}
