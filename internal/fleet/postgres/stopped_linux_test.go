package postgres

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// stalling is a connection from which nothing is read while it is stalled.
type stalling struct {
	net.Conn
	stalled atomic.Bool
	ended   chan struct{}
}

func (c *stalling) Read(p []byte) (int, error) {
	if c.stalled.Load() {
		<-c.ended
		return 0, net.ErrClosed
	}
	return c.Conn.Read(p)
}

// TestStoppedWhileReading: the server ends an exchange that has locked the ledger and whose proxy does not read the answer, which is more than the
// buffers in between hold. Such a connection is not idle.
func TestStoppedWhileReading(t *testing.T) {
	name := newDatabase(t, "migrated")
	dsn := server.DSN(name)
	query(t, dsn, "UPDATE wsbouncer.fleet SET members_tag = 'large'",
		"INSERT INTO wsbouncer.fleet_members (id, epoch, about) VALUES ('large', '', json_build_object('name', repeat('x', 40000000)))")
	config, err := pgx.ParseConfig(server.URL(pgtest.User, pgtest.Password, name))
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	c := &stalling{ended: make(chan struct{})}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c.Conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return c, err
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	c.stalled.Store(true)
	stopped, read := openStore(t, dsn), make(chan error)
	go func() {
		_, err := stopped.load(context.Background(), &attempt{conn: conn, locks: true}, &request{everything: true})
		read <- err
	}()
	wstest.Eventually(t, "the server waits for the proxy to read", func() bool {
		return text(t, dsn, "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'ClientWrite'") == "1"
	})
	query(t, dsn, "UPDATE wsbouncer.fleet_members SET about = '{}' WHERE id = 'large'") // the other proxy need not read it
	p := newProxy(t, dsn, "a")
	wstest.Eventually(t, "another proxy writes", func() bool {
		_, err := p.report(true, false, nil)
		return err == nil
	})
	close(c.ended)
	if err := <-read; err == nil {
		t.Error("the proxy has read the ledger")
	}
	_ = conn.Close(t.Context())
}
