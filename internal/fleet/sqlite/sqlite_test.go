package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/testkit/fleettest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store in a file. What it logs goes to log, which may be nil.
func open(t testing.TB, path string, log *bytes.Buffer) *Store {
	t.Helper()
	o := Options{Poll: 10 * time.Millisecond}
	if log != nil {
		o.Log = slog.New(slog.NewTextHandler(log, nil))
	}
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	s.timeout = wstest.Timeout
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "fleet.db")
}

func TestContract(t *testing.T) {
	fleettest.Run(t, func(t *testing.T) fleettest.Place {
		path := newPath(t)
		return fleettest.Place{Open: func(t testing.TB) fleet.Store { return open(t, path, nil) }}
	})
}

const server = "ws://gpu-1:2700"

// report returns a report of a proxy that needs all of 8 places.
func report(id fleet.ID, sequence uint64, epoch fleet.Epoch) *fleet.Report {
	return &fleet.Report{
		ID: id, Sequence: sequence, Epoch: epoch, Full: true, Claims: map[string]fleet.Claim{server: {Cap: 8, Needs: 8, Wants: 8}},
		About: fleet.Member{Name: string(id), State: fleet.Serving},
	}
}

func exchange(t testing.TB, s *Store, r *fleet.Report) *fleet.Answer {
	t.Helper()
	a, err := s.Exchange(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// places returns what a proxy got at the one server.
func places(a *fleet.Answer, id fleet.ID) int {
	for _, account := range a.Accounts {
		for _, g := range account.Grants {
			if g.Proxy == id {
				return g.Places
			}
		}
	}
	return 0
}

// TestAnotherBoot: all proxies of an earlier boot are dead, and no proxy waits for them.
func TestAnotherBoot(t *testing.T) {
	path := newPath(t)
	before := open(t, path, nil)
	before.boot = "earlier"
	exchange(t, before, report("a", 1, ""))
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	now := open(t, path, nil)
	now.boot = "this one"
	a := exchange(t, now, report("b", 1, ""))
	if a.Frozen || len(a.Members) != 1 || places(a, "b") != 8 {
		t.Errorf("after another boot: %+v", a)
	}
	again := open(t, path, nil)
	again.boot = "this one"
	if a := exchange(t, again, report("c", 1, "")); len(a.Members) != 2 || places(a, "c") != 0 {
		t.Errorf("the next one in this boot: %+v", a)
	}
}

// TestDamage: a damaged file is put aside. No proxy gets places in the new one before there was time to say who holds what.
func TestDamage(t *testing.T) {
	path := newPath(t)
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o640); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := open(t, path, &log)
	if a := exchange(t, s, report("a", 1, "")); !a.Frozen || places(a, "a") != 0 {
		t.Errorf("with a new file: %+v", a)
	}
	if text, err := os.ReadFile(path + ".damaged"); err != nil || !strings.HasPrefix(string(text), "no database") {
		t.Errorf("the damaged file: %.20q, %v", text, err)
	}
	if !strings.Contains(log.String(), path+".damaged") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the log says\n%s", log.String())
	}
	r := report("a", 2, exchange(t, s, &fleet.Report{ID: "a", Sequence: 2}).Epoch)
	r.Sequence, r.Full = 3, true
	exchange(t, s, r)
	r.Sequence, r.Full, r.Settle = 4, false, true
	if a := exchange(t, s, r); a.Frozen || places(a, "a") != 8 {
		t.Errorf("after a lease time: %+v", a)
	}
}

// TestDamagedInUse: a file is damaged while a proxy uses it. A new one finds the damage, and both use the new file.
func TestDamagedInUse(t *testing.T) {
	path := newPath(t)
	p, q := open(t, path, nil), open(t, path, nil)
	epoch := exchange(t, p, report("a", 1, "")).Epoch
	for _, suffix := range []string{"", "-wal"} {
		file, err := os.OpenFile(path+suffix, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(bytes.Repeat([]byte("xyz "), 10000), 0); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	if a := exchange(t, q, report("b", 1, "")); !a.Frozen || places(a, "b") != 0 {
		t.Errorf("who finds the damage: %+v", a)
	}
	if a := exchange(t, p, report("a", 2, epoch)); !a.Frozen || !a.Again || a.Epoch == epoch {
		t.Errorf("the other: %+v", a)
	}
}

// TestDeleted: a file that is deleted in use is made again, and no proxy gets what others may still hold, not even a proxy that knows
// nothing of it.
func TestDeleted(t *testing.T) {
	path := newPath(t)
	var log bytes.Buffer
	p := open(t, path, &log)
	epoch := exchange(t, p, report("a", 1, "")).Epoch
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	q := open(t, path, nil)
	if a := exchange(t, q, report("b", 1, "")); !a.Frozen || places(a, "b") != 0 {
		t.Errorf("a new proxy with a new file: %+v", a)
	}
	r := report("a", 2, epoch)
	r.Claims[server] = fleet.Claim{Cap: 8, Holds: 8, Needs: 8, Wants: 8}
	a := exchange(t, p, r)
	if !a.Again || a.Epoch == epoch || !strings.Contains(log.String(), "deleted or replaced") {
		t.Errorf("who used the deleted one: %+v; the log says\n%s", a, log.String())
	}
	r.Sequence, r.Epoch = 3, a.Epoch
	exchange(t, p, r)
	l, err := q.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := l.Accounts[server]; len(l.Accounts) != 1 || a == nil || a.Granted() != 8 {
		t.Errorf("the accounts are %+v", l.Accounts)
	}
}

// TestDeletedAgain: a proxy that is alone, and makes no exchange otherwise, is notified each time that the file is deleted: it would never find out that
// another one has joined by a new file.
func TestDeletedAgain(t *testing.T) {
	path := newPath(t)
	p := open(t, path, nil)
	changed := p.Changed(t.Context())
	epoch := exchange(t, p, report("a", 1, "")).Epoch
	for n := range uint64(3) {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(path + suffix); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Fatalf("it was not notified of deletion %d", n+1)
		}
		r := report("a", n+2, epoch)
		epoch = exchange(t, p, r).Epoch
	}
}

// TestAloneWritesNothing: a proxy that is alone leaves the file as it is, until another one joins.
func TestAloneWritesNothing(t *testing.T) {
	path := newPath(t)
	p := open(t, path, nil)
	r := report("a", 1, "")
	a := exchange(t, p, r)
	size := func() [2]int64 {
		file, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		wal, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return [2]int64{file.ModTime().UnixNano() + file.Size(), wal.ModTime().UnixNano() + wal.Size()}
	}
	before := size()
	heartbeat := func(sequence uint64) *fleet.Answer {
		return exchange(t, p, &fleet.Report{ID: "a", Sequence: sequence, Epoch: a.Epoch, Version: a.Version, About: r.About})
	}
	for n := range uint64(20) {
		if a := heartbeat(n + 2); a.Stale || a.Again {
			t.Errorf("heartbeat %d: %+v", n, a)
		}
	}
	if after := size(); after != before {
		t.Errorf("20 heartbeats have written: %v became %v", before, after)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed := p.Changed(ctx)
	q := open(t, path, nil)
	exchange(t, q, report("b", 1, ""))
	select {
	case <-changed:
	case <-time.After(20 * time.Second):
		t.Error("it was not told that another one has joined")
	}
	if a := heartbeat(30); len(a.Members) != 2 {
		t.Errorf("the members are %+v", a.Members)
	}
	before = size()
	heartbeat(31)
	if size() == before {
		t.Error("a proxy that is not alone leaves no trace of its heartbeats")
	}
}

// TestSecondLine: the file itself refuses more places than a server has, beyond what proxies hold already.
func TestSecondLine(t *testing.T) {
	path := newPath(t)
	p := open(t, path, nil)
	exchange(t, p, report("a", 1, ""))
	for _, c := range []struct {
		statement string
		refused   bool
	}{
		{`UPDATE accounts SET grants = '[["a",8,8,8],["b",1,8,0]]'`, true},
		{`UPDATE accounts SET grants = '[["a",9,8,8]]'`, true},
		{`INSERT INTO accounts VALUES ('x', 1, 8, '[["a",5,8,0],["b",4,8,0]]')`, true},
		{`UPDATE accounts SET cap = 4`, false},                                          // lowered below what is granted
		{`UPDATE accounts SET grants = '[["a",8,4,8],["b",3,4,3]]'`, false},             // one that was forgotten comes back
		{`UPDATE accounts SET grants = '[["a",8,4,8],["b",4,4,3]]'`, true},              // and gets more than it holds
		{`UPDATE accounts SET grants = '[["a",4,4,4],["b",0,4,0]]'`, false},             // sessions end
		{`INSERT INTO accounts VALUES ('x', 1, 8, '[["a",4,8,0],["b",4,8,0]]')`, false}, // the cap exactly
	} {
		_, err := p.handle.conn.ExecContext(t.Context(), c.statement)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "more places than the server has") {
			t.Errorf("%s: %v", c.statement, err)
		}
	}
}

func TestRefusedFiles(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "fleet.db")
	s := open(t, path, nil)
	exchange(t, s, report("a", 1, ""))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	if _, err := s.handle.conn.ExecContext(t.Context(), "PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	try := func(path, want string, is error) {
		t.Helper()
		s := open(t, path, nil)
		_, err := s.Exchange(t.Context(), report("a", 1, ""))
		if err == nil || !strings.Contains(err.Error(), want) || is != nil && !errors.Is(err, is) {
			t.Errorf("%s: %v; want: %s", path, err, want)
		}
	}
	try(path, "schema version 99, and this program supports versions up to 1: use a newer wsbouncer", nil)
	try(filepath.Join(directory, "missing", "fleet.db"), "no such file", nil)
	try(filepath.Join(path, "fleet.db"), "is not a directory", nil)

	other := filepath.Join(directory, "other.db")
	o := open(t, other, nil)
	exchange(t, o, report("a", 1, ""))
	if _, err := o.handle.conn.ExecContext(t.Context(), "PRAGMA user_version = 0"); err != nil {
		t.Fatal(err)
	}
	try(other, "belongs to another program", nil)

	if os.Geteuid() != 0 {
		closed := filepath.Join(directory, "closed")
		if err := os.Mkdir(closed, 0o500); err != nil {
			t.Fatal(err)
		}
		try(filepath.Join(closed, "fleet.db"), "permission denied", fleet.ErrNoRights)
	}
}

// TestFullDisk: a file that cannot grow is no reason to wait for other processes.
func TestFullDisk(t *testing.T) {
	s := open(t, newPath(t), nil)
	exchange(t, s, report("a", 1, ""))
	if _, err := s.handle.conn.ExecContext(t.Context(), "PRAGMA max_page_count = 1"); err != nil { // as many as there are
		t.Fatal(err)
	}
	r := report("a", 2, "")
	for i := range 200 {
		r.Claims[fmt.Sprintf("ws://gpu-%d:2700", i)] = fleet.Claim{Cap: 8}
	}
	if _, err := s.Exchange(t.Context(), r); !errors.Is(err, fleet.ErrDisk) || errors.Is(err, fleet.ErrUnreachable) {
		t.Errorf("on a full disk: %v", err)
	}
	if _, err := s.handle.conn.ExecContext(t.Context(), "PRAGMA max_page_count = 100000"); err != nil {
		t.Fatal(err)
	}
	r.Sequence++
	exchange(t, s, r)
}

// TestLocked: a process that keeps the file locked makes exchanges fail, and not hang.
func TestLocked(t *testing.T) {
	path := newPath(t)
	p, q := open(t, path, nil), open(t, path, nil)
	exchange(t, p, report("a", 1, ""))
	exchange(t, q, report("b", 1, ""))
	err := q.handle.transact(t.Context(), func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := p.Exchange(ctx, report("a", 2, "")); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("an exchange with a time limit: %w", err)
		}
		p.timeout = 60 * time.Millisecond
		if _, err := p.Exchange(t.Context(), report("a", 2, "")); !errors.Is(err, fleet.ErrUnreachable) {
			return fmt.Errorf("an exchange: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	p.timeout = callTimeout
	exchange(t, p, report("a", 3, ""))
}

// TestFreeAtTheDeadline: an exchange whose time ends while another process lets the file go leaves it free. SQLite waits for up to 50 ms at a time, and the
// driver says then that the time has ended, also if the transaction has begun.
func TestFreeAtTheDeadline(t *testing.T) {
	path := newPath(t)
	p, q := open(t, path, nil), open(t, path, nil)
	exchange(t, p, report("a", 1, ""))
	exchange(t, q, report("b", 1, ""))
	for i := range uint64(12) {
		if _, err := q.handle.conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		released := make(chan struct{})
		time.AfterFunc(42*time.Millisecond, func() {
			defer close(released)
			q.handle.rollBack(t.Context())
		})
		ctx, cancel := context.WithTimeout(t.Context(), 36*time.Millisecond)
		_, _ = p.Exchange(ctx, report("a", 2+i, ""))
		cancel()
		<-released
		q.timeout = 10 * time.Second
		if _, err := q.Exchange(t.Context(), report("b", 2+i, "")); err != nil {
			t.Fatalf("the file is still locked: %v", err)
		}
	}
}

// TestReplaced: a file that is replaced in use by an earlier copy of it, as from a backup, makes a new epoch begin.
func TestReplaced(t *testing.T) {
	path := newPath(t)
	var log bytes.Buffer
	p := open(t, path, &log)
	first := exchange(t, p, report("a", 1, ""))
	if _, err := p.handle.conn.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, path+".away"+suffix); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, saved, 0o640); err != nil {
		t.Fatal(err)
	}
	r := report("a", 2, first.Epoch)
	r.Version = first.Version
	if a := exchange(t, p, r); !a.Again || a.Epoch == first.Epoch || !strings.Contains(log.String(), "deleted or replaced") {
		t.Errorf("%+v; the log says\n%s", a, log.String())
	}
}
