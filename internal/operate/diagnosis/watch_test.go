package diagnosis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// stage is a proxy that a watch follows, second by second.
type stage struct {
	t       *testing.T
	facts   *Facts
	meters  meter.Snapshot
	watch   Watch
	now     time.Time
	elapsed time.Duration
	out     Outcome
	begun   []api.Problem
	ended   []api.PastProblem
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, facts: well(), now: noon}
	s.facts.Stats.Sessions.Refused = make(map[int]uint64)
	for _, b := range s.facts.Stats.Backends {
		s.meters.Backends = append(s.meters.Backends, meter.BackendTotals{Service: b.Service, Backend: b.Name})
	}
	return s
}

// pass lets seconds pass; change is called before each observation, and may be nil.
func (s *stage) pass(seconds int, change func(second int)) {
	s.t.Helper()
	for i := range seconds {
		if change != nil {
			change(i)
		}
		s.out = s.watch.Observe(&Observation{Now: s.now, Elapsed: s.elapsed, Stats: s.facts.Stats, Meters: &s.meters})
		s.begun, s.ended = append(s.begun, s.out.Begun...), append(s.ended, s.out.Ended...)
		s.now, s.elapsed = s.now.Add(time.Second), s.elapsed+time.Second
	}
}

// kinds returns the kinds of the problems that hold.
func (s *stage) kinds() string {
	var all []string
	for _, p := range s.out.Problems {
		all = append(all, p.Kind)
	}
	return strings.Join(all, " ")
}

func (s *stage) expect(want string) {
	s.t.Helper()
	if got := s.kinds(); got != want {
		s.t.Errorf("after %v: %q; want %q", s.elapsed, got, want)
	}
}

// A problem begins when it has held for a moment, keeps the time when it was first seen, and ends when it is gone.
func TestWatch(t *testing.T) {
	s := newStage(t)
	s.pass(5, nil)
	s.expect("")
	waits(s.facts, 3, 2)
	began := s.now
	s.pass(3, nil)
	s.expect("")
	s.pass(1, nil)
	s.expect("service-waiting")
	if p := s.out.Problems[0]; !p.Since.Equal(began) || p.Text != "3 clients wait, the first for 2.0s" || p.Level != api.LevelWarning || p.Hurts != api.HurtsClients {
		t.Errorf("%+v; want since %v", p, began)
	}
	waits(s.facts, 4, 9)
	s.pass(1, nil)
	if p := s.out.Problems[0]; !p.Since.Equal(began) || p.Text != "4 clients wait, the first for 9.0s" {
		t.Errorf("later: %+v", p)
	}
	waits(s.facts, 0, 0)
	over := s.now
	s.pass(2, nil)
	s.expect("service-waiting") // it may come back
	s.pass(1, nil)
	s.expect("")
	if len(s.begun) != 1 || len(s.ended) != 1 || s.ended[0].Ended.After(over) || s.ended[0].Ended.Before(over.Add(-2*time.Second)) {
		t.Errorf("begun %+v, ended %+v", s.begun, s.ended)
	}
}

// What holds for a moment now and then is no problem.
func TestSpikes(t *testing.T) {
	s := newStage(t)
	s.pass(60, func(i int) { waits(s.facts, 3*(1-min(i%4, 1)), 2) })
	if len(s.begun) > 0 {
		t.Errorf("%+v", s.begun)
	}
}

// A problem that gets worse is replaced, and does not stay beside the worse one.
func TestWorse(t *testing.T) {
	s := newStage(t)
	b := s.facts.Stats.Backends
	fails := func(b *api.Backend) {
		b.Usable, b.Reachable, b.Reason, b.Since = false, false, "connection refused", s.now
	}
	fails(&b[0])
	s.pass(5, nil)
	s.expect("backend-unreachable")
	fails(&b[1])
	s.pass(5, nil)
	s.expect("service-degraded")
	fails(&b[2])
	down := s.now
	s.pass(5, nil)
	s.expect("service-down")
	if p := s.out.Problems[0]; !p.Since.Equal(down) {
		t.Errorf("since %v; want %v, when the last backend went", p.Since, down)
	}
	for i := range b {
		b[i] = well().Stats.Backends[i]
	}
	s.pass(4, nil)
	s.expect("")
	if len(s.ended) != 3 {
		t.Errorf("ended: %+v", s.ended)
	}
}

// Clients that wait, now for longer than a second and now for less, are one problem that does not change from second to second.
func TestCrowded(t *testing.T) {
	s := newStage(t)
	s.facts.Stats.Services[0].Utilisation = 1.3
	s.pass(120, func(i int) { waits(s.facts, 5, 0.6+0.6*float64(i%5/4)) })
	s.expect("service-nearly-full")
	if len(s.begun) != 1 || len(s.ended) != 0 {
		t.Errorf("begun %+v, ended %+v", s.begun, s.ended)
	}
}

// A queue that is full most of the time is full, and the tenant that fills it is named instead while there is one.
func TestFullQueue(t *testing.T) {
	s := newStage(t)
	v := &s.facts.Stats.Services[0]
	fill := func(i int) {
		waits(s.facts, 9, 5)
		if i%3 == 0 {
			waits(s.facts, 10, 5)
			v.Queue.Totals.Full += 2
		}
	}
	s.pass(30, fill)
	s.expect("service-queue-full")
	s.facts.Stats.Tenants = []api.Tenant{
		{Name: "acme", Services: []api.TenantService{{Service: "stt", Waiting: 9}}}, {Name: "beta", Services: []api.TenantService{{Service: "stt", Sessions: 1}}},
	}
	s.pass(30, fill)
	s.expect("tenant-fills-queue")
	if len(s.begun) != 2 || len(s.ended) != 1 {
		t.Errorf("begun %+v, ended %+v", s.begun, s.ended)
	}
}

// A backend that goes in and out of health is one problem that stays while it does, and not many.
func TestFlapping(t *testing.T) {
	s := newStage(t)
	b := &s.facts.Stats.Backends[1]
	flap := func(i int) {
		b.Circuit, b.CircuitReason = "closed", ""
		if i%10 >= 5 {
			b.Circuit, b.CircuitReason, b.Usable = "open", "EOF", false
		}
		b.Usable = b.Circuit == "closed"
	}
	s.pass(30, flap)
	s.expect("backend-flapping")
	s.pass(60, flap)
	s.expect("backend-flapping")
	if n := len(slices.DeleteFunc(slices.Clone(s.begun), func(p api.Problem) bool { return p.Kind != string(BackendFlapping) })); n != 1 {
		t.Errorf("it began %d times to flap", n)
	}
	s.pass(18, func(int) { flap(0) })
	s.expect("backend-flapping")
	s.pass(3, func(int) { flap(0) })
	s.expect("")
	s.pass(32, func(int) { flap(9) })
	s.expect("backend-unreachable") // it does not come back
}

// A crash loop whose server is up for most of a minute is one problem, which hurts clients while the server is out, and is not worse while it is up.
func TestSlowCrashLoop(t *testing.T) {
	s := newStage(t)
	b := &s.facts.Stats.Backends[1]
	b.Circuit, b.Usable = "closed", true
	named := false
	s.pass(600, func(i int) {
		if s.kinds() == "backend-flapping" {
			named = true
			p := &s.out.Problems[0]
			if out := b.Circuit == "open"; p.Level != api.LevelFailure || (p.Hurts == api.HurtsClients) != out {
				t.Fatalf("second %d, out %t: %+v", i, out, p)
			}
		} else if named {
			t.Fatalf("second %d, %s: %q", i, b.Circuit, s.kinds())
		}
		b.Circuit, b.CircuitReason = "closed", ""
		if i%60 >= 45 {
			b.Circuit, b.CircuitReason = "open", "EOF"
		}
		b.Usable = b.Circuit == "closed"
	})
	if !named {
		t.Error("it is not named")
	}
	b.Circuit, b.Usable = "closed", true
	s.pass(110, nil)
	s.expect("backend-flapping")
	s.pass(20, nil)
	s.expect("")
}

// Why a database fails stays the same from look to look, although the driver has another reason with each try.
func TestReasonStays(t *testing.T) {
	s := newStage(t)
	c := &s.facts.Stats.Configuration
	s.pass(10, func(i int) { c.State, c.Reason = "stale", []string{"dial error", "failed to receive message"}[i%2] })
	s.expect("configuration-stale")
	if text := s.out.Problems[0].Text; !strings.HasPrefix(text, "stale: dial error.") {
		t.Error(text)
	}
	s.pass(10, func(int) { c.State, c.Reason = "current", "" })
	s.pass(5, func(int) { c.State, c.Reason = "stale", "no such role" })
	if text := s.out.Problems[0].Text; !strings.HasPrefix(text, "stale: no such role.") {
		t.Error(text)
	}
}

// Clients that refuse an expired certificate are counted for a minute, and handshakes that fail otherwise are not.
func TestRefusedHandshakes(t *testing.T) {
	s := newStage(t)
	certificate(api.Certificate{File: "a.pem", NotAfter: since, State: "expired"})(s.facts)
	s.facts.Stats.TLS.Handshakes = []api.TLSHandshakes{{Result: "refused-by-client", Version: "1.3", Count: 50}, {Result: "timeout", Version: "none"}}
	text := func(second int) string {
		s.pass(1, nil)
		s.facts.Stats.TLS.Handshakes[second%2].Count += 3
		return s.out.Problems[0].Text
	}
	if got := text(1); strings.Contains(got, "TLS handshake") {
		t.Errorf("before the proxy was watched: %q", got)
	}
	text(0)
	if got := text(1); !strings.Contains(got, "clients that check it refuse it, as in 3 TLS handshakes of the last minute") {
		t.Error(got)
	}
	s.pass(70, nil)
	if got := s.out.Problems[0].Text; strings.Contains(got, "TLS handshake") {
		t.Errorf("a minute later: %q", got)
	}
}

// Flaps that fall between two observations are seen by the count of them.
func TestFastFlapping(t *testing.T) {
	s := newStage(t)
	s.pass(20, func(i int) {
		if i%3 == 2 {
			s.facts.Stats.Backends[0].CircuitOpened++
		}
	})
	s.expect("backend-flapping")
}

// Refusals are named while they last, and are gone soon after.
func TestRefusals(t *testing.T) {
	s := newStage(t)
	s.facts.Stats.Sessions.Refused[401] = 1000 // before the proxy was watched
	s.pass(20, func(int) { s.facts.Stats.Sessions.Total += 10 })
	s.expect("")
	s.facts.Stats.Sessions.Refused[503] += 20
	s.pass(20, nil)
	s.expect("") // it was a moment
	s.pass(13, func(int) { s.facts.Stats.Sessions.Total += 10; s.facts.Stats.Sessions.Refused[503] += 2 })
	s.expect("refusals")
	if text := s.out.Problems[0].Text; text != "clients were refused in the last minute: 46 with 503 (no connection came free)" {
		t.Error(text)
	}
	s.pass(14, nil)
	s.expect("")
}

// A limit that a client meets once is no problem; one that it meets again and again is.
func TestLimits(t *testing.T) {
	s := newStage(t)
	reached := api.LimitReached{LimitTotal: api.LimitTotal{Limit: "byte-rate", Scope: "tenant", Count: 1}, Name: "acme", Since: noon}
	s.pass(5, nil)
	s.facts.Stats.Limits.Lately = []api.LimitReached{reached}
	s.pass(20, nil)
	s.expect("")
	s.pass(5, func(int) { s.facts.Stats.Limits.Lately[0].Count++ })
	s.expect("limit-reached")
	s.pass(14, nil) // the statistics name it for a minute longer
	s.expect("")
}

// The clock was set: the machine's times cannot be compared. Durations stay right.
func TestClock(t *testing.T) {
	s := newStage(t)
	s.pass(5, nil)
	s.now = s.now.Add(-time.Hour)
	s.pass(1, nil)
	s.expect("clock-jumped")
	s.pass(14, nil)
	s.expect("")
	s.now = s.now.Add(time.Second) // what a time server may do
	s.pass(1, nil)
	s.expect("")
}

// A slow backend is found by the replies of the last sessions, and is forgotten as soon as they are fast again.
func TestSlow(t *testing.T) {
	for _, factor := range []int{3, 15} {
		s := newStage(t)
		var histograms [3]*meter.Histogram
		for i := range histograms {
			histograms[i] = &meter.NewBackend(1).FirstReply
		}
		reply := func(slow int) func(int) {
			return func(second int) {
				for i, h := range histograms {
					d := time.Duration(100+7*second%40) * time.Millisecond
					if i == 1 {
						d *= time.Duration(slow)
					}
					if i == 2 && second%7 == 0 {
						d = 4 * time.Second // a spike
					}
					h.Observe(d)
					s.meters.Backends[i].FirstReply = h.Read()
				}
			}
		}
		s.pass(60, reply(1))
		s.expect("")
		s.pass(15, reply(factor))
		s.expect("backend-slow")
		s.pass(15, reply(1))
		s.expect("")
		if len(s.begun) != 1 || s.begun[0].Backend != "gpu-2" {
			t.Errorf("by %d: %+v", factor, s.begun)
		}
	}
}

// A problem from before the start continues if it shows again, and has ended otherwise.
func TestCarry(t *testing.T) {
	s := newStage(t)
	old := noon.Add(-time.Hour)
	s.watch.Carry([]api.PastProblem{
		{Problem: api.Problem{Kind: string(ServiceWaiting), What: "service stt", Since: old}},
		{Problem: api.Problem{Kind: string(BackendSlow), What: "backend gpu-2", Since: old}},
	})
	waits(s.facts, 3, 2)
	s.pass(1, nil)
	s.expect("service-waiting")
	s.pass(16, nil)
	if p := s.out.Problems; len(p) != 1 || !p[0].Since.Equal(old) {
		t.Errorf("%+v", p)
	}
	if len(s.ended) != 1 || s.ended[0].Kind != string(BackendSlow) || !s.ended[0].Ended.Equal(noon) {
		t.Errorf("%+v", s.ended)
	}
}

// An hour of a busy proxy, with spikes of everything that is usual, names nothing.
func TestHealthyHour(t *testing.T) {
	s := newStage(t)
	chance := rand.New(rand.NewPCG(1, 2))
	var histograms [3]*meter.Histogram
	for i := range histograms {
		histograms[i] = &meter.NewBackend(1).FirstReply
	}
	stats := s.facts.Stats
	restarting := -1
	s.pass(3600, func(second int) {
		for i, h := range histograms {
			for range chance.IntN(20) {
				d := time.Duration(80+chance.IntN(200)) * time.Millisecond
				if chance.IntN(20) == 0 {
					d *= 10
				}
				h.Observe(d)
				stats.Sessions.Total++
			}
			s.meters.Backends[i].FirstReply = h.Read()
		}
		waits(s.facts, 0, 0)
		if chance.IntN(5) == 0 {
			waits(s.facts, 1+chance.IntN(9), float64(chance.IntN(50))/100)
		}
		stats.Services[0].Utilisation = 0.6 + 0.4*chance.Float64()
		if chance.IntN(3) == 0 {
			stats.Sessions.Refused[404]++ // a stranger
		}
		if second%600 == 300 { // a server is restarted
			restarting = chance.IntN(3)
			unreachable(&stats.Backends[restarting], "connection refused")
		}
		if second%600 == 302 {
			b := &stats.Backends[restarting]
			b.Usable, b.Reachable = true, true
		}
	})
	if len(s.begun) > 0 {
		t.Errorf("%d problems: %s", len(s.begun), fmt.Sprint(s.begun))
	}
}
