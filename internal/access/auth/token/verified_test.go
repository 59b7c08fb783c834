package token

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/testkit/tokentest"
)

// A token that was found good is found again until it expires, or its key goes.
func TestVerifiedAgain(t *testing.T) {
	r := newRig(t, nil)
	now := noon
	r.now = func() time.Time { return now }
	text := r.signers["ES256"].Sign(good)
	first, err := authenticate(r.Verifier, text)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := authenticate(r.Verifier, text); err != nil || *again != *first || r.verified.recent.Len() != 1 {
		t.Errorf("%+v, %v; %d are remembered", again, err, r.verified.recent.Len())
	}
	now = noon.Add(time.Hour + time.Minute)
	if _, err := authenticate(r.Verifier, text); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after its end: %v", err)
	}
	if r.verified.recent.Len() != 0 {
		t.Error("it is still remembered")
	}
	now = noon
	if _, err := authenticate(r.Verifier, text); err != nil {
		t.Fatal(err)
	}
	if err := r.Keys.use(tokentest.KeySet(r.signers["RS256"].JWK())); err != nil {
		t.Fatal(err)
	}
	if _, err := authenticate(r.Verifier, text); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("after its key has gone: %v", err)
	}
}

// However many tokens there are, the number that is remembered is bounded, and one in use stays.
func TestVerifiedIsBounded(t *testing.T) {
	var v verified
	set, who := new(keySet), &identity.Identity{Expires: noon}
	hash := func(i int) [sha256.Size]byte { return sha256.Sum256(fmt.Append(nil, i)) }
	now := noon.Add(-time.Hour)
	for i := range 10 * maxVerified {
		v.add(hash(i), set, who)
		if v.find(hash(0), set, now) == nil {
			t.Fatalf("the one in use was forgotten after %d others", i)
		}
		if n := v.recent.Len(); n > 2*maxVerified {
			t.Fatalf("%d are remembered", n)
		}
	}
	if v.find(hash(1), set, now) != nil {
		t.Error("an unused one is remembered")
	}
	if v.find(hash(0), new(keySet), now) != nil {
		t.Error("one is good for another key set")
	}
}
