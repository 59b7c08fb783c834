//go:build unix

package follow

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/postgres"
	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// reasons keeps what a log says of failures, each with its reason.
type reasons struct {
	journal
	mu   sync.Mutex
	said []string // guarded by mu
}

func (r *reasons) Handle(ctx context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "reason" {
			r.mu.Lock()
			r.said = append(r.said, a.Value.String())
			r.mu.Unlock()
		}
		return true
	})
	return r.journal.Handle(ctx, record)
}

// An outage of PostgreSQL is one state: one line when it begins and one when it is over, however the server goes and comes back.
func TestOutage(t *testing.T) {
	server, err := pgtest.New()
	if errors.Is(err, pgtest.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Remove()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	start := func() {
		t.Helper()
		if err := server.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	start()
	dsn := server.URL(pgtest.User, pgtest.Password, "postgres")
	if _, _, err := postgres.Migrate(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	store, err := postgres.Open(dsn, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	log := new(reasons)
	f, err := Start(ctx, Options{Store: store, Source: "the store", Log: slog.New(log), Apply: func(*config.Snapshot) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	await := func(what string, ok func(Status) bool) {
		t.Helper()
		for !ok(f.Status()) {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("%s was not seen: %+v", what, f.Status())
			}
		}
	}
	for i, end := range []func() error{server.Stop, server.Kill} {
		before := f.Status().Failed
		if err := end(); err != nil {
			t.Fatal(err)
		}
		await("the outage", func(s Status) bool { return s.State == Stale && s.Failed >= before+3 })
		start()
		await("its end", func(s Status) bool { return s.State == Current && log.count(readAgain) > i }) // the log comes after the state
		if begun, over := log.count(cannotFollow), log.count(readAgain); begun != i+1 || over != i+1 {
			t.Errorf("after %d outages the log has %d beginnings and %d ends", i+1, begun, over)
		}
	}
	for _, reason := range log.said {
		t.Log(reason)
		if strings.Contains(reason, "->") {
			t.Errorf("a reason names a port that is another one each time: %s", reason)
		}
	}
}
