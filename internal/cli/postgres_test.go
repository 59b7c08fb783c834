//go:build unix

package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// The commands on a PostgreSQL server: from a database without a schema on, and from one store to another and back.
func TestOnPostgres(t *testing.T) {
	server, err := pgtest.New()
	if errors.Is(err, pgtest.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Remove()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Stop() }()

	local := onDatabase(t).begin()
	s := &stage{t: t, where: []string{"--database", server.URL(pgtest.User, pgtest.Password, "postgres")}}
	s.refuse(
		refusal{[]string{"backend", "ls"}, 1, "run wsbouncer migrate"},
		refusal{[]string{"service", "add", "stt"}, 1, "run wsbouncer migrate"},
	)
	if out := s.must("migrate"); !strings.Contains(out, ": created the schema, version ") || strings.Contains(out, pgtest.Password) {
		t.Errorf("migrating: %s", out)
	}
	if status, _, messages := command(append([]string{"migrate", "--proxy-role", "nobody"}, s.where...)...); status != 1 ||
		!strings.Contains(messages, `granting rights to the role nobody: ERROR: role "nobody" does not exist`) {
		t.Errorf("rights for a role that does not exist: status %d, %s", status, messages)
	}
	file := filepath.Join(t.TempDir(), "moved.yaml")
	local.must("config export --file " + file)
	if out := s.must("config import --why moved " + file); !strings.Contains(out, "Version 0 -> 1") {
		t.Errorf("importing:\n%s", out)
	}
	same(t, "moved", s.must("config export"), local.must("config export"))
	same(t, "drained", s.must("backend drain gpu-1"), "backend gpu-1: state enabled -> draining\nVersion 1 -> 2")
	s.refuse(refusal{[]string{"backend", "set", "gpu-1", "--weight", "2", "--expect", "1"}, 1, "backend gpu-1: state enabled -> draining"})
	s.must("config rollback 1")
	same(t, "and back", s.must("config export"), local.must("config export"))

	wrong := server.URL(pgtest.User, "not-the-password", "postgres")
	status, _, messages := command("backend", "ls", "--database", wrong)
	if status != 1 || strings.Contains(messages, "not-the-password") || !strings.Contains(messages, "password authentication failed") {
		t.Errorf("a wrong password: status %d, %s", status, messages)
	}
}
