//go:build unix

package tables_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/postgres"
	"github.com/wsbouncer/wsbouncer/internal/config/sqlite"
	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/usage"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// Both databases keep usage in the same way.
func TestUsage(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		store, err := sqlite.Open(filepath.Join(t.TempDir(), "c.db"), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		testUsage(t, store)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		server, err := pgtest.New()
		if errors.Is(err, pgtest.ErrNone) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer server.Remove()
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		dsn := server.DSN("postgres")
		if _, _, err := postgres.Migrate(t.Context(), dsn); err != nil {
			t.Fatal(err)
		}
		store, err := postgres.Open(dsn, config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		testUsage(t, store)
	})
}

func used(n uint64) meter.Used {
	return meter.Used{
		Sessions: n, In: meter.Audio{Micros: n << 40, Estimated: 2 * n, Bytes: 3 * n, Unknown: 4 * n},
		Out: meter.Audio{Micros: 5 * n, Estimated: 6 * n, Bytes: 7 * n, Unknown: 8 * n}, Results: 9 * n,
	}
}

func testUsage(t *testing.T, store usage.Store) {
	acme, none := usage.Scope{Service: "stt", Tenant: "ac'me", Key: "k"}, usage.Scope{Service: "stt"}
	row := func(process, hour string, s usage.Scope, n uint64) usage.Row {
		return usage.Row{Process: process, Hour: hour, Scope: s, Used: used(n)}
	}
	book := func(rows ...usage.Row) {
		t.Helper()
		if err := store.BookUsage(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(from, to, except string, want map[usage.Scope]uint64) {
		t.Helper()
		rows, err := store.SumUsage(t.Context(), from, to, except)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != len(want) {
			t.Errorf("%d rows, want %d", len(rows), len(want))
		}
		for _, r := range rows {
			if n := want[r.Scope]; r.Used != used(n) {
				t.Errorf("%v: %+v, want %d of each", r.Scope, r.Used, n)
			}
		}
	}
	const first, second, third, future = "2025-11-30T23", "2025-12-01T00", "2025-12-01T01", "2999-01-01T00"
	book(row("a.1", first, acme, 5), row("a.1", first, none, 1), row("b.1", first, acme, 7), row("a.2", second, acme, 3))
	book(row("a.1", first, acme, 5))                              // once more
	book(row("a.1", first, acme, 2), row("b.1", first, acme, 10)) // an earlier state, and a later one
	expect(first, third, "", map[usage.Scope]uint64{acme: 18, none: 1})
	expect(first, second, "", map[usage.Scope]uint64{acme: 15, none: 1})
	expect(first, third, "a", map[usage.Scope]uint64{acme: 10})
	expect(third, "2027-01-01T00", "", nil)
	var many []usage.Row
	for i := range uint64(200) {
		many = append(many, row("c.1", third, usage.Scope{Service: "stt", Tenant: string(rune('a' + i))}, i))
	}
	book(many...)
	book(row("d.1", future, acme, 1))
	for before, want := range map[string]string{"9999": third, third: second, "2025-12-01": first, first: ""} {
		if hour, err := store.NewestUsage(t.Context(), before); err != nil || hour != want {
			t.Errorf("the newest before %s: %q, %v; want %q", before, hour, err, want)
		}
	}
	for _, before := range []string{"", second} { // first nothing
		if err := store.ForgetUsage(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		if hour, err := store.NewestUsage(t.Context(), second); err != nil || (hour == first) != (before == "") {
			t.Errorf("after what is before %q was forgotten: %q, %v", before, hour, err)
		}
	}
	expect(first, third, "", map[usage.Scope]uint64{acme: 3})
}
