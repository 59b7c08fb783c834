package auth

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"
)

// However many values there are, the number that is remembered is bounded, and one in use stays.
func TestRecentIsBounded(t *testing.T) {
	const most = 100
	r := Recent[int]{Most: most}
	now := time.Now()
	hash := func(i int) [sha256.Size]byte { return sha256.Sum256(fmt.Append(nil, i)) }
	for i := range 10 * most {
		r.Add(hash(i), i, now.Add(time.Hour))
		if first, ok := r.Find(hash(0), now); !ok || first != 0 {
			t.Fatalf("the one in use was forgotten after %d others", i)
		}
		if n := r.Len(); n > 2*most {
			t.Fatalf("%d are remembered", n)
		}
	}
	if _, ok := r.Find(hash(1), now); ok {
		t.Error("an unused one is remembered")
	}
}
