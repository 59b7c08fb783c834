package token

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
)

// maxVerified is how many tokens each of the two generations of verified remembers: some 500 KiB in all.
const maxVerified = 1024

// verified remembers tokens that were found good, by their hash, since a client often comes again with the same token, and comparing a
// signature takes far longer than a hash. It forgets all of them when the key set changes. Any goroutine may use it; the zero value is ready.
type verified struct {
	mu     sync.Mutex
	set    *keySet                         // guarded by mu: that the tokens were verified with
	recent auth.Recent[*identity.Identity] // guarded by mu
}

// find returns who a token is about; nil if it is not known to be good.
func (v *verified) find(token [sha256.Size]byte, set *keySet, now time.Time) *identity.Identity {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.set != set {
		return nil
	}
	who, _ := v.recent.Find(token, now)
	return who
}

// add remembers a token that was verified with a key of this set.
func (v *verified) add(token [sha256.Size]byte, set *keySet, who *identity.Identity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.set != set {
		v.set = set
		v.recent.Clear()
	}
	v.recent.Most = maxVerified
	v.recent.Add(token, who, who.Expires)
}
