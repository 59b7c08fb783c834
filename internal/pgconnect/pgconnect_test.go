package pgconnect

import (
	"errors"
	"fmt"
	"testing"
)

// What the driver says in several lines, some of them twice, is one line that says it once, and still the same error.
func TestPlain(t *testing.T) {
	cause := errors.New("refused")
	for text, want := range map[string]string{
		"failed to connect to `user=a`:\n\tdb:5432 (10.0.0.5): %w\n\tdb:5432 (10.0.0.5): refused": "failed to connect to `user=a`: db:5432 (10.0.0.5): refused",
		"failed to connect to `user=a`:\n\ta: no TLS\n\tb: %w":                                    "failed to connect to `user=a`: a: no TLS; b: refused",
		"read: %w": "read: refused",
	} {
		if got := Plain(fmt.Errorf(text, cause)); got.Error() != want || !errors.Is(got, cause) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
