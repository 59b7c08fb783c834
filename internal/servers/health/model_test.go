package health

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is a server's health and a caller that does what it says, while dials, sessions, peers, probe and operator do what they
// like. What it checks is worked out from the events alone.
type model struct {
	t      *rapid.T
	health *Tracker
	limits Limits
	now    Instant
	permit Permit

	dialing  []Attempt
	circuit  CircuitState // as it was reported
	failed   int          // dials that have failed, or connections lost on probation, since a connection was established
	broken   int          // sessions that were broken since one went well
	down     bool         // the last verdict of the probe
	ejected  bool         // as it was last decided
	stalled  bool         // as it was last reported
	sessions Sessions
}

// Whatever happens: an open circuit lets no session in, one trial runs at a time, what is short on this machine is no failure, and
// a server that works is used again within a bounded time.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t}
		m.limits = m.someLimits()
		m.health = New(m.limits)
		dice := random(func(d time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(d)-1).Draw(t, "random"))
		})
		m.health.random, m.health.circuit.random, m.health.ceiling.random, m.health.outlier.random = dice, dice, dice, dice
		m.health.stall.random = dice
		m.review()
		t.Repeat(map[string]func(*rapid.T){
			"":                    func(*rapid.T) { m.review() },
			"dial":                m.dial,
			"dial ends":           m.dialEnds,
			"dial ends2":          m.dialEnds,
			"lost on probation":   m.lostOnProbation,
			"serves":              func(*rapid.T) { m.health.Serves(m.now) },
			"session":             m.session,
			"session is refused":  func(*rapid.T) { m.health.SessionRefused(m.client(), m.connections().InUse, m.now) },
			"probe":               m.probe,
			"results":             func(t *rapid.T) { m.health.Heard(rapid.Uint64Range(0, 3).Draw(t, "frames"), m.now) },
			"stall":               m.stall,
			"check":               m.check,
			"peers":               m.comparePeers,
			"settings change":     func(*rapid.T) { m.health.Renew(); m.failed, m.broken = 0, 0 },
			"limits change":       func(*rapid.T) { m.limits = m.someLimits(); m.health.Configure(m.limits, m.now) },
			"time passes":         m.pass,
			"works from now on":   func(*rapid.T) { m.recovers() },
			"as long as it takes": func(*rapid.T) { m.now += Instant(m.permit.Within) },
		})
		m.recovers()
	})
}

func (m *model) someLimits() Limits {
	return Limits{
		Parallel:  rapid.IntRange(1, 4).Draw(m.t, "parallel"),
		Failures:  rapid.IntRange(1, 4).Draw(m.t, "failures"),
		SlowStart: rapid.SampledFrom([]time.Duration{0, 10 * time.Second}).Draw(m.t, "slowStart"),

		StallTimeout: rapid.SampledFrom([]time.Duration{0, time.Second, 5 * time.Second}).Draw(m.t, "stallTimeout"),

		StallCheck: rapid.SampledFrom([]StallCheck{NoCheck, ProbeCheck, CanaryCheck}).Draw(m.t, "check"),
	}
}

func (m *model) connections() Connections {
	inUse := rapid.IntRange(0, 8).Draw(m.t, "in use")
	held := inUse + rapid.IntRange(0, 8-inUse).Draw(m.t, "idle")
	return Connections{Cap: 8 + len(m.dialing), InUse: inUse, Held: held, All: held + len(m.dialing)}
}

func (m *model) pass(t *rapid.T) {
	m.now += Instant(rapid.SampledFrom([]time.Duration{
		time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, 2 * time.Minute,
	}).Draw(t, "time"))
}

func (m *model) dial(t *rapid.T) {
	if m.permit.Dials == 0 {
		t.Skip("nothing may be dialed")
	}
	m.dialing = append(m.dialing, m.health.Dial(m.now))
}

func (m *model) dialEnds(t *rapid.T) {
	if len(m.dialing) == 0 {
		t.Skip("nothing is being dialed")
	}
	i := rapid.IntRange(0, len(m.dialing)-1).Draw(t, "attempt")
	outcome := rapid.SampledFrom([]Outcome{
		Established, Failed, Failed, Full, ClientRefused, AnonymousRefused, LocalShortage, Dropped,
	}).Draw(t, "outcome")
	r := DialResult{Outcome: outcome, Reason: "refused", Private: rapid.Bool().Draw(t, "private")}
	if r.Private {
		r.Client, r.Failing = m.client(), outcome == ClientRefused && rapid.Bool().Draw(t, "failing")
	}
	if outcome == Full {
		r.Pool = m.connections()
	}
	outdated, before := m.health.Outdated(m.dialing[i]), *m.health
	forClient := m.health.DialEnded(m.dialing[i], r, m.now)
	if !outdated && (outcome == Failed || outcome == Full && r.Pool.Held == 0 && !forClient) {
		m.failed++
	}
	m.dialing = slices.Delete(m.dialing, i, i+1)
	if forClient && (outcome != Full || !r.Private || !m.health.Held(m.now) || m.health.Ceiling() != before.Ceiling()) {
		t.Errorf("a server that is full for a client: %+v, %+v", r, m.health)
	}
	if forClient || outcome == LocalShortage || outcome == Dropped {
		if after := m.health; after.circuit.failures != before.circuit.failures || after.circuit.state != before.circuit.state ||
			after.Usable() != before.Usable() || len(after.changes) != len(before.changes) {
			t.Errorf("outcome %d is no failure: %+v before, %+v after", outcome, before.circuit, after.circuit)
		}
	}
}

func (m *model) lostOnProbation(*rapid.T) {
	m.failed++
	m.health.LostOnProbation("closed", m.now)
}

func (m *model) session(t *rapid.T) {
	began := m.now - min(m.now, Instant(rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "lasted")))
	if began == 0 {
		began = 1
	}
	client := m.client()
	m.health.SessionBegan(client, began)
	if rapid.Bool().Draw(t, "lasts") {
		return
	}
	e := SessionEnd{Client: client, Began: began, Outdated: rapid.Bool().Draw(t, "outdated"), Neutral: rapid.Bool().Draw(t, "neutral"), Alike: rapid.Bool().Draw(t, "alike")}
	if rapid.Bool().Draw(t, "broken") {
		e.Fault = "vanished"
		if !e.Outdated {
			m.broken++
		}
	} else if !e.Neutral {
		m.broken = 0
	}
	m.health.SessionEnded(e, m.now)
}

// client is one of a few, who share networks and credentials, or of whom nothing is known.
func (m *model) client() (c Client) {
	c.Credential = uint64(rapid.IntRange(0, 2).Draw(m.t, "credential"))
	if network := rapid.IntRange(0, 3).Draw(m.t, "network"); network > 0 {
		c.Address = netip.AddrFrom4([4]byte{10, 0, byte(network), byte(rapid.IntRange(1, 2).Draw(m.t, "host"))})
	}
	return c
}

func (m *model) probe(t *rapid.T) {
	m.down = rapid.Bool().Draw(t, "down")
	m.health.Probed(!m.down, m.now)
}

func (m *model) comparePeers(t *rapid.T) {
	for range rapid.IntRange(0, 6).Draw(t, "sessions") {
		m.sessions.Begin(m.now)
		m.sessions.Fail(m.now)
	}
	peers := Peers{Serving: rapid.IntRange(0, 2).Draw(t, "serving"), Ejected: rapid.IntRange(0, 1).Draw(t, "ejected")}
	m.ejected = m.health.ComparePeers(&m.sessions, func() Peers { return peers }, m.now)
}

// stall has a session stall that began before, or as the present trial.
func (m *model) stall(t *rapid.T) {
	e := Stall{Client: m.client(), OthersHeard: rapid.Bool().Draw(t, "others heard"), Began: m.now, Again: rapid.Bool().Draw(t, "again"), How: "no result"}
	out := m.health.Stalled() && m.health.Trial() == 0
	m.health.SessionBegan(e.Client, m.now)
	m.health.SessionStalled(e, m.now)
	if m.limits.StallTimeout == 0 && m.health.Stalled() {
		t.Error("a server is out of service whose sessions are not watched")
	}
	if m.limits.StallTimeout > 0 && !e.Again && m.health.Usable() && m.health.sessions.open == 1 {
		t.Error("the only session stalls, and others may begin")
	}
	if out && m.health.Usable() {
		t.Error("a stall brings the server back")
	}
	m.health.SessionEnded(SessionEnd{Began: m.now, Neutral: true}, m.now)
}

// check has the server answer a canary or a probe, or the present trial a result.
func (m *model) check(t *rapid.T) {
	switch rapid.IntRange(0, 2).Draw(t, "which") {
	case 0:
		if m.health.CanaryAnswered(m.now); m.health.Stalled() {
			t.Error("a canary does not bring the server back")
		}
	case 1:
		m.health.ProbeAnswered(m.now)
	case 2:
		trial := m.health.Trial() > 0
		if m.health.SessionAnswered(m.now, m.now) != trial || trial && m.health.Stalled() {
			t.Error("a trial does not bring the server back, or something else does")
		}
	}
}

// review does what the caller does after each event, and checks what it is told.
func (m *model) review() {
	m.permit = m.health.Review(m.now, m.connections())
	opened := false
	for _, change := range m.health.Changes() {
		switch c := change.(type) {
		case CircuitChange:
			if c.State == m.circuit {
				m.t.Errorf("the circuit is reported twice to be %v", c.State)
			}
			opened = opened || c.State == Open && m.circuit == Closed
			m.circuit = c.State
		case StallChange:
			if c.Stalled == m.stalled {
				m.t.Errorf("it is reported twice that stalled is %v", c.Stalled)
			}
			m.stalled = c.Stalled
		case ReachabilityChange:
			if c.Reachable {
				m.failed = 0
			}
		}
	}
	p, h := m.permit, m.health
	if opened && max(m.failed, m.broken) < m.limits.Failures {
		m.t.Errorf("the circuit has opened after %d failed dials and %d broken sessions; the limit is %d", m.failed, m.broken, m.limits.Failures)
	}
	stalled := m.stalled && h.Trial() == 0
	if want := m.circuit == Closed && !m.down && !m.ejected && !stalled; h.Usable() != want {
		m.t.Errorf("usable: %v; the circuit is %v, probe down: %v, ejected: %v, stalled: %v", h.Usable(), m.circuit, m.down, m.ejected, stalled)
	}
	if h.Stalled() != m.stalled {
		m.t.Errorf("stalled: %v, reported: %v", h.Stalled(), m.stalled)
	}
	if share := h.Share(); share <= 0 || share > 1 {
		m.t.Errorf("share %v", share)
	}
	if p.Within <= 0 || h.Ceiling().Value < 0 {
		m.t.Errorf("%+v, ceiling %d", p, h.Ceiling().Value)
	}
	waits := p.BackingOff || p.Short
	switch {
	case waits && p.Dials > 0, m.circuit == Open && p.Dials > 0, p.Trial != (m.circuit == HalfOpen && !waits):
		m.t.Errorf("%+v while the circuit is %v", p, m.circuit)
	case p.Trial && (p.Dials == 1) != (len(m.dialing) == 0), p.Trial && p.Dials > 1:
		m.t.Errorf("%+v while %d trials run", p, len(m.dialing))
	case p.Dials > 0 && len(m.dialing)+p.Dials > m.limits.Parallel:
		m.t.Errorf("%+v with %d connections being dialed; want at most %d", p, len(m.dialing), m.limits.Parallel)
	case p.Replace > 0 && m.circuit != Closed:
		m.t.Errorf("%+v while the circuit is %v", p, m.circuit)
	}
}

// recovers checks that a server which works from now on is soon used as if nothing had happened. Nothing of that is remembered.
func (m *model) recovers() {
	h, now := *m.health, m.now
	h.Probed(true, now)
	for _, a := range m.dialing {
		h.DialEnded(a, DialResult{Outcome: Dropped}, now)
	}
	own := m.sessions
	// The longest backoff with probation behind it, the longest pause of an outlier and slow start, or all steps of the ceiling.
	end := now + Instant(checkPatience+LastStallBackoff+LastBackoff+2*Probation+outlierMaxPause+m.limits.SlowStart+FullPause+20*raiseEvery)
	for now < end {
		h.ComparePeers(&own, func() Peers { return Peers{Serving: 1} }, now)
		p := h.Review(now, Connections{Cap: 8})
		if p.Dials > 0 {
			h.DialEnded(h.Dial(now), DialResult{Outcome: Established}, now)
		}
		if h.Trial() > 0 && h.Usable() {
			h.SessionAnswered(now, now)
		}
		now += Instant(min(p.Within, 5*time.Second))
	}
	if !h.Usable() || h.Share() != 1 || h.Ceiling().Value != 0 || !h.Predial(now) || h.circuit.state != Closed || h.Stalled() {
		m.t.Errorf("a server that works is not used: %+v", h)
	}
	if p := h.Review(now, Connections{Cap: 8}); p.Dials < 1 || p.Replace < 1 {
		m.t.Errorf("nothing is dialed at a server that works: %+v", p)
	}
}
