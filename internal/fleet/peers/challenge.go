package peers

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

const (
	// nonceLife is for how long a challenge may be answered, by this process's own clock. Who asks does so with the same nonce for
	// nonceUse, which leaves time for requests that are under way.
	nonceLife = 2 * time.Minute
	nonceUse  = time.Minute
	// actionLife is for how long a challenge may be answered with a request that changes something. Who asks waits no longer: a request that was
	// held up, since this process was stopped say, must not undo what an operator has ordered meanwhile.
	actionLife = 2 * timeout
	// maxNonces is how many nonces with a proof are remembered. Each of the others needs one a minute.
	maxNonces = 4096
	// tagSize is how much of a MAC a nonce has, in bytes.
	tagSize = 16
	// nonceSize is the size of a nonce in bytes: when it was made, what makes it unlike others, and a MAC.
	nonceSize = 8 + 12 + tagSize
)

// challenges makes nonces for other proxies, and remembers which requests were proven with them, so that each counts once. Only who
// has proven to know a token is remembered: strangers can have as many nonces as they like. The methods may be called from any goroutine.
type challenges struct {
	now    func() time.Time // static
	began  time.Time        // static, with the reading of a clock that does not jump
	secret []byte           // static; nobody else makes nonces

	mu    sync.Mutex
	floor time.Duration      // nonces that were made by then, since began, are not taken any more; guarded by mu
	used  map[string]*window // by nonce; guarded by mu
}

// window is which counts were used with a nonce: those up to high, except the ones among the last 64 whose bit is not set. Requests may
// overtake each other by that much.
type window struct {
	made time.Duration // since began
	high uint64
	bits uint64 // bit i is for high - i
}

func newChallenges(now func() time.Time) *challenges {
	c := &challenges{now: now, began: now(), secret: make([]byte, sha256.Size), floor: -1, used: make(map[string]*window)}
	_, _ = rand.Read(c.secret) // never fails
	return c
}

// issue returns a nonce for the proxy with an ID.
func (c *challenges) issue(from string) string {
	raw := binary.BigEndian.AppendUint64(make([]byte, 0, nonceSize), uint64(c.now().Sub(c.began)))
	raw = raw[:nonceSize-tagSize]
	_, _ = rand.Read(raw[8:]) // never fails
	return encoding.EncodeToString(append(raw, c.tag(raw, from)...))
}

// tag returns what proves that this process made a nonce for a proxy.
func (c *challenges) tag(raw []byte, from string) []byte {
	h := hmac.New(sha256.New, c.secret)
	h.Write(raw)
	h.Write([]byte(from))
	return h.Sum(nil)[:tagSize]
}

// holds reports whether a nonce was made here for a proxy, less than life ago, and may still be used.
func (c *challenges) holds(nonce, from string, life time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	made, ok := c.madeLocked(nonce, from)
	return ok && c.now().Sub(c.began)-made < life
}

// madeLocked returns when a nonce was made, since c.began; ok is false if it may not be used.
func (c *challenges) madeLocked(nonce, from string) (made time.Duration, ok bool) {
	raw, err := encoding.DecodeString(nonce)
	if err != nil || len(raw) != nonceSize || !hmac.Equal(c.tag(raw[:nonceSize-tagSize], from), raw[nonceSize-tagSize:]) {
		return 0, false
	}
	made = time.Duration(binary.BigEndian.Uint64(raw))
	return made, made > c.floor && c.now().Sub(c.began)-made < nonceLife
}

// use notes that a proof with a nonce and a count was accepted. It returns false if there was one already, or the nonce may not be used any more.
func (c *challenges) use(nonce, from string, count uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	made, ok := c.madeLocked(nonce, from) // at the same instant, or one that is just being forgotten could be used again
	if !ok {
		return false
	}
	w := c.used[nonce]
	if w == nil {
		if len(c.used) >= maxNonces && !c.forgetLocked() {
			return false
		}
		w = &window{made: made}
		c.used[nonce] = w
	}
	return w.use(count)
}

// forgetLocked forgets the nonces that are not taken any more. It returns false if there were none: then it forgets all, and takes only those
// that are made later.
func (c *challenges) forgetLocked() bool {
	now := c.now().Sub(c.began)
	for nonce, w := range c.used {
		if now-w.made >= nonceLife {
			delete(c.used, nonce)
		}
	}
	if len(c.used) < maxNonces {
		return true
	}
	clear(c.used)
	c.floor = now
	return false
}

// use returns whether a count was not used yet, and notes it. The first is 1.
func (w *window) use(count uint64) bool {
	const size = 64
	switch {
	case count > w.high:
		w.bits = w.bits<<min(count-w.high, size) | 1
		w.high = count
		return true
	case count == 0 || w.high-count >= size || w.bits&(1<<(w.high-count)) != 0:
		return false
	}
	w.bits |= 1 << (w.high - count)
	return true
}
