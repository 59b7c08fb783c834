package admission

import (
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
)

// What counts as a guess: a client that is known, or gives nothing, does not guess.
func TestGuesses(t *testing.T) {
	for _, c := range []struct {
		denied auth.Denied
		want   bool
	}{
		{auth.Denied{}, true},
		{auth.Denied{Missing: true}, false},
		{auth.Denied{Status: 403}, true},
		{auth.Denied{Status: 403, Missing: true}, false},
		{auth.Denied{Status: 403, Identity: &identity.Identity{Key: "phone"}}, false},
		{auth.Denied{Status: 429}, false},
		{auth.Denied{Status: 400}, false},
	} {
		if got := isGuess(&c.denied); got != c.want {
			t.Errorf("%+v: %v", c.denied, got)
		}
	}
}
