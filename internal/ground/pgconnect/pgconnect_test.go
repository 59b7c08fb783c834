package pgconnect

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// What the driver says in several lines, some of them twice, is one line that says it once, and still the same error.
func TestPlain(t *testing.T) {
	cause := errors.New("refused")
	for text, want := range map[string]string{
		"failed to connect to `user=a`:\n\tdb:5432 (10.0.0.5): %w\n\tdb:5432 (10.0.0.5): refused": "failed to connect to 'user=a': db:5432 (10.0.0.5): refused",
		"failed to connect to `user=a`:\n\ta: no TLS\n\tb: %w":                                    "failed to connect to 'user=a': a: no TLS; b: refused",
		"read: %w": "read: refused",
	} {
		if got := Plain(fmt.Errorf(text, cause)); got.Error() != want || !errors.Is(got, cause) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// What a connection pooler breaks comes with what to do about it. Nothing else does.
func TestPooled(t *testing.T) {
	for _, code := range []string{"26000", "42P05"} {
		cause := &pgconn.PgError{Code: code, Message: `prepared statement "stmtcache_1" does not exist`}
		if err := Pooled(fmt.Errorf("reading: %w", cause)); !errors.Is(err, cause) || !strings.Contains(err.Error(), "add default_query_exec_mode=exec") {
			t.Errorf("%s: %v", code, err)
		}
	}
	for _, err := range []error{nil, errors.New("refused"), &pgconn.PgError{Code: "42501"}} {
		if got := Pooled(err); got != nil {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// A connection that the server has ended is an outage, whatever it was ended for; a statement that was refused is none.
func TestIsOutage(t *testing.T) {
	for code, want := range map[string]bool{
		"57P01": true, "57P03": true, "25P03": true, "25P04": true, "57P05": true, "42501": false, "55P03": false, "25006": false,
	} {
		if err := fmt.Errorf("reading: %w", &pgconn.PgError{Severity: "FATAL", Code: code}); IsOutage(err) != want {
			t.Errorf("%s: %v", code, !want)
		}
	}
}
