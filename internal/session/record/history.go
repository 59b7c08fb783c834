package record

import (
	"slices"
	"sync"
)

// remembered is how many ended sessions the proxy remembers, for operators who ask why a session ended.
const remembered = 1024

// History has the records of the sessions that ended last. It is locked when a session ends. It may be used from any goroutine.
type History struct {
	mu      sync.Mutex
	records []Record // guarded by mu: a ring, once it is full
	count   uint64   // guarded by mu: of all that were ever added
}

func (h *History) Add(r *Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.records) < remembered {
		h.records = append(h.records, *r)
	} else {
		h.records[h.count%remembered] = *r
	}
	h.count++
}

// Since returns the records of sessions that ended after the first n, oldest first, as far as they are remembered, and how many
// sessions have ended.
func (h *History) Since(n uint64) (records []Record, count uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n > h.count { // of another process
		n = 0
	}
	oldest := h.count - uint64(len(h.records))
	for i := max(n, oldest); i < h.count; i++ {
		records = append(records, h.records[i%remembered])
	}
	return records, h.count
}

// Find returns the record of an ended session.
func (h *History) Find(id ID) (Record, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.records, func(r Record) bool { return r.ID == id })
	if i < 0 {
		return Record{}, false
	}
	return h.records[i], true
}
