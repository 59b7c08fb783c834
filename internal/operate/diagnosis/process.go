package diagnosis

import (
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

const (
	// nearlyFull is the part of replay-memory from which on an operator should act.
	nearlyFull = 0.9
	// busyLoop is the share of a processor from which on an event loop has no room for more.
	busyLoop = 0.9
)

// ofProcess names what is wrong with the process and its machine.
func ofProcess(f *Facts, found *findings) {
	s := f.Stats
	if s.Draining {
		ofDrain(s, found)
	}
	if len(s.Shortages) > 0 {
		found.add(Shortage, theProxy, "%s", strings.Join(s.Shortages, "; ")).Cure = "wsbouncer check"
	}
	if n := f.Recent.Internal; n > 0 {
		found.add(InternalError, theProxy, "%s in the last minute: please report the stack in its log", figures.Plural(int(n), "internal error"))
	}
	if n := f.Recent.LeftOut; n > 0 {
		found.add(AccessLogLosing, theProxy, "%s of the access log were left out in the last minute: its file cannot be written, or not fast enough",
			figures.Plural(int(n), "line"))
	}
	if j := f.Recent.Jump; j != 0 {
		where := "forward"
		if j < 0 {
			where = "back"
		}
		found.add(ClockJumped, theProxy, "the machine's clock was set %s by %s, or the machine slept: times before and after do not fit", where,
			figures.Seconds(j.Abs().Seconds())).Since = f.Recent.Jumped
	}
	ofProcessors(s, found)
	ofReplay(s.Replay, found)
}

func ofDrain(s *api.Stats, found *findings) {
	d := s.Drain
	if d == nil { // an older proxy
		d = new(api.Drain)
	}
	clock := func(t time.Time) string { return t.UTC().Format("15:04:05Z") }
	left := figures.Plural(int(s.Sessions.Active), "session")
	var p *api.Problem
	switch {
	case d.Accepting:
		p = found.add(ProxyDraining, theProxy, "it shuts down: not ready, clients are accepted until %s, %s", clock(d.Closes), left)
	case d.Deadline.IsZero():
		p = found.add(ProxyDraining, theProxy, "it shuts down: no new clients are accepted, %s left", left)
	case d.Spread.Before(d.Deadline):
		p = found.add(ProxyDraining, theProxy, "it shuts down: no new clients are accepted, %s left, closed from %s to %s", left, clock(d.Spread), clock(d.Deadline))
	default:
		p = found.add(ProxyDraining, theProxy, "it shuts down: no new clients are accepted, %s left, closed at %s", left, clock(d.Deadline))
	}
	p.Since = d.Since
}

// ofProcessors reports whether the event loops have no processor time left.
func ofProcessors(s *api.Stats, found *findings) {
	awake, sum := 0, 0.0
	for _, l := range s.Loops.Loops {
		if l.Awake {
			if l.Busy <= busyLoop {
				return
			}
			awake, sum = awake+1, sum+l.Busy
		}
	}
	if awake > 0 {
		found.add(ProcessorsBusy, theProxy, "its event loops use %.0f %% of %s", 100*sum/float64(awake), figures.Plural(awake, "processor"))
	}
}

// ofReplay reports whether the memory for failover is nearly used up. r may be nil.
func ofReplay(r *api.Replay, found *findings) {
	if r == nil || float64(r.MemoryBytes) < nearlyFull*float64(r.LimitBytes) {
		return
	}
	found.add(ReplayMemory, theProxy, "replay-memory is nearly used up: %s of %s; when it is, sessions end with their backends",
		figures.Bytes(float64(r.MemoryBytes)), figures.Bytes(float64(r.LimitBytes))).Cure = "wsbouncer session ls --output wide"
}
