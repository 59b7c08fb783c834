package chaos

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
	"github.com/wsbouncer/wsbouncer/internal/proof/hunt"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// hostileCap is the cap of each hostile server.
const hostileCap = 8

// machineCap is the cap of each server behind a proxy with few resources. Two servers need more file descriptors than it has.
const machineCap = 40

// machineSessions is the number of sessions at a time with such a proxy.
const machineSessions = 5

// attackers is the number of hostile clients of a kind at a time.
const attackers = 3

// service is one service of a proxy, with its servers and sessions. It is static once it is staged, except for report, which is set
// when the sessions have ended.
type service struct {
	name, protocol, profile string
	query                   string    // the query of the clients' URL
	more                    string    // further settings in the configuration, each after a comma
	scenario                *scenario // nil if all servers are healthy
	sessions                int       // at a time
	cap                     int       // of each healthy server
	healthy                 []*healthyServer
	hostile                 *hostile // nil if there is none
	journal                 *kit.Journal

	first  uint64 // identity of the first session
	report hunt.Report
}

// newService starts the servers of a service: the healthy ones, which fail sessions as fail says, and the hostile one of its scenario.
func newService(name, protocol string, healthy, sessions int, s *scenario, fail sim.FailOptions, seed uint64, j *kit.Journal) (*service, error) {
	protocol = cmp.Or(protocol, sim.Vosk)
	v := &service{
		name: name, protocol: protocol, profile: protocol, sessions: sessions, scenario: s, journal: j,
		cap: 2*sessions + 20*attackers,
	}
	if s != nil { // with a larger cap, the hostile server would rarely be chosen
		v.cap = max(hostileCap, 2*sessions)
	}
	var admit func(*http.Request) int
	switch protocol {
	case sim.FunASR:
		v.profile = "tagged"
	case sim.Deepgram:
		v.query, admit = "?key=good", badKeyStatus
	}
	if s != nil && s.profile != "" {
		v.profile = s.profile
	}
	for i := range healthy {
		w, err := startHealthy(fmt.Sprintf("%s-healthy-%d", name, i+1), protocol, seed, admit, fail)
		if err != nil {
			v.stop()
			return nil, err
		}
		v.healthy = append(v.healthy, w)
	}
	if s != nil && (s.behave != nil || s.simulated != nil) {
		var err error
		if v.hostile, err = startHostile(name+"-hostile", protocol, s, seed); err != nil {
			v.stop()
			return nil, err
		}
	}
	return v, nil
}

// stop stops the servers.
func (s *service) stop() {
	for _, w := range s.healthy {
		w.sim.Close()
	}
	if s.hostile != nil {
		s.hostile.stop()
	}
}

// runSessions runs sessions through the proxy at the address until finish is closed, and waits for running sessions to end.
func (s *service) runSessions(ctx context.Context, address string, seed uint64, finish <-chan struct{}) error {
	report, err := hunt.Run(ctx, hunt.Options{
		URL: "ws://" + address + "/" + s.name + s.query, Protocol: s.protocol, Sessions: 1 << 30, Concurrency: s.sessions,
		Seed: seed, First: s.first, Manners: hunt.Manners{hunt.CleanEnd: 1}, Exact: true, Pace: pace, Timeout: sessionTimeout,
		MaxLeaks: 1 << 20, Traces: max(256, 8*s.sessions), Finish: finish, Outcome: s.judge,
	})
	s.report = report
	return err
}

const (
	// pace is the longest time between two messages of a session.
	pace = 600 * time.Millisecond
	// sessionTimeout is how long a session may take in all.
	sessionTimeout = 30 * time.Second
)

// judge checks the outcome of a session: a session that reached a healthy server must have got each of its results once. It may be
// called from any goroutine.
func (s *service) judge(o hunt.Outcome) {
	heard := false
	for _, w := range s.healthy {
		heard = w.served(o.Session) || heard
	}
	switch {
	case o.Succeeded():
		return
	case !heard && s.hostile != nil && s.scenario.allow.permits(&o):
		return
	case !heard && s.scenario != nil && s.scenario.machine != nil && s.scenario.machine.refuses(&o):
		return
	}
	where := "a healthy server"
	if !heard {
		where = "no healthy server"
	}
	what := o.Kind
	switch {
	case o.Foreign > 0:
		what = "foreign results"
	case o.Twice > 0:
		what = "results twice"
	case o.Lost > 0 || o.Mute:
		what = "results lost"
	case what == "":
		what = "not completed"
	}
	s.journal.Violation(s.name, what+", on "+where, nil, "session %d: %d results lost, %d twice, %d foreign; %s %s\n%s",
		o.Session, o.Lost, o.Twice, o.Foreign, o.Kind, o.Reason, o.Trace())
}

// judgeAll checks the report of all sessions.
func (s *service) judgeAll() {
	r := &s.report
	switch {
	case s.sessions == 0:
	case r.Completed == 0:
		s.journal.Violation(s.name, "no session got its last result", nil, "%s", r.String())
	case s.hostile != nil && !s.scenario.isForClient() && !s.scenario.allow.results && r.Sessions-r.Completed > max(10, r.Sessions/2):
		s.journal.Violation(s.name, "black hole", nil, "%d of %d sessions ended without their last result", r.Sessions-r.Completed, r.Sessions)
	}
}

// refuses reports whether a proxy with few resources may refuse a session with this outcome.
func (m *machine) refuses(o *hunt.Outcome) bool {
	return m.descriptors > 0 && (o.Status == http.StatusServiceUnavailable || o.Code == 0 && o.Status == 0)
}

// healthyServer is a well-behaved simulated server that records which sessions reached it.
type healthyServer struct {
	name string
	sim  *sim.Server

	mu    sync.Mutex
	heard map[uint64]struct{} // guarded by mu: sessions that have not ended
}

func startHealthy(name, protocol string, seed uint64, admit func(r *http.Request) int, fail sim.FailOptions) (*healthyServer, error) {
	w := &healthyServer{name: name, heard: make(map[uint64]struct{})}
	var err error
	w.sim, err = sim.Start(sim.Options{
		Protocol: protocol, Seed: seed, Admit: admit, Fail: fail, Jitter: 2 * time.Millisecond,
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

// meter counts the connections that a hostile server sees, as that server sees them. Its methods may be called from any
// goroutine.
type meter struct {
	mu       sync.Mutex
	open     int         // guarded by mu
	peak     int         // guarded by mu
	attempts int         // guarded by mu
	recent   []time.Time // guarded by mu: of attempts, within the last second
	burst    int         // guarded by mu: most attempts within one second
}

// attempt counts a connection attempt at the given time.
func (m *meter) attempt(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attempts++
	gone := 0
	for gone < len(m.recent) && at.Sub(m.recent[gone]) >= time.Second {
		gone++
	}
	m.recent = append(m.recent[:0], m.recent[gone:]...)
	m.recent = append(m.recent, at)
	m.burst = max(m.burst, len(m.recent))
}

// entered counts a connection as open, and left as closed.
func (m *meter) entered() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
	m.peak = max(m.peak, m.open)
}

func (m *meter) left() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
}

// reading is a snapshot of a meter.
type reading struct{ open, peak, attempts, burst int }

func (m *meter) read() reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reading{m.open, m.peak, m.attempts, m.burst}
}
