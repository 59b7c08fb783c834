package limits

import (
	"container/list"
	"net/netip"
	"sync"
)

// Table has scopes of one kind, by what they are of: clients by address, tenants and keys by name. A scope is made when it is first
// entered, and forgotten when it has no session and all its buckets are full, which is when forgetting it changes nothing. Any goroutine
// may use a table.
type Table[K comparable] struct {
	// Static.
	kind     Kind
	name     func(K) string
	maxEmpty int

	mu     sync.Mutex
	limits func(K) *Limits // guarded by mu; what it returns must not change, and nil is for no limits
	scopes map[K]*resident[K]
	empty  *list.List // guarded by mu: residents without sessions, in the order in which they became that
}

// resident is a scope of a table. It is guarded by the table's mu.
type resident[K comparable] struct {
	Scope
	table *Table[K]
	key   K
	empty *list.Element // its place in Table.empty; nil while there are sessions
}

// maxEmpty is how many scopes without sessions a table keeps. When a flood of addresses fills it, the oldest are forgotten, and begin
// again with full buckets: memory is bounded, and who comes back soon is still remembered.
const maxEmpty = 1 << 16

// perEntry is how many scopes without sessions are looked at whenever a scope is entered. It is more than one, so that they become fewer.
const perEntry = 4

// NewTable returns a table without limits.
func NewTable[K comparable](kind Kind, name func(K) string) *Table[K] {
	return &Table[K]{
		kind: kind, name: name, maxEmpty: maxEmpty, limits: func(K) *Limits { return nil },
		scopes: make(map[K]*resident[K]), empty: list.New(),
	}
}

// SetLimits changes the limits: limitsOf returns those of a scope, nil for none. What it returns must not change. The scopes that
// exist get theirs at once.
func (t *Table[K]) SetLimits(now Instant, limitsOf func(K) *Limits) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var none K
	was, is := t.limits(none), limitsOf(none) // for who comes later
	changed = (was == nil) != (is == nil)
	t.limits = limitsOf
	for key, r := range t.scopes {
		changed = r.set(now, limitsOf(key)) || changed
	}
	return changed
}

// enter takes a place for a session in the scope of key, or refuses it. Without check, it refuses nothing. The limits are l; nil for
// those that SetLimits has set. enter returns neither a scope nor a refusal if the scope has none.
func (t *Table[K]) enter(now Instant, key K, l *Limits, check bool) (*Scope, *Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l == nil {
		if l = t.limits(key); l == nil {
			return nil, nil
		}
	}
	t.tidy(now)
	r := t.scopes[key]
	if r == nil {
		r = &resident[K]{table: t, key: key}
		r.kind, r.name, r.home = t.kind, t.name(key), r
		r.limits.Store(l)
		t.scopes[key] = r
	}
	r.set(now, l)
	if refusal := r.enter(now, check); refusal != nil {
		t.shelve(r)
		return nil, refusal
	}
	if r.empty != nil {
		t.empty.Remove(r.empty)
		r.empty = nil
	}
	return &r.Scope, nil
}

// left implements home: a session gives its place back.
func (r *resident[K]) left(s *Scope) {
	t := r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	s.left()
	t.shelve(r)
}

// shelve notes that a scope has no session, if that is so. It is called with mu held.
func (t *Table[K]) shelve(r *resident[K]) {
	if r.sessions.Load() > 0 || r.empty != nil {
		return
	}
	r.empty = t.empty.PushBack(r)
	if t.empty.Len() > t.maxEmpty {
		t.forget(t.empty.Front())
	}
}

// tidy forgets a few of the scopes that are as if they had never been used. It is called with mu held.
func (t *Table[K]) tidy(now Instant) {
	for range perEntry {
		e := t.empty.Front()
		if e == nil {
			return
		}
		if r := e.Value.(*resident[K]); r.unused(now) {
			t.forget(e)
		} else {
			t.empty.MoveToBack(e)
		}
	}
}

func (t *Table[K]) forget(e *list.Element) {
	delete(t.scopes, e.Value.(*resident[K]).key)
	t.empty.Remove(e)
}

// Len returns how many scopes the table has.
func (t *Table[K]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.scopes)
}

// Sessions returns how many sessions are in each scope that has some.
func (t *Table[K]) Sessions() map[K]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := make(map[K]int)
	for key, r := range t.scopes {
		if n := r.sessions.Load(); n > 0 {
			counts[key] = int(n)
		}
	}
	return counts
}

// AddressOf returns what is limited as one client: an IPv4 address, or the /64 of an IPv6 address, since a client that has one address of that
// has them all (RFC 6177). It returns an invalid prefix for an invalid address.
func AddressOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits)
	return p
}

// NameOfAddress returns how logs and the API name such a client: an IPv4 address without its length.
func NameOfAddress(p netip.Prefix) string {
	if p.Addr().Is4() {
		return p.Addr().String()
	}
	return p.String()
}
