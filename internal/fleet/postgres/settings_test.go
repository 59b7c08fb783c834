package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// set sets a parameter for all connections to a database from now on.
func set(t *testing.T, dsn, parameter, value string) {
	t.Helper()
	query(t, dsn, fmt.Sprintf("DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET %s = %%L', current_database(), '%s'); END $$", parameter, value))
}

// TestSettings: whatever an administrator has set for other applications, and from which servers the configuration is to come, the ledger
// works, or says why not.
func TestSettings(t *testing.T) {
	dsn := migrated(t)
	set(t, dsn, "statement_timeout", "1min")
	exchange := func(dsn, id string) error {
		_, err := newProxy(t, dsn, fleet.ID(id)).report(true, false, &fleet.Claim{Cap: 8, Needs: 1})
		return err
	}
	for _, kind := range []string{"any", "read-write", "read-only", "primary", "standby", "prefer-standby"} {
		if err := exchange(dsn+" target_session_attrs="+kind, kind); err != nil {
			t.Errorf("target_session_attrs=%s: %v", kind, err)
		}
	}
	var limit string
	if err := openStore(t, dsn).pool.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&limit); err != nil || limit != "0" {
		t.Errorf("statements may take %s, %v", limit, err)
	}
	set(t, dsn, "default_transaction_read_only", "on")
	if err := exchange(dsn, "late"); !errors.Is(err, fleet.ErrUnreachable) || !errors.Is(err, errReadOnly) {
		t.Errorf("a database that takes no writes: %v", err)
	}
}

// TestStoppedInTheMiddle: the server ends an exchange that has locked the ledger and does not continue, so that the others can write.
func TestStoppedInTheMiddle(t *testing.T) {
	p := newProxy(t, migrated(t), "a")
	conn, err := p.store.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	a := &attempt{conn: conn.Conn(), locks: true}
	defer a.end(t.Context())
	if _, err := p.store.load(t.Context(), a, &request{everything: true}); err != nil {
		t.Fatal(err)
	}
	var limit string
	if err := a.conn.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&limit); err != nil || limit != "2s" {
		t.Errorf("the server waits for %s, %v", limit, err)
	}
}
