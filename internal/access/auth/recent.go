package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// Recent remembers values by a hash, each until its time. When there are too many, it forgets those that were not used lately: it keeps
// two generations of at most Most values, and what is found in the old one joins the young one. Any goroutine may use it. The zero value
// with Most set is ready.
type Recent[V any] struct {
	Most int // static

	mu         sync.Mutex
	young, old map[[sha256.Size]byte]recent[V] // guarded by mu
}

type recent[V any] struct {
	value V
	until time.Time
}

// Find returns a value whose time has not come; ok is false for none.
func (r *Recent[V]) Find(key [sha256.Size]byte, now time.Time) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, isYoung := r.young[key]
	known := isYoung
	if !isYoung {
		found, known = r.old[key]
	}
	switch {
	case !known:
		return value, false
	case !now.Before(found.until):
		delete(r.young, key)
		delete(r.old, key)
		return value, false
	case !isYoung:
		r.add(key, found)
	}
	return found.value, true
}

// Add remembers a value until a time.
func (r *Recent[V]) Add(key [sha256.Size]byte, value V, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(key, recent[V]{value, until})
}

func (r *Recent[V]) add(key [sha256.Size]byte, value recent[V]) {
	if len(r.young) >= r.Most {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = make(map[[sha256.Size]byte]recent[V])
	}
	r.young[key] = value
}

// Len returns how many values are remembered, some of them perhaps twice.
func (r *Recent[V]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.young) + len(r.old)
}
