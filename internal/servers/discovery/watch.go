package discovery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// Status is how the lookup of a name goes.
type Status struct {
	Backend string
	Question
	Servers  int       // that the name stands for at present
	Asked    time.Time // the end of the last lookup; zero before the first
	Answered time.Time // the end of the last lookup that found servers; zero before the first
	Failing  time.Time // since when lookups fail or find nothing; zero if the last one found servers
	Reason   string    // why the last one failed; empty if it found servers
	Lookups  uint64    // since the watch began
	Failures uint64    // of those, how many failed or found nothing
	LeftOut  []string  // addresses of the last answer that are not used, and why; the first few
}

// watch looks one name up again and again, on its own goroutine.
type watch struct {
	// Static.
	o        *Options
	turns    chan struct{}
	backend  string
	question Question
	cancel   context.CancelFunc
	changed  chan struct{} // of size one: the interval has changed

	// Owned by the watch's goroutine.
	lookup  lookup
	members members
	warned  time.Time      // when the log last said that lookups fail
	failing bool           // the log has said so, and not yet that they work again
	said    map[string]int // by the reason why addresses are left out: for how many answers it has not been so

	mu       sync.Mutex
	interval time.Duration // guarded by mu
	servers  []Server      // guarded by mu; the list is replaced, never changed
	status   Status        // guarded by mu
}

func (w *watch) setInterval(interval time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.interval == interval {
		return
	}
	w.interval = interval
	tasks.Wake(w.changed)
}

// known returns the servers, and false before the first answer.
func (w *watch) known() ([]Server, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.servers, w.servers != nil
}

func (w *watch) report() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// run looks the name up until ctx ends.
func (w *watch) run(ctx context.Context) {
	w.lookup = lookup{resolver: w.o.Resolver, question: w.question}
	w.said = make(map[string]int)
	ask := w.once
	if w.question.Service != "" {
		ask, w.members.sure = w.follow, true
	}
	for {
		ask(ctx)
		pause := time.NewTimer(w.pause())
		select {
		case <-pause.C:
		case <-w.changed: // the lookup that follows at once begins the new rhythm
			pause.Stop()
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// pause returns the time until the next lookup: the interval, plus or minus a fifth, so that many names, and many proxies, do not ask at
// the same moment.
func (w *watch) pause() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	interval := w.interval
	if !w.status.Failing.IsZero() {
		interval = min(interval, retryInterval)
	}
	return interval*4/5 + rand.N(max(interval*2/5, 1))
}

// once looks the name up once, when it is its turn.
func (w *watch) once(ctx context.Context) {
	defer w.o.Guard.Recover("DNS lookup of backend "+w.backend, nil)
	select {
	case w.turns <- struct{}{}:
	case <-ctx.Done():
		return
	}
	release := sync.OnceFunc(func() { <-w.turns })
	defer release()
	defer time.AfterFunc(turnGrace, release).Stop()
	limited, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	answer, err := w.lookup.ask(limited)
	if ctx.Err() == nil {
		w.take(answer, err)
	}
}

// take takes an answer, which is without duplicates, or why there is none.
func (w *watch) take(answer []Server, err error) {
	fit, leftOut := w.sort(answer)
	if err == nil && len(fit) == 0 {
		err = errNone(w.question.Host, len(leftOut))
	}
	if err != nil {
		w.failed(err, leftOut)
		return
	}
	changed, surplus := w.members.answer(fit)
	for _, s := range surplus {
		leftOut = append(leftOut, unused{s.Address, fmt.Sprintf("a name stands for at most %d servers", maxServers)})
	}
	w.answered(changed, leftOut)
}

// unused is an address of an answer that is not used.
type unused struct {
	address netip.AddrPort
	reason  string
}

func (u unused) String() string { return fmt.Sprintf("%s: %s", u.address, u.reason) }

// sort separates servers that can be used from others.
func (w *watch) sort(answer []Server) (fit []Server, leftOut []unused) {
	for _, s := range answer {
		reason := unfit(s.Address.Addr())
		if reason == "" && w.o.Own(s.Address) {
			reason = "this proxy itself listens there"
		}
		if reason != "" {
			leftOut = append(leftOut, unused{s.Address, reason})
			continue
		}
		fit = append(fit, s)
	}
	return fit, leftOut
}

// warnInterval is the least time between two log lines that say that the lookups of a name fail: every other one may.
const warnInterval = time.Minute

// failed notes a lookup that failed or found nothing. What is known stays.
func (w *watch) failed(err error, leftOut []unused) {
	w.mu.Lock()
	now := time.Now()
	if w.status.Failing.IsZero() {
		w.status.Failing = now
	}
	w.status.Asked, w.status.Reason = now, err.Error()
	w.status.Lookups++
	w.status.Failures++
	w.status.LeftOut = few(leftOut, unused.String)
	servers := len(w.servers)
	w.mu.Unlock()
	w.say(leftOut)
	if !w.failing && now.Sub(w.warned) >= warnInterval {
		w.failing, w.warned = true, now
		w.o.Log.Warn(w.question.source()+" lookup failed, the servers that are known stay", "backend", w.backend, "name", w.question.Host, "servers", servers, "reason", err)
	}
}

// answered notes a lookup that has found servers.
func (w *watch) answered(changed bool, leftOut []unused) {
	w.mu.Lock()
	now := time.Now()
	since := w.status.Failing
	first := w.servers == nil
	if changed {
		w.servers = w.members.list()
	}
	w.status.Asked, w.status.Answered, w.status.Failing, w.status.Reason = now, now, time.Time{}, ""
	w.status.Lookups++
	w.status.Servers, w.status.LeftOut = len(w.servers), few(leftOut, unused.String)
	servers := len(w.servers)
	w.mu.Unlock()
	w.say(leftOut)
	switch {
	case w.failing:
		w.failing = false
		w.o.Log.Info(w.question.source()+" lookup works again", "backend", w.backend, "name", w.question.Host, "servers", servers, "failed_for", now.Sub(since).Round(time.Millisecond))
	case first:
		w.o.Log.Info(w.question.source()+" name found", "backend", w.backend, "name", w.question.Host, "servers", servers)
	}
	if changed {
		w.o.Changed()
	}
}

// say logs each reason for which addresses are left out, once: again only after answers in which it did not occur for a while, since
// answers may alternate.
func (w *watch) say(leftOut []unused) {
	for reason := range w.said {
		if w.said[reason]++; w.said[reason] > maxMissing {
			delete(w.said, reason)
		}
	}
	byReason := make(map[string][]unused)
	for _, u := range leftOut {
		byReason[u.reason] = append(byReason[u.reason], u)
	}
	for reason, list := range byReason {
		if _, ok := w.said[reason]; !ok {
			w.o.Log.Warn(w.question.source()+" answer has addresses that are not used", "backend", w.backend, "name", w.question.Host, "number", len(list), "addresses", strings.Join(few(list, func(u unused) string { return u.address.String() }), ", "), "reason", reason)
		}
		w.said[reason] = 0
	}
}

// mostNamed is how many addresses a log line or a status names.
const mostNamed = 5

// few returns the texts of the first of the addresses, and how many more there are.
func few(list []unused, text func(unused) string) (texts []string) {
	for _, u := range list[:min(len(list), mostNamed)] {
		texts = append(texts, text(u))
	}
	if len(list) > mostNamed {
		texts = append(texts, fmt.Sprintf("and %d more", len(list)-mostNamed))
	}
	return texts
}
