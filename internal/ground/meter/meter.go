// Package meter counts what sessions and connections do, for each backend: what was relayed, sessions that began and ended, and how long
// things took.
//
// What is counted for each frame is a plain number that one event loop owns ([Relayed]): it costs an addition. What happens a few times
// in a session's life is counted with atomic operations ([Histogram], [Backend.SessionEnded]). Nothing takes a lock or allocates to count.
//
// A [Registry] has the counters of all backends. It keeps those of a backend for as long as they are held, and adds them to a total
// of the backends that are gone after that, so that no total ever falls.
package meter

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Relayed counts data frames and their payload in bytes.
type Relayed struct {
	FramesFromClients  uint64
	BytesFromClients   uint64
	FramesFromBackends uint64
	BytesFromBackends  uint64
}

// Add adds other.
func (r *Relayed) Add(other Relayed) {
	r.FramesFromClients += other.FramesFromClients
	r.BytesFromClients += other.BytesFromClients
	r.FramesFromBackends += other.FramesFromBackends
	r.BytesFromBackends += other.BytesFromBackends
}

// onLoop is what one loop counts for a backend. It fills its own cache line, so that loops do not slow each other down.
type onLoop struct {
	Relayed
	_ [64 - 32]byte
}

// Backend has the counters of one backend. A goroutine that counts holds it: see [Backend.Hold].
type Backend struct {
	// Static.
	registry *Registry // nil if it belongs to none
	key      key
	loops    []onLoop // each is owned by its loop

	holders atomic.Int64
	begun   atomic.Uint64
	ended   [parties][codes][classes]atomic.Uint64
	orderly [orderlyEnds]atomic.Uint64
	failovers

	// Times. Any goroutine may add to them.

	Wait       Histogram // of clients for a connection, from their request on; those that got none are not counted
	FirstReply Histogram // from the client's first message to the first data that the server sent after it
	Session    Histogram // how long sessions lasted
	Dial       Histogram // from the begin of a dial to a connection that can be used; those that failed are not counted
	Reset      Histogram // from the end of a session until its connection was fit for the next; those that failed are not counted
	Ping       Histogram // from a ping to its pong
	Canary     Histogram // from the first audio of a canary to its first result; those without one are not counted
	Failover   Histogram // from the loss of a server to the first result of the next one, for the backend that continues
}

// key is what a backend is known by.
type key struct{ service, backend string }

// NewBackend returns counters that belong to no registry, for a process with this many event loops.
func NewBackend(loops int) *Backend {
	b := &Backend{loops: make([]onLoop, loops)}
	for i, h := range b.histograms() {
		h.bounds = bounds[i]
	}
	b.holders.Store(1)
	return b
}

// histograms returns the histograms in the order of bounds.
func (b *Backend) histograms() [times]*Histogram {
	return [times]*Histogram{&b.Wait, &b.FirstReply, &b.Session, &b.Dial, &b.Reset, &b.Ping, &b.Failover, &b.Canary}
}

// Relayed returns the numbers that belong to a loop. Only that loop's goroutine may use them, while it holds the counters.
func (b *Backend) Relayed(loop int) *Relayed { return &b.loops[loop].Relayed }

// SessionBegan counts a session that began.
func (b *Backend) SessionBegan() { b.begun.Add(1) }

// SessionEnded counts a session that ended, with the client's close code.
func (b *Backend) SessionEnded(by Party, code uint16, class Class) {
	b.ended[by][codeOf(code)][class].Add(1)
}

// Hold keeps the counters in the registry until Release is called once more. It returns false if the registry has given them up already:
// then what is counted would be lost, and the caller asks for the backend's present ones.
func (b *Backend) Hold() bool {
	for {
		n := b.holders.Load()
		if n == 0 {
			return false
		}
		if b.holders.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release ends the caller's hold on the counters.
func (b *Backend) Release() {
	if b.holders.Add(-1) == 0 && b.registry != nil {
		b.registry.fold(b)
	}
}

// Registry has the counters of all backends. It may be used from any goroutine.
type Registry struct {
	loops int // static: event loops of the process

	mu       sync.Mutex
	backends map[key]*Backend // guarded by mu
	gone     Totals           // guarded by mu: of backends that are gone
}

// NewRegistry returns a registry for a process with this many event loops.
func NewRegistry(loops int) *Registry {
	return &Registry{loops: loops, backends: make(map[key]*Backend)}
}

// Backend returns the counters of a service's backend, which the caller holds: it calls [Backend.Release] when the backend is gone. A
// backend that comes back while its counters are still held gets the same ones.
func (r *Registry) Backend(service, backend string) *Backend {
	k := key{service, backend}
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.backends[k]; b != nil && b.Hold() {
		return b
	}
	b := NewBackend(r.loops)
	b.registry, b.key = r, k
	if old := r.backends[k]; old != nil { // it was released this moment, and fold has not come to it yet
		r.gone.add(old)
	}
	r.backends[k] = b
	return b
}

// fold adds the counters of a backend that is gone to the total. They are not held, so they do not change.
func (r *Registry) fold(b *Backend) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backends[b.key] == b {
		delete(r.backends, b.key)
		r.gone.add(b)
	}
}

// Snapshot is the counters at one instant; what the loops count is that of an instant for each loop.
type Snapshot struct {
	// Backends are those that exist, or that sessions still use, by service and name.
	Backends []BackendTotals
	// Total is the sum of all backends, also of those that are gone. None of its numbers ever falls.
	Total Totals
}

// BackendTotals are the counters of one backend.
type BackendTotals struct {
	Service, Backend string
	Totals
}

// chunk is of how many backends a loop is asked at a time, so that no other event waits long for it.
const chunk = 512

// Snapshot reads all counters. on calls a function on an event loop and waits for it; if the loop does not run, it calls nothing. The
// caller must not be on a loop.
func (r *Registry) Snapshot(on func(loop int, f func())) Snapshot {
	held, gone := r.hold()
	s := Snapshot{Backends: make([]BackendTotals, len(held)), Total: gone}
	for loop := range r.loops {
		for from := 0; from < len(held); from += chunk {
			some := held[from:min(from+chunk, len(held))]
			on(loop, func() {
				for i, b := range some {
					s.Backends[from+i].Relayed.Add(b.loops[loop].Relayed)
				}
			})
		}
	}
	for i, b := range held {
		t := &s.Backends[i]
		t.Service, t.Backend = b.key.service, b.key.backend
		relayed := t.Relayed
		t.Totals = b.read()
		t.Relayed = relayed
		s.Total.Add(&t.Totals)
		b.Release()
	}
	return s
}

// hold returns the counters of all backends, in order and held, so that none is folded while they are read, and the total of those that
// are gone.
func (r *Registry) hold() (held []*Backend, gone Totals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone = r.gone
	gone.Ends = slices.Clone(gone.Ends)
	for _, b := range r.backends {
		if !b.Hold() { // it was released this moment, and fold waits for the lock
			gone.add(b)
			continue
		}
		held = append(held, b)
	}
	slices.SortFunc(held, func(a, b *Backend) int { return a.key.compare(b.key) })
	return held, gone
}

// Totals are counters as they were read.
type Totals struct {
	Relayed Relayed
	Begun   uint64 // sessions
	Ends    []End  // kinds of ends that have occurred, in order
	Orderly OrderlyEnds

	Failovers Failovers
	// FailoverFailed is when a session whose server failed was not moved for the last time; zero for never.
	FailoverFailed time.Time
	Unrecoverable  [UnrecoverableReasons]uint64 // sessions that no other server could continue any longer
	Stalls         uint64                       // sessions on which the server stalled
	Times
}

// Times are how long things took, see [Backend].
type Times struct {
	Wait, FirstReply, Session, Dial, Reset, Ping, Failover, Canary Distribution
}

func (t *Times) all() [times]*Distribution {
	return [times]*Distribution{&t.Wait, &t.FirstReply, &t.Session, &t.Dial, &t.Reset, &t.Ping, &t.Failover, &t.Canary}
}

// Add adds other.
func (t *Totals) Add(other *Totals) {
	t.Relayed.Add(other.Relayed)
	t.Begun += other.Begun
	t.Ends = addEnds(t.Ends, other.Ends)
	for i, n := range other.Orderly {
		t.Orderly[i] += n
	}
	for c, n := range other.Failovers {
		t.Failovers[c].Moved += n.Moved
		t.Failovers[c].NotMoved += n.NotMoved
	}
	for why, n := range other.Unrecoverable {
		t.Unrecoverable[why] += n
	}
	t.Stalls += other.Stalls
	if other.FailoverFailed.After(t.FailoverFailed) {
		t.FailoverFailed = other.FailoverFailed
	}
	for i, d := range other.Times.all() {
		t.Times.all()[i].Add(d)
	}
}

// add adds all of a backend's counters, which are not held.
func (t *Totals) add(b *Backend) {
	for i := range b.loops {
		t.Relayed.Add(b.loops[i].Relayed)
	}
	shared := b.read()
	t.Add(&shared)
}

// read returns what any goroutine counts.
func (b *Backend) read() (t Totals) {
	t.Begun, t.Ends, t.Stalls = b.begun.Load(), b.ends(), b.stalls.Load()
	for i := range b.orderly {
		t.Orderly[i] = b.orderly[i].Load()
	}
	for c := range t.Failovers {
		t.Failovers[c].Moved, t.Failovers[c].NotMoved = b.moved[c].Load(), b.notMoved[c].Load()
	}
	for why := range t.Unrecoverable {
		t.Unrecoverable[why] = b.unrecoverable[why].Load()
	}
	if at := b.failed.Load(); at != 0 {
		t.FailoverFailed = time.Unix(0, at)
	}
	for i, h := range b.histograms() {
		*t.Times.all()[i] = h.Read()
	}
	return t
}

// Failed returns how many sessions ended by a fault of a backend or of the proxy.
func (t *Totals) Failed() (n uint64) {
	for _, e := range t.Ends {
		if e.Class.Failed() {
			n += e.Sessions
		}
	}
	return n
}

// What the histograms' limits are, in the order of Times.
const times = 8

var bounds = [times][]time.Duration{
	// Wait: most clients wait for nothing, and none for longer than its service's queue timeout.
	milliseconds(1, 5, 25, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000),
	// FirstReply
	milliseconds(5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000),
	// Session: from a second to four hours.
	milliseconds(1000, 5000, 15000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 7200000, 14400000),
	// Dial
	milliseconds(1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000),
	// Reset
	milliseconds(1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000),
	// Ping: 0.25 ms is a server close by.
	append([]time.Duration{250 * time.Microsecond}, milliseconds(1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 5000)...),
	// Failover
	milliseconds(25, 50, 100, 250, 500, 1000, 1500, 2000, 3000, 5000, 10000, 30000),
	// Canary
	milliseconds(50, 100, 250, 500, 750, 1000, 1500, 2000, 3000, 5000, 10000, 30000),
}

func milliseconds(all ...int) (d []time.Duration) {
	for _, n := range all {
		d = append(d, time.Duration(n)*time.Millisecond)
	}
	return d
}
