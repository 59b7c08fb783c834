package postgres

import (
	"context"
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// Check returns what keeps the database's user from using the ledger; nil for nothing. It changes nothing.
func (s *Store) Check(ctx context.Context) error {
	var missing *string
	err := s.call(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, `SELECT string_agg(t.relname || ' (' || p.privilege || ')', ', ' ORDER BY t.relname, p.privilege)
			FROM pg_class AS t CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p (privilege)
			WHERE t.relnamespace = 'wsbouncer'::regnamespace AND t.relkind = 'r'
			AND (t.relname = 'fleet' AND p.privilege IN ('SELECT', 'UPDATE') OR t.relname IN ('fleet_members', 'fleet_beats', 'fleet_accounts'))
			AND NOT has_table_privilege(t.oid, p.privilege)`).Scan(&missing)
	})
	if err == nil && missing != nil {
		return fmt.Errorf("%w: it lacks rights to %s", fleet.ErrNoRights, *missing)
	}
	return err
}
