package route

import (
	"container/list"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
)

// maxNamed is how many ids a service remembers. An id takes some 200 bytes.
const maxNamed = 100_000

// Return is what has become of a client that has said an id: whether it has come back to the server that had given the id.
type Return uint8

const (
	// NoReturn: the client has said no id.
	NoReturn Return = iota
	// Hit: it has come to that server.
	Hit
	// Miss: the id is not known, or no longer.
	Miss
	// Gone: the server is known, but is gone, full or drained. Another server serves the client.
	Gone
	returns
)

var returnTexts = [...]string{"", "hit", "miss", "gone"}

// String returns a word for logs and metrics; empty for NoReturn.
func (r Return) String() string { return returnTexts[r] }

// Affinity remembers which servers have given which ids to the clients of a service (the profile's affinity). It knows ids by a secret hash only, and
// those of a tenant, or of a credential without a tenant, apart from those of others. Any goroutine may use it, and all versions of a service share
// one.
type Affinity struct {
	most   int              // ids; static
	now    func() time.Time // static
	seed   maphash.Seed     // static
	counts [returns]atomic.Uint64

	mu     sync.Mutex
	named  map[uint64]*list.Element // guarded by mu
	recent list.List                // guarded by mu: of *Named, the one that was used last first
}

// Named is an id that a server has given to a client.
type Named struct {
	Backend *backend.Backend // static

	key      uint64        // static
	keep     time.Duration // static: for how long it is remembered after the last session
	sessions int           // guarded by Affinity.mu: those that it belongs to
	until    time.Time     // guarded by Affinity.mu: when it is forgotten, without sessions
}

// NewAffinity returns an Affinity that remembers no id.
func NewAffinity() *Affinity { return newAffinity(maxNamed, time.Now) }

func newAffinity(most int, now func() time.Time) *Affinity {
	return &Affinity{most: most, now: now, seed: maphash.MakeSeed(), named: make(map[uint64]*list.Element)}
}

// key returns what stands for an id of a client.
func (a *Affinity) key(who *identity.Identity, id string) uint64 {
	var owner [3]string
	switch {
	case who == nil:
	case who.Tenant != "":
		owner[0] = who.Tenant
	default:
		owner[1], owner[2] = who.Method, who.Key
		if who.Key == "" {
			owner[2] = who.Subject
		}
	}
	return maphash.Comparable(a.seed, [...]string{owner[0], owner[1], owner[2], id})
}

// Learn notes that a backend has given an id to a client, whose session it belongs to until [Affinity.End], and is to be remembered for as long as
// keep after that.
func (a *Affinity) Learn(who *identity.Identity, id string, b *backend.Backend, keep time.Duration) *Named {
	n := &Named{Backend: b, key: a.key(who, id), keep: keep, sessions: 1}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.named[n.key]; known != nil {
		if old := known.Value.(*Named); old.Backend == b && old.keep == keep {
			old.sessions++
			a.recent.MoveToFront(known)
			return old
		}
		a.forget(known)
	}
	a.named[n.key] = a.recent.PushFront(n)
	for last := a.recent.Back(); len(a.named) > a.most || last.Value.(*Named).expired(a.now()); last = a.recent.Back() {
		a.forget(last)
	}
	return n
}

// Find returns what is known of an id that a client says, whose session it belongs to until [Affinity.End]; nil for nothing.
func (a *Affinity) Find(who *identity.Identity, id string) *Named {
	key := a.key(who, id)
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.named[key]
	if known == nil {
		return nil
	}
	n := known.Value.(*Named)
	if n.expired(a.now()) {
		a.forget(known)
		return nil
	}
	n.sessions++
	a.recent.MoveToFront(known)
	return n
}

// End ends the session of a client that has said or got an id. n may be nil, and may have been forgotten.
func (a *Affinity) End(n *Named) {
	if n == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n.sessions--
	n.until = a.now().Add(n.keep)
	if known := a.named[n.key]; known != nil && known.Value == n {
		a.recent.MoveToFront(known)
	}
}

// expired is called with the mutex held.
func (n *Named) expired(now time.Time) bool { return n.sessions == 0 && !now.Before(n.until) }

// forget is called with the mutex held.
func (a *Affinity) forget(e *list.Element) { delete(a.named, a.recent.Remove(e).(*Named).key) }

// Count counts a client that has said an id.
func (a *Affinity) Count(r Return) { a.counts[r].Add(1) }

// Counted returns how many clients have come back like that since the start.
func (a *Affinity) Counted(r Return) uint64 { return a.counts[r].Load() }

// Size returns how many ids are remembered. Those whose time is over may be among them.
func (a *Affinity) Size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.named)
}
