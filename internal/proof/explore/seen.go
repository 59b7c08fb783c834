package explore

import "sync"

// seen is a set of keys that several goroutines use.
type seen [256]part

// part is a table of keys with open addressing.
type part struct {
	mu    sync.Mutex
	keys  []key // guarded by mu; the zero key is no key
	count int   // guarded by mu
}

// add adds a key, and reports whether it is new.
func (s *seen) add(k key) bool {
	if k == (key{}) {
		k[0] = 1
	}
	p := &s[k[1]>>56]
	p.mu.Lock()
	defer p.mu.Unlock()
	if 4*p.count >= 3*len(p.keys) {
		p.grow()
	}
	at := p.find(k)
	if p.keys[at] == k {
		return false
	}
	p.keys[at] = k
	p.count++
	return true
}

// find returns where a key is, or belongs.
func (p *part) find(k key) int {
	mask := len(p.keys) - 1
	at := int(k[0]) & mask
	for p.keys[at] != (key{}) && p.keys[at] != k {
		at = (at + 1) & mask
	}
	return at
}

// grow makes room for more keys.
func (p *part) grow() {
	was := p.keys
	p.keys = make([]key, max(64, 2*len(was)))
	for _, k := range was {
		if k != (key{}) {
			p.keys[p.find(k)] = k
		}
	}
}
