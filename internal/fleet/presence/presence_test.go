package presence

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/ground/machine"
	"github.com/wsbouncer/wsbouncer/internal/testkit/freeport"
)

const (
	idA fleet.ID = "a000000000000001"
	idB fleet.ID = "b000000000000001"
)

func open(t *testing.T, directory string, id fleet.ID) *Presence {
	t.Helper()
	p := Open(Options{ID: id, Directory: directory, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	p.pause = 0
	t.Cleanup(func() { p.Close(true) })
	return p
}

func member(p *Presence) fleet.Member {
	return fleet.Member{ID: p.o.ID, Host: p.host, Instance: p.Instance()}
}

// die ends a process's part as if it were killed.
func (p *Presence) die() {
	_ = p.own.Unlock()
	p.own = nil
}

// inEach runs a test in state directories whose names are plain, and mean something else as a pattern.
func inEach(t *testing.T, test func(t *testing.T, state string)) {
	for _, name := range []string{"state", "a[b]"} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), name)
			if err := os.Mkdir(state, 0o750); err != nil {
				t.Fatal(err)
			}
			test(t, state)
		})
	}
}

// TestPresenceAlone finds other processes with the same state directory as long as they live.
func TestPresenceAlone(t *testing.T) { inEach(t, testPresenceAlone) }

func testPresenceAlone(t *testing.T, state string) {
	a := open(t, state, idA)
	if !a.Alone() {
		t.Error("a is not alone")
	}
	b := open(t, state, idB)
	if a.Alone() || b.Alone() {
		t.Errorf("a is alone: %t, b is alone: %t", a.Alone(), b.Alone())
	}
	a.die() // its file is left
	if !b.Alone() {
		t.Error("b is not alone after a has ended")
	}
	if open(t, "", idA).Alone() {
		t.Error("without a state directory it is alone")
	}
}

// TestLock proves the end of a process by its lock, and nothing before.
func TestLock(t *testing.T) {
	state := t.TempDir()
	a, b := open(t, state, idA), open(t, state, idB)
	if a.Instance() == "" || a.Instance() != b.Instance() {
		t.Fatalf("instances are %q and %q", a.Instance(), b.Instance())
	}
	m := member(a)
	if how, dead := b.Dead(t.Context(), m, true); dead {
		t.Errorf("a living process is dead: %s", how)
	}
	b.Tidy(nil)
	if _, err := os.Stat(a.lockFile(idA)); err != nil {
		t.Errorf("the lock of a living process was removed: %v", err)
	}
	a.die()
	if how, dead := b.Dead(t.Context(), m, false); !dead || !strings.Contains(how, "lock") {
		t.Errorf("dead is %t (%s)", dead, how)
	}
	b.Tidy([]fleet.Member{m}) // it is in the ledger still
	if _, dead := b.Dead(t.Context(), m, false); !dead {
		t.Error("no longer dead")
	}
	b.Tidy(nil)
	if _, dead := b.Dead(t.Context(), m, false); dead {
		t.Error("a file that is missing proves that a process is dead")
	}
	b.Close(true)
	if files, _ := filepath.Glob(filepath.Join(state, "fleet", "?0*")); len(files) != 0 {
		t.Errorf("left: %q", files)
	}
	if again := open(t, state, idA); again.Instance() != m.Instance {
		t.Error("the state directory is another after a restart")
	}
}

// TestTidyOfAnotherLedger: two SQLite databases in one directory are two fleets with one folder of locks. A process leaves the locks of those that it does
// not know: only they prove the end of a process of the other fleet that was killed. What nothing needs is removed after a day.
func TestTidyOfAnotherLedger(t *testing.T) {
	state := t.TempDir() // as of --database STATE/a.db and --database STATE/b.db
	a, b := open(t, state, idA), open(t, state, idB)
	a.otherLedgers = true
	killed := member(b) // is in the ledger of b.db
	b.die()
	a.Tidy([]fleet.Member{member(a)}) // all that the ledger of a.db has
	next := open(t, state, "b000000000000002")
	if _, dead := next.Dead(t.Context(), killed, true); !dead {
		t.Error("the successor of the killed process cannot prove its end")
	}
	a.freeSince[idB] = time.Now().Add(-strangersAfter)
	if a.Tidy(nil); fileExists(a.lockFile(idB)) {
		t.Error("its lock is never removed")
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestEndedWithoutLedger: a process ends in order, but does not reach the ledger to leave it. The next one with the same state directory must be able to
// prove that it has ended, since no other may.
func TestEndedWithoutLedger(t *testing.T) {
	state := t.TempDir()
	a := open(t, state, idA)
	m := member(a)
	a.Close(false)
	b := open(t, state, idB)
	if _, dead := b.Dead(t.Context(), m, false); !dead {
		t.Error("nothing proves its end")
	}
	if !b.Alone() {
		t.Error("it counts as a process that runs")
	}
}

// TestCopiedDirectory gives a copy of a state directory another identity: its locks prove nothing about the original's processes.
func TestCopiedDirectory(t *testing.T) {
	state, copied := t.TempDir(), t.TempDir()
	a := open(t, state, idA)
	if err := os.CopyFS(copied, os.DirFS(state)); err != nil {
		t.Fatal(err)
	}
	b := open(t, copied, idB)
	if b.Instance() == a.Instance() {
		t.Error("a copy has the identity of the original")
	}
	if how, dead := b.Dead(t.Context(), member(a), true); dead {
		t.Errorf("a living process is dead: %s", how)
	}
}

// TestRecord tells which records are of one folder.
func TestRecord(t *testing.T) {
	was := record{Instance: "i", Folder: "7", Boot: "b1", Machine: "m"}
	for _, c := range []struct {
		now  record
		want bool
	}{
		{record{Folder: "7", Boot: "b1", Machine: "m"}, true},
		{record{Folder: "7", Boot: "b1"}, true},               // the network changed
		{record{Folder: "7", Boot: "b2", Machine: "m"}, true}, // restarted
		{record{Folder: "7", Boot: "b2", Machine: "n"}, false},
		{record{Folder: "7", Boot: "b2"}, false}, // a container elsewhere
		{record{Folder: "8", Boot: "b1", Machine: "m"}, false},
	} {
		if got := was.isSame(&c.now); got != c.want {
			t.Errorf("%+v: %t", c.now, got)
		}
	}
	if (&record{Folder: "7"}).isSame(&record{Folder: "7"}) {
		t.Error("nothing is known, and it is the same")
	}
}

// needsKernel skips a test where nothing says which processes have the same kernel.
func needsKernel(t *testing.T) {
	t.Helper()
	if machine.Boot() == "" {
		t.Skip("nothing says which processes have this kernel")
	}
}

// admin plays the admin API of a process.
func admin(t *testing.T, id *fleet.ID) *httptest.Server {
	t.Helper()
	address, err := freeport.Address() // no other socket takes it once it is closed
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(Header, string(*id)) }))
	_ = s.Listener.Close()
	if s.Listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// TestRefusal proves the end of a process of this host by its address, if it was reached there before.
func TestRefusal(t *testing.T) {
	needsKernel(t)
	b := open(t, t.TempDir(), idB)
	id := idA
	server := admin(t, &id)
	m := fleet.Member{ID: idA, Host: b.host, Instance: "other", Address: server.URL}
	unmet := m
	unmet.ID = "c000000000000001"
	b.Meet(t.Context(), m)
	b.Meet(t.Context(), unmet) // another process answers there
	if how, dead := b.Dead(t.Context(), m, true); dead {
		t.Errorf("dead although it answers: %s", how)
	}
	server.Close()
	if how, dead := b.Dead(t.Context(), m, true); !dead || !strings.Contains(how, "refuses connections") {
		t.Errorf("dead is %t (%s)", dead, how)
	}
	elsewhere, moved, local := m, m, m
	elsewhere.Host = "another host"                                         // whose loopback this is not
	moved.Address = strings.Replace(m.Address, "127.0.0.1", "127.0.0.2", 1) // no proxy was met there
	local.Instance = b.Instance()                                           // only the lock proves something
	for name, m := range map[string]fleet.Member{"never met": unmet, "elsewhere": elsewhere, "moved": moved, "with the same state directory": local} {
		if how, dead := b.Dead(t.Context(), m, true); dead {
			t.Errorf("%s: dead: %s", name, how)
		}
	}
	if _, dead := b.Dead(t.Context(), m, false); dead {
		t.Error("the network was asked about a proxy that is seen")
	}
}

// TestRefusalElsewhere keeps the places of a proxy on another host whose address refuses connections: it may be cut off from the database behind a
// firewall that rejects, with its sessions running. Only an operator can say that no firewall does so.
func TestRefusalElsewhere(t *testing.T) {
	for _, anywhere := range []bool{false, true} {
		b := open(t, t.TempDir(), idB)
		b.o.AnyRefusal = anywhere
		id := idA
		server := admin(t, &id)
		// All of 0.0.0.0 leads to this host, but is not on loopback, which another host's proxy could not be reached at.
		m := fleet.Member{ID: idA, Host: "another host", Instance: "other", Address: strings.Replace(server.URL, "127.0.0.1", "0.0.0.0", 1)}
		b.Meet(t.Context(), m)
		server.Close() // to others, the same as a firewall that rejects
		if how, dead := b.Dead(t.Context(), m, true); dead != anywhere {
			t.Errorf("an operator trusts refusals: %t; dead: %t (%s)", anywhere, dead, how)
		}
	}
}

// TestFirewallOfThisHost asks the kernel who listens, since its own firewall may reject connections, too.
func TestFirewallOfThisHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel does not say so here")
	}
	address, err := freeport.Address() // no other socket takes it once it is closed
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if silent("127.0.0.1", port) {
		t.Error("silent although a process listens, and a firewall may be why it refuses")
	}
	_ = listener.Close()
	if !silent("127.0.0.1", port) {
		t.Error("not silent although no socket listens")
	}
	if silent("192.0.2.1", port) {
		t.Error("an address of another host is silent")
	}
}

// TestSilence takes no proxy for dead whose address does not answer.
func TestSilence(t *testing.T) {
	b := open(t, t.TempDir(), idB)
	id := idA
	server := admin(t, &id)
	m := fleet.Member{ID: idA, Host: b.host, Address: server.URL}
	b.Meet(t.Context(), m)
	address := strings.TrimPrefix(server.URL, "http://")
	server.Close()
	listener, err := net.Listen("tcp", address) // a process that was stopped: the system accepts, no process answers
	if err != nil {
		t.Skip(err)
	}
	defer listener.Close()
	if how, dead := b.Dead(t.Context(), m, true); dead {
		t.Errorf("dead: %s", how)
	}
}

// TestSuccessor proves the end of the process that had this one's address.
func TestSuccessor(t *testing.T) {
	needsKernel(t)
	b := open(t, t.TempDir(), idB)
	b.o.Own = func() string { return "http://10.0.0.5:9090" }
	m := fleet.Member{ID: idA, Host: b.host, Instance: "other", Address: "http://10.0.0.5:9090"}
	if how, dead := b.Dead(t.Context(), m, true); !dead || !strings.Contains(how, "listens at its address") {
		t.Errorf("dead is %t (%s)", dead, how)
	}
	if how, dead := b.Dead(t.Context(), m, false); dead {
		t.Errorf("a proxy that is seen, and names an address that is not its own, is dead: %s", how)
	}
	elsewhere, named, other := m, m, m
	elsewhere.Host = "another host"
	other.Address = "http://10.0.0.5:9091"
	named.Address = "http://proxy:9090"
	for name, m := range map[string]fleet.Member{"elsewhere": elsewhere, "by name": named, "at another port": other} {
		b.o.Own = func() string { return m.Address }
		if name == "at another port" {
			b.o.Own = func() string { return "http://10.0.0.5:9090" }
		}
		if how, dead := b.Dead(t.Context(), m, true); dead {
			t.Errorf("%s: dead: %s", name, how)
		}
	}
}

// TestNoDirectory says so if the state directory cannot be used.
func TestNoDirectory(t *testing.T) {
	var log bytes.Buffer
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := Open(Options{ID: idA, Directory: file, Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer p.Close(true)
	if p.Instance() != "" || !strings.Contains(log.String(), "cannot prove that this one has ended") {
		t.Errorf("%q, %s", p.Instance(), &log)
	}
	p.Tidy(nil)
}

// TestTakenOver meets a process soon after it has taken over the address of the one that answered there before, so that its end can be proven.
func TestTakenOver(t *testing.T) {
	needsKernel(t)
	b := open(t, t.TempDir(), idB)
	id := idA
	server := admin(t, &id)
	next := fleet.Member{ID: "c000000000000001", Host: b.host, Instance: "other", Address: server.URL}
	b.Meet(t.Context(), next)
	id = next.ID
	known := b.met[next.ID]
	known.tried = known.tried.Add(-soon) // so much time passes
	b.met[next.ID] = known
	b.Meet(t.Context(), next)
	server.Close()
	if how, dead := b.Dead(t.Context(), next, true); !dead {
		t.Errorf("dead is %t (%s)", dead, how)
	}
}

// TestRestoredLock proves nothing by a lock's file that was removed and restored from a backup, although no process locks that one.
func TestRestoredLock(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a copy cannot be told from the file here")
	}
	state := t.TempDir()
	a, b := open(t, state, idA), open(t, state, idB)
	path := a.lockFile(idA)
	saved, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"as it was": saved, "empty": nil} {
		if err := errors.Join(os.Remove(path), os.WriteFile(path, content, 0o640)); err != nil {
			t.Fatal(err)
		}
		if how, dead := b.Dead(t.Context(), member(a), true); dead {
			t.Errorf("restored %s: a living process is dead: %s", name, how)
		}
	}
}

// TestHeld proves no end of a process whose places another one uses, until that lets go or has ended itself.
func TestHeld(t *testing.T) { inEach(t, testHeld) }

func testHeld(t *testing.T, state string) {
	a, b, c := open(t, state, idA), open(t, state, idB), open(t, state, "c000000000000001")
	release, err := b.Hold(idA)
	if err != nil {
		t.Fatal(err)
	}
	m := member(a)
	a.die()
	for _, p := range []*Presence{b, c} {
		if _, dead := p.Dead(t.Context(), m, true); dead {
			t.Error("it is dead, and its places are in use")
		}
	}
	b.Tidy([]fleet.Member{m})
	if files, err := b.holds(idA); len(files) != 1 || err != nil {
		t.Errorf("held by %q, %v", files, err)
	}
	release()
	if _, dead := c.Dead(t.Context(), m, true); !dead {
		t.Error("it is not dead although no process holds it")
	}
	if err := os.WriteFile(filepath.Join(state, "fleet", string(idA)+".d000000000000001.held"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, dead := c.Dead(t.Context(), m, true); !dead {
		t.Error("a process that was killed holds it")
	}
	c.Tidy([]fleet.Member{m})
	if files, err := c.holds(""); len(files) != 0 || err != nil {
		t.Errorf("left: %q, %v", files, err)
	}
	if _, err := open(t, "", idB).Hold(idA); err == nil {
		t.Error("held without a state directory")
	}
}

// TestUnreadableFolder finds out nothing from a folder that cannot be read: no process is alone or dead there.
func TestUnreadableFolder(t *testing.T) {
	a := open(t, t.TempDir(), idA)
	if !a.Alone() || a.isHeld(idB) {
		t.Error("not alone, or held, in a folder that can be read")
	}
	file := filepath.Join(t.TempDir(), "file") // as with EMFILE or EIO, reading it fails
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.path = file
	if a.Alone() || !a.isHeld(idB) {
		t.Errorf("alone is %t, and held is %t", a.Alone(), a.isHeld(idB))
	}
}

// On a disk that takes no file, one process has the lock of the folder, and so knows whether it is alone, as do those that have a file of their own.
func TestLockOfFolder(t *testing.T) {
	state := t.TempDir()
	const one, two = "0000000000000001", "0000000000000002"
	a, err := openDirectory(state, one)
	if err != nil {
		t.Fatal(err)
	}
	b := &directory{path: a.path}
	if !b.takeFolder() {
		t.Skip("this system has no locks of folders")
	}
	defer b.close(true)
	if c := (&directory{path: a.path}); c.takeFolder() {
		t.Error("two processes have the lock of the folder")
	}
	if a.alone(one) || b.alone(two) {
		t.Errorf("alone: %v, %v", a.alone(one), b.alone(two))
	}
	a.close(true)
	if !b.alone(two) {
		t.Error("the one that is left is not alone")
	}
	c, err := openDirectory(state, one)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close(true)
	b.close(true)
	if !c.alone(one) {
		t.Error("a process is not alone after the one with the folder's lock has ended")
	}
	if _, err := os.Stat(a.path); err != nil {
		t.Errorf("the folder is gone: %v", err)
	}
}

// A lock that a full disk has left without its signature gets it later, so that the end of the process can be proven.
func TestSignedLater(t *testing.T) {
	state := t.TempDir()
	const one = "0000000000000001"
	a, err := openDirectory(state, one)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(a.lockFile(one), 0); err != nil {
		t.Fatal(err)
	}
	a.unsigned = true
	a.tidy(map[fleet.ID]bool{one: true})
	b := &directory{path: a.path}
	if a.unsigned || b.ended(one) {
		t.Errorf("unsigned: %v; ended: %v", a.unsigned, b.ended(one))
	}
	a.close(false)
	if !b.ended(one) {
		t.Error("the end is not proven")
	}
}

// A process that has only the lock of the folder, since the disk took no file when it started, gets its own as soon as the disk takes one. Its end can be
// proven then, and another process can have the folder's lock.
func TestLockOfItsOwnLater(t *testing.T) {
	state := t.TempDir()
	const one, two = "0000000000000001", "0000000000000002"
	a, err := openDirectory(state, two)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close(true)
	b := &directory{path: a.path, id: one}
	if !b.takeFolder() {
		t.Skip("this system has no locks of folders")
	}
	b.tidy(map[fleet.ID]bool{one: true, two: true})
	if b.alone(one) || a.alone(two) || a.ended(one) {
		t.Errorf("alone: %t, %t; ended: %t", b.alone(one), a.alone(two), a.ended(one))
	}
	c := &directory{path: a.path}
	if !c.takeFolder() {
		t.Error("it keeps the lock of the folder")
	}
	c.close(true)
	b.close(false) // as the kernel does when the process is killed
	if !a.ended(one) {
		t.Error("the end is not proven")
	}
}

// The folder's identity survives a disk that takes no new record, and is found out once the disk takes one.
func TestIdentifiedLater(t *testing.T) {
	needsKernel(t)
	state := t.TempDir()
	a := open(t, state, idA)
	path := filepath.Join(state, "fleet", instanceFile)
	record, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	earlier := bytes.Replace(record, []byte(`"boot":"`), []byte(`"boot":"an earlier `), 1)
	next := path + ".new" // nothing can be written there
	if err := errors.Join(os.WriteFile(path, earlier, 0o640), os.MkdirAll(filepath.Join(next, "full"), 0o750)); err != nil {
		t.Fatal(err)
	}
	a.instance.Store(nil)
	a.Tidy(nil)
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, earlier) {
		t.Errorf("the record was %s, and is %s, %v", earlier, after, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	a.instance.Store(nil)
	if a.Tidy(nil); a.Instance() != "" || a.hasLock(new(fleet.Member)) {
		t.Errorf("the disk takes nothing, and the instance is %q", a.Instance())
	}
	if err := os.RemoveAll(next); err != nil {
		t.Fatal(err)
	}
	a.Tidy(nil)
	if b := open(t, state, idB); a.Instance() == "" || a.Instance() != b.Instance() {
		t.Errorf("the instances are %q and %q", a.Instance(), b.Instance())
	}
}
