package limits

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// limitLog counts the limits that are reached, and logs them: the first time at once, and then once a minute, with how often it was. It may
// be used from any goroutine.
type Log struct {
	out    *slog.Logger // static
	counts [Kinds][Count]atomic.Uint64

	mu     sync.Mutex
	recent map[limitAbout]*limitActivity // guarded by mu: what was reached within the last minute or two
	turned map[string]uint64             // guarded by mu: clients that a limit of a tenant refused, by tenant, see Refused
	timer  *time.Timer                   // guarded by mu; nil while recent is empty
	closed bool                          // guarded by mu
}

// limitAbout is what a limit limits.
type limitAbout struct {
	kind  Kind
	name  string // empty for the process, and for those that are too many to name
	limit Limit
}

// limitActivity is how often a limit was reached. It is guarded by limitLog.mu.
type limitActivity struct {
	since time.Time
	now   uint64 // times since the last line about it
	all   uint64 // times since the first
}

const (
	// limitLogPeriod is the time between two lines about the same limit.
	limitLogPeriod = time.Minute
	// maxLimitLines is how many limits are named at a time. A flood of addresses must not fill the memory or the disk: those beyond have
	// one entry for each kind of limit.
	maxLimitLines = 100
	// maxTenants is how many tenants have their refused clients counted. Tokens may name any number of them.
	maxTenants = 1000
)

// aboutCause returns what a cause is about. service is the name of the session's service, which a cause without a scope belongs to.
func aboutCause(c Cause, service string) limitAbout {
	if c.Scope == nil {
		return limitAbout{Service, service, c.Limit}
	}
	return limitAbout{c.Scope.Kind(), c.Scope.Name(), c.Limit}
}

// Note counts that a limit was reached.
func (l *Log) Note(c Cause, service string) {
	about := aboutCause(c, service)
	l.counts[about.kind][about.limit].Add(1)
	if l.again(about) {
		return
	}
	line := []any{"scope", about.kind.String()}
	if about.name != "" {
		line = append(line, "name", about.name)
	}
	line = append(line, "limit", about.limit.String())
	if c.Scope != nil {
		line = append(line, "value", c.Scope.Limits().Text(c.Limit))
	}
	l.out.Warn("limit reached", line...)
}

// again counts in recent, and reports whether there was a line about it before.
func (l *Log) again(about limitAbout) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.recent[about]
	if a == nil && len(l.recent) >= maxLimitLines {
		about.name = ""
		a = l.recent[about]
	}
	if a != nil {
		a.now++
		a.all++
		return true
	}
	if l.recent == nil {
		l.recent = make(map[limitAbout]*limitActivity)
	}
	l.recent[about] = &limitActivity{since: time.Now(), all: 1}
	if l.timer == nil && !l.closed {
		l.timer = time.AfterFunc(limitLogPeriod, l.minute)
	}
	return false
}

// NoteRefusal counts that a client was refused because of a limit of a scope.
func (l *Log) NoteRefusal(c Cause) {
	l.Note(c, "")
	if c.Scope.Kind() != Tenant {
		return
	}
	tenant := c.Scope.Name()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turned == nil {
		l.turned = make(map[string]uint64)
	}
	if _, known := l.turned[tenant]; !known && len(l.turned) >= maxTenants {
		tenant = ""
	}
	l.turned[tenant]++
}

// Refused returns how many clients a session-limit, session-rate or audio-quota of their tenant has refused, by tenant. Those of tenants that are too many to
// count are under the empty name.
func (l *Log) Refused() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.turned)
}

// minute logs what was reached again within the last minute, and forgets the rest.
func (l *Log) minute() {
	l.mu.Lock()
	type line struct {
		about limitAbout
		times uint64
		since time.Time
	}
	var lines []line
	for about, a := range l.recent {
		if a.now == 0 {
			delete(l.recent, about)
			continue
		}
		lines = append(lines, line{about, a.now, a.since})
		a.now = 0
	}
	if l.timer = nil; len(l.recent) > 0 && !l.closed {
		l.timer = time.AfterFunc(limitLogPeriod, l.minute)
	}
	l.mu.Unlock()
	slices.SortFunc(lines, func(a, b line) int { return a.about.compare(b.about) })
	for _, n := range lines {
		about := []any{"scope", n.about.kind.String()}
		if n.about.name != "" {
			about = append(about, "name", n.about.name)
		}
		l.out.Warn("limit still reached", append(about, "limit", n.about.limit.String(), "times", n.times, "since", n.since)...)
	}
}

func (a limitAbout) compare(b limitAbout) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name), cmp.Compare(a.limit, b.limit))
}

// Close logs what was not logged yet, and starts no more timers.
func (l *Log) Close() {
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.minute()
}

// LimitReached is how often a limit was reached.
type Reached struct {
	Kind  Kind
	Name  string // of what is limited; empty for the process, and for those that are too many to name
	Limit Limit
	Times uint64    // that clients were refused, or sessions held back or ended, since then
	Since time.Time // since when it is reached again and again, at least once a minute; zero for the start of the process
}

// Total returns the counts since the start of the limits that were reached.
func (l *Log) Total() (all []Reached) {
	for kind := range l.counts {
		for limit := range l.counts[kind] {
			if n := l.counts[kind][limit].Load(); n > 0 {
				all = append(all, Reached{Kind: Kind(kind), Limit: Limit(limit), Times: n})
			}
		}
	}
	return all
}

// Lately returns what was reached within the last minute or two, in order.
func (l *Log) Lately() []Reached {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Reached, 0, len(l.recent))
	for about, a := range l.recent {
		all = append(all, Reached{about.kind, about.name, about.limit, a.all, a.since})
	}
	slices.SortFunc(all, func(a, b Reached) int {
		return limitAbout{a.Kind, a.Name, a.Limit}.compare(limitAbout{b.Kind, b.Name, b.Limit})
	})
	return all
}

// DescribeCause returns a limit in words, such as "session-limit 3 of tenant acme". service is the name of the session's service, which
// a cause without a scope belongs to.
func DescribeCause(c Cause, service string) string {
	about := aboutCause(c, service)
	of := about.kind.String()
	if about.name != "" {
		of += " " + about.name
	}
	if c.Scope == nil {
		return fmt.Sprintf("%v of %s", c.Limit, of)
	}
	return fmt.Sprintf("%v %s of %s", c.Limit, c.Scope.Limits().Text(c.Limit), of)
}

// newLimitLog returns a log of the limits that are reached. close ends it.
func NewLog(out *slog.Logger) *Log { return &Log{out: out} }
