//go:build linux

package fleetproof

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

const (
	// sampleInterval is the time between two looks at the kernel's sockets; each connection that a server accepts causes a further one.
	sampleInterval = 5 * time.Millisecond
	// settling is how long all proxies may take to hear that a cap was lowered. Until then the cap before counts.
	settling = 3 * time.Second
	// window is the time over which connections may no longer rise after a cap was lowered.
	window = 3 * time.Second
	// maxHistory is how many of the latest changes at a server are kept, for the reader of a violation.
	maxHistory = 60
)

// watcher compares what the kernel sees at each server with its cap. Its goroutine is watch; the other methods may be called from any.
type watcher struct {
	kernel  *kit.Kernel // owned by watch
	journal *kit.Journal
	wake    chan struct{} // of size one: a server has accepted a connection

	mu      sync.Mutex
	servers map[netip.Addr]*seen // guarded by mu
	proxies map[netip.Addr]*life // guarded by mu: by the address from which it dials
	samples int                  // guarded by mu
	// forgot: the ledger has lost its last commits. Until all is as it should be, it may have proxies that are long gone, and charge their places together
	// with those that others hold since.
	forgot bool          // guarded by mu
	looks  int           // guarded by mu: into the ledger
	unread error         // guarded by mu: of the last look that failed
	doubts int           // guarded by mu: of samples that needed a second look
	took   time.Duration // guarded by mu: of all samples
}

// seen is what was seen at one server. The watcher's mutex guards it.
type seen struct {
	name string
	// limit is how many connections it may have now, and cap what the configuration says. After the cap was lowered, limit falls with
	// the connections, and is compared with the window's peaks.
	limit, cap int
	lowered    time.Time // when; zero once the cap is reached
	drained    bool      // it need not be full
	peaks      []peak    // one for each tenth of a second of the window

	now       map[netip.Addr]int // connections by where they come from
	count     int
	lingering int // closeWait: the kernel has seen their ends, the application has not
	full      time.Time
	history   []string

	Highest   int           // connections at once
	Over      int           // the most above the limit
	Excused   int           // how many connections may be above it, since others got the places of a proxy that was stopped
	Lingering int           // the most above the cap with those that linger
	granted   int           // how many times the ledger was seen to have granted places of it
	reached   time.Duration // how long the cap's last lowering took
}

type peak struct {
	at    time.Time
	count int
}

// life is one process of a proxy, as the watcher knows it.
type life struct {
	name string
	// lives says that what it has counts as places in use; it is false once the process was killed or stopped.
	lives bool
}

func newWatcher(k *kit.Kernel, j *kit.Journal) *watcher {
	return &watcher{
		kernel: k, journal: j, wake: make(chan struct{}, 1), servers: make(map[netip.Addr]*seen), proxies: make(map[netip.Addr]*life),
	}
}

// accepted says that a server has accepted a connection.
func (w *watcher) accepted() { tasks.Wake(w.wake) }

// watch looks until ctx ends.
func (w *watcher) watch(ctx context.Context) {
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	var all, again []kit.Socket
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.wake:
		}
		begin := time.Now()
		var err error
		if all, err = w.kernel.Sockets(all[:0]); err == nil && w.suspicious(all) {
			if again, err = w.kernel.Sockets(again[:0]); err == nil {
				all = kit.Both(all, again)
			}
		}
		if err != nil {
			w.journal.Violation("", "the kernel does not say what it sees", nil, "%v", err)
			return
		}
		w.look(begin, time.Now(), all)
	}
}

// suspicious reports whether a list has more connections to a server than its limit: then a second list tells whether they were there at once.
func (w *watcher) suspicious(all []kit.Socket) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := make(map[netip.Addr]int, len(w.servers))
	for _, k := range all {
		if k.Counts() {
			counts[k.Server]++
		}
	}
	for address, s := range w.servers {
		if counts[address] > s.limit {
			w.doubts++
			return true
		}
	}
	return false
}

// look takes in what the kernel saw.
func (w *watcher) look(begin, now time.Time, all []kit.Socket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples++
	w.took += now.Sub(begin)
	before := make(map[netip.Addr]map[netip.Addr]int, len(w.servers))
	for address, s := range w.servers {
		before[address] = s.now
		s.now, s.count, s.lingering = make(map[netip.Addr]int), 0, 0
	}
	for _, k := range all {
		s := w.servers[k.Server]
		switch {
		case s == nil:
		case k.Counts():
			s.count++
			s.now[k.Source.Addr()]++
		default:
			s.lingering++
		}
	}
	for address, s := range w.servers {
		if !maps.Equal(before[address], s.now) {
			s.history = append(s.history, w.journal.Stamp(now)+"  "+w.describe(s))
			if len(s.history) > 2*maxHistory {
				s.history = append(s.history[:0], s.history[maxHistory:]...)
			}
		}
		w.judge(s, now)
	}
}

// judge compares a server's connections with its limit.
func (w *watcher) judge(s *seen, now time.Time) {
	s.Highest = max(s.Highest, s.count)
	s.Lingering = max(s.Lingering, s.count+s.lingering-s.limit)
	if len(s.peaks) == 0 || now.Sub(s.peaks[len(s.peaks)-1].at) >= 100*time.Millisecond {
		s.peaks = append(s.peaks, peak{at: now})
		for now.Sub(s.peaks[0].at) > window {
			s.peaks = s.peaks[1:]
		}
	}
	last := &s.peaks[len(s.peaks)-1]
	last.count = max(last.count, s.count)
	if !s.lowered.IsZero() && now.Sub(s.lowered) > settling {
		most := 0
		for _, p := range s.peaks {
			most = max(most, p.count)
		}
		s.limit = max(s.cap, min(s.limit, most))
	}
	if !s.lowered.IsZero() && s.count <= s.cap && s.reached == 0 {
		s.reached = now.Sub(s.lowered)
	}
	if s.limit == s.cap {
		s.lowered = time.Time{}
	}
	over := s.count - s.limit
	s.Over = max(s.Over, over)
	if over > s.Excused {
		w.journal.Violation("", "a server saw more connections than its cap", slices.Clone(s.history), "%s: %d connections; the limit is %d (cap %d): %s",
			s.name, s.count, s.limit, s.cap, w.describe(s))
	}
	living := 0
	for source, n := range s.now {
		if p := w.proxies[source]; p != nil && p.lives {
			living += n
		}
	}
	if living >= s.cap || s.drained {
		s.full = now
	}
}

// describe says how many connections the server has from each proxy.
func (w *watcher) describe(s *seen) string {
	var parts []string
	for _, source := range slices.SortedFunc(maps.Keys(s.now), netip.Addr.Compare) {
		name := source.String()
		if p := w.proxies[source]; p != nil {
			name = p.name
		}
		parts = append(parts, fmt.Sprintf("%s %d", name, s.now[source]))
	}
	return fmt.Sprintf("%s: %d of %d: %s", s.name, s.count, s.cap, strings.Join(parts, ", "))
}

// add adds a server with its cap.
func (w *watcher) add(address netip.Addr, name string, limit int) *seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &seen{name: name, cap: limit, limit: limit, now: make(map[netip.Addr]int)}
	w.servers[address] = s
	return s
}

// began says that a process dials from an address.
func (w *watcher) began(source netip.Addr, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.proxies[source] = &life{name: name, lives: true}
}

// update changes what the watcher knows.
func (w *watcher) update(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// alive says whether the connections of a process are places in use.
func (w *watcher) alive(source netip.Addr, lives bool) {
	w.update(func() { w.proxies[source].lives = lives })
}

// lowered says that a cap was lowered.
func (w *watcher) lowered(s *seen, to int) {
	w.update(func() { s.cap, s.lowered, s.reached = to, time.Now(), 0 })
}

// capReached returns how long it took to reach the lowered cap; false while it is not reached.
func (w *watcher) capReached(s *seen) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return s.reached, s.reached > 0
}

// count returns how many connections a server has.
func (w *watcher) count(s *seen) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return s.count
}

// held returns how many connections all servers have from an address.
func (w *watcher) held(source netip.Addr) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.servers {
		n += s.now[source]
	}
	return n
}

// notFull says which servers have not had all their places in use by living proxies since a time; nothing if all have.
func (w *watcher) notFull(since time.Time) (missing string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var parts []string
	for _, address := range slices.SortedFunc(maps.Keys(w.servers), netip.Addr.Compare) {
		if s := w.servers[address]; !s.full.After(since) {
			parts = append(parts, w.describe(s))
		}
	}
	return strings.Join(parts, "; ")
}

// excuse says that others get the places of a proxy that lives: each server may have as many connections above its cap as it has from there.
func (w *watcher) excuse(source netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.servers {
		s.Excused = max(s.Excused, s.now[source])
		w.journal.Event("%s may have %d connections above its cap from now on", s.name, s.Excused)
	}
}

// summary returns one line for each server.
func (w *watcher) summary() (lines []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, address := range slices.SortedFunc(maps.Keys(w.servers), netip.Addr.Compare) {
		s := w.servers[address]
		lines = append(lines, fmt.Sprintf("%s: cap %d in the end; at most %d connections at once, %d over the cap; "+
			"with those whose end only the application had not seen yet, %d over it", s.name, s.cap, s.Highest, s.Over, max(s.Lingering, 0)))
	}
	lines = append(lines, fmt.Sprintf("the ledger's sums were within the caps each of %d times", w.looks))
	if w.samples > 0 {
		lines = append(lines, fmt.Sprintf("the kernel was asked %d times, which took %v each; %d times again, since its list showed more than a cap", w.samples, (w.took/time.Duration(w.samples)).Round(time.Microsecond), w.doubts))
	}
	return lines
}

// sumInterval is the time between two looks into the ledger.
const sumInterval = time.Second

// sums looks into the ledger until ctx ends: once all proxies have said what they hold, all grants of a server together must not be more than
// its cap; after the cap was lowered, they may only fall.
func (r *proof) sums(ctx context.Context) {
	database := r.database.operator()
	above := make(map[*seen]int)
	for kit.Wait(ctx, sumInterval) == nil {
		sums, err := readSums(ctx, database)
		if err != nil { // the database is down
			r.watcher.update(func() { r.watcher.unread = err })
			clear(above)
			continue
		}
		now := r.watcher.compare(sums)
		for s, places := range now {
			// Twice in a row: a cap may have been lowered, or a database replaced, between the two that are compared.
			if before := above[s]; before > 0 && places >= before {
				r.journal.Violation("", "the ledger has granted more places than the cap", nil, "%s: %d places are granted", s.name, places)
			}
		}
		above = now
	}
}

// compare takes in how many places the ledger has granted of each server, and returns the servers of which it has granted more than their cap.
func (w *watcher) compare(sums map[string]int) map[*seen]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	above := make(map[*seen]int)
	for address, s := range w.servers {
		for server, places := range sums {
			if !strings.HasPrefix(server, address.String()+":") {
				continue
			}
			if places > 0 {
				s.granted++
			}
			if !w.forgot && places > s.limit+s.Excused && time.Since(s.lowered) > settling {
				above[s] = places
			}
		}
	}
	return above
}

// prove finds a violation for each server about whose cap nothing was proven: because the kernel never had a connection to it, or the ledger never a place.
func (w *watcher) prove() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, address := range slices.SortedFunc(maps.Keys(w.servers), netip.Addr.Compare) {
		s := w.servers[address]
		if s.Highest == 0 {
			w.journal.Violation("", "no connection was counted", nil, "%s never had one, so nothing was proven about its cap", s.name)
		}
		if s.granted == 0 {
			w.journal.Violation("", "the ledger was not seen", nil, "in %d looks, it has granted no place of %s, so nothing was proven about them; the last look that failed: %v",
				w.looks, s.name, w.unread)
		}
	}
}
