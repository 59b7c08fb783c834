// Package diagnosis says what is wrong with a proxy, from its statistics and sessions: for `wsbouncer status` and `wsbouncer top`, which
// must not differ. It is pure: no I/O, no clock.
package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/figures"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Level is how bad a finding is.
type Level int

// The levels, from bad to good to know.
const (
	Failure Level = iota // clients suffer, or would if one more thing failed
	Warning              // an operator should know, or has done it
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Level Level
	What  string // such as "backend gpu-2"
	Text  string
	Since time.Time // zero if that is not known
}

// Find returns what is wrong, the worst first. Services and backends keep their order. Latencies may be nil.
func Find(s *api.Stats, latencies map[string]Latency) []Finding {
	var all []Finding
	add := func(level Level, what string, since time.Time, format string, args ...any) {
		all = append(all, Finding{level, what, fmt.Sprintf(format, args...), since})
	}
	if s.Draining {
		ofDrain(s, add)
	}
	if s.InternalErrors > 0 {
		add(Failure, "proxy", time.Time{}, "%s since its start: please report the stack in its log", figures.Plural(int(s.InternalErrors), "internal error"))
	}
	for _, short := range s.Shortages {
		add(Failure, "proxy", time.Time{}, "%s", short)
	}
	if c := s.Configuration; c.State != "current" && c.State != "" {
		add(Failure, "configuration", c.Since, "%s: %s", c.State, cmp.Or(c.Reason, "the store fails"))
	}
	if s.TLS != nil {
		ofTLS(s, add)
	}
	ofFleet(s.Fleet, add)
	ofLimits(&s.Limits, add)
	ofReplay(s.Replay, add)
	for i := range s.Services {
		ofService(s, &s.Services[i], add)
		ofFailover(&s.Services[i], add)
	}
	for i := range s.Discovery {
		ofLookup(&s.Discovery[i], add)
	}
	for i := range s.Backends {
		ofBackend(&s.Backends[i], add)
	}
	for _, h := range hungOnes(s) {
		add(Failure, "backend "+h.backend.Name, h.since, "%s: %s", h.text, h.cure)
	}
	for _, slow := range slowOnes(s, latencies) {
		add(Warning, "backend "+slow.name, time.Time{}, "slow: its first reply takes %s, that of the others of %s %s",
			figures.Seconds(slow.own), slow.service, figures.Seconds(slow.others))
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.Level, b.Level) })
	return all
}

// maxLimitFindings is how many limits are named. A flood from many addresses must not hide everything else.
const maxLimitFindings = 5

// ofLimits reports which limits are being reached, those that are reached most often first.
func ofLimits(l *api.Limits, add func(Level, string, time.Time, string, ...any)) {
	lately := slices.Clone(l.Lately)
	slices.SortStableFunc(lately, func(a, b api.LimitReached) int { return cmp.Compare(b.Count, a.Count) })
	for _, r := range lately[:min(len(lately), maxLimitFindings)] {
		what := strings.TrimSpace(r.Scope + " " + r.Name)
		if r.Scope == "process" {
			what = "proxy"
		}
		add(Warning, what, r.Since, "it has reached its %s %s lately", r.Limit, figures.Plural(int(r.Count), "time"))
	}
	if n := len(lately) - maxLimitFindings; n > 0 {
		add(Warning, "proxy", time.Time{}, "%s reached lately, too", figures.Plural(n, "other limit")+verb(n, " was", " were"))
	}
}

func ofDrain(s *api.Stats, add func(Level, string, time.Time, string, ...any)) {
	d := s.Drain
	if d == nil { // an older proxy
		d = new(api.Drain)
	}
	clock := func(t time.Time) string { return t.UTC().Format("15:04:05Z") }
	left := figures.Plural(int(s.Sessions.Active), "session")
	switch {
	case d.Accepting:
		add(Warning, "proxy", d.Since, "it shuts down: not ready, clients are accepted until %s, %s", clock(d.Closes), left)
	case d.Deadline.IsZero():
		add(Warning, "proxy", d.Since, "it shuts down: no new clients are accepted, %s left", left)
	case d.Spread.Before(d.Deadline):
		add(Warning, "proxy", d.Since, "it shuts down: no new clients are accepted, %s left, closed from %s to %s", left, clock(d.Spread), clock(d.Deadline))
	default:
		add(Warning, "proxy", d.Since, "it shuts down: no new clients are accepted, %s left, closed at %s", left, clock(d.Deadline))
	}
}

func ofService(s *api.Stats, v *api.Service, add func(Level, string, time.Time, string, ...any)) {
	what := "service " + v.Name
	usable, backends := 0, 0
	for i := range s.Backends {
		if b := &s.Backends[i]; b.Service == v.Name {
			backends++
			if b.Usable {
				usable++
			}
		}
	}
	waiting := ""
	if q := v.Queue; q.Waiting > 0 {
		waiting = fmt.Sprintf("%s, the first for %s", figures.Plural(q.Waiting, "client")+verb(q.Waiting, " waits", " wait"), figures.Seconds(q.OldestSeconds))
		waiting += then(placesInUse(s, v))
	}
	switch {
	case v.Paused && waiting != "":
		add(Warning, what, time.Time{}, "paused: %s", waiting)
	case v.Paused:
		add(Warning, what, time.Time{}, "paused: clients wait until it is resumed")
	case backends == 0:
		add(Failure, what, time.Time{}, "it has no backends%s", then(waiting))
	case usable == 0:
		add(Failure, what, time.Time{}, "none of its backends can take sessions%s", then(waiting))
	case v.Queue.Waiting > 0 && v.Queue.Waiting >= v.Queue.Limit:
		add(Failure, what, time.Time{}, "its queue is full: %s", waiting)
	case waiting != "":
		add(Warning, what, time.Time{}, "%s", waiting)
	}
}

func ofLookup(d *api.Discovery, add func(Level, string, time.Time, string, ...any)) {
	what := "backend " + d.Backend
	switch {
	case d.Failing.IsZero():
	case d.Servers == 0:
		add(Failure, what, d.Failing, "it has no servers: %s", d.Reason)
	default:
		add(Warning, what, d.Failing, "DNS lookups fail, %s %s: %s", figures.Plural(d.Servers, "known server"), verb(d.Servers, "stays", "stay"), d.Reason)
	}
	if len(d.LeftOut) > 0 {
		add(Warning, what, time.Time{}, "addresses of %s are not used: %s", d.Host, strings.Join(d.LeftOut, "; "))
	}
}

func ofBackend(b *api.Backend, add func(Level, string, time.Time, string, ...any)) {
	what := "backend " + b.Name
	condition := b.Health.Condition() // hungOnes names those that hang
	switch {
	case b.State == "draining" || b.State == "disabled":
		left := "it is empty"
		if n := b.Leased + b.Resetting; n > 0 {
			left = figures.Plural(n, "session") + " left"
		}
		add(Warning, what, time.Time{}, "%s: %s", b.State, left)
	case b.Untried() && condition.Word == api.Unreachable:
		add(Warning, what, condition.Since, "not dialed yet: this proxy has no place there; %d of %d are granted", b.Places.Granted, b.Places.Cap)
	case condition.Word != api.Healthy:
		text := condition.Word
		if condition.Why != "" {
			text += ": " + condition.Why
		}
		add(Failure, what, condition.Since, "%s", text)
	case b.Canary == "doubtful":
		add(Warning, what, b.CanarySince, "the canary fails, and has passed on no backend of the service, so it takes none out of service: %s", b.CanaryReason)
	case b.Places != nil && b.Places.Granted > b.Places.Cap:
		add(Warning, what, time.Time{}, "proxies have %d of %d places, until sessions end: its cap was lowered, or one is back that was taken for dead", b.Places.Granted, b.Places.Cap)
	case b.Ceiling < b.Cap:
		add(Warning, what, time.Time{}, "the server says that it is full: %d of %d connections", b.Ceiling, b.Cap)
	}
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// then joins a second half of a sentence, if there is one.
func then(text string) string {
	if text == "" {
		return ""
	}
	return "; " + text
}

// Failed reports whether a session ended with a fault of a backend or the proxy: not by its client, not as planned, and not because an
// operator ended it.
func Failed(s *api.Session) bool {
	switch {
	case s.By == "" || s.By == "client":
		return false
	case s.Code == 1000 || s.Code == 1001 || s.Code == 1012:
		return false
	}
	return true
}

// nearlyFull is the part of replay-memory from which on an operator should act.
const nearlyFull = 0.9

// ofReplay reports whether the memory for failover is nearly used up. r may be nil.
func ofReplay(r *api.Replay, add func(Level, string, time.Time, string, ...any)) {
	if r == nil || float64(r.MemoryBytes) < nearlyFull*float64(r.LimitBytes) {
		return
	}
	add(Failure, "proxy", time.Time{}, "replay-memory is nearly used up: %s of %s; when it is, sessions end with their backends",
		figures.Bytes(float64(r.MemoryBytes)), figures.Bytes(float64(r.LimitBytes)))
}

// ofFailover shows whether other backends can continue a service's sessions.
func ofFailover(v *api.Service, add func(Level, string, time.Time, string, ...any)) {
	f, what := v.Failover, "service "+v.Name
	if f == nil || f.Mode == "off" {
		return
	}
	if f.Verdict == "never" {
		add(Warning, what, time.Time{}, "failover: replay has no effect: %s", cmp.Or(f.Why, "its profile does not say how"))
	}
	if !f.Failed.IsZero() {
		add(Failure, what, f.Failed, "no other backend could continue sessions whose backend failed: see how they ended")
	}
}

// ofTLS finds certificates that expire, and files that cannot be used.
func ofTLS(s *api.Stats, add func(Level, string, time.Time, string, ...any)) {
	for i := range s.TLS.Certificates {
		c := &s.TLS.Certificates[i]
		at := c.NotAfter.UTC().Format(time.RFC3339)
		switch c.State {
		case api.CertificateExpired:
			add(Failure, "certificate "+c.File, c.NotAfter, "it has expired at %s: clients refuse it", at)
		case api.CertificateExpiring:
			add(Warning, "certificate "+c.File, time.Time{}, "it expires at %s: renew it", at)
		case api.CertificateMissing:
			if c.Failure == "" {
				add(Warning, "certificate "+c.File, time.Time{}, "the authority has not issued it yet: clients that ask for the name fail")
			}
		}
		if c.Failure != "" {
			add(Failure, "certificate "+c.File, time.Time{}, "the authority does not issue it: %s", c.Failure)
		}
	}
	if s.TLS.Failure != "" {
		add(Failure, "TLS", s.TLS.FailureSince, "files are bad, and what was read before stays in force: %s", s.TLS.Failure)
	}
}
