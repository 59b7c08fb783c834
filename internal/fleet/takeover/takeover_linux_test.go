package takeover

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is how long a step of a test may take on a machine that is busy.
const limit = 20 * time.Second

// pair returns the two ends of a connection.
func pair(t *testing.T) (ours, theirs *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "")
		nc, err := net.FileConn(file)
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		ends[i] = nc.(*net.UnixConn)
		t.Cleanup(func() { _ = nc.Close() })
	}
	return ends[0], ends[1]
}

// offer returns what a running process offers: one listener of each network.
func offer(t *testing.T) *Offer {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = tcp.Close(), socket.Close() })
	return &Offer{
		Self:    Process{PID: os.Getpid(), Version: "v1", Instance: "here"},
		Sockets: []Socket{{Kind: Plain, Name: ":0", Listener: tcp}, {Kind: AdminSocket, Name: "a.sock", Listener: socket, Foreign: true}},
		Step:    func(string) {},
		Prepare: func(string) error { return nil },
	}
}

// handed is what Hand returned.
type handed struct {
	successor *Successor
	err       error
}

// begin hands over in a goroutine.
func begin(ctx context.Context, nc *net.UnixConn, o *Offer) <-chan handed {
	done := make(chan handed, 1)
	go func() {
		s, err := Hand(ctx, nc, o)
		done <- handed{s, err}
	}()
	return done
}

// wait returns what Hand returned, and fails if it does not return.
func wait(t *testing.T, done <-chan handed) handed {
	t.Helper()
	select {
	case h := <-done:
		return h
	case <-time.After(limit):
		t.Fatal("the running process still waits")
		panic("not reached")
	}
}

var successor = Process{PID: os.Getpid(), Version: "v2", Instance: "here"}

func TestTakeOver(t *testing.T) {
	ours, theirs := pair(t)
	o := offer(t)
	var steps []string
	o.Step = func(text string) { steps = append(steps, text) }
	var lacks string
	o.Prepare = func(text string) error { lacks = text; return nil }
	done := begin(t.Context(), ours, o)
	s, err := Ask(t.Context(), theirs, successor)
	if err != nil {
		t.Fatal(err)
	}
	if s.From.Version != "v1" || len(s.Sockets) != 2 || s.Sockets[0].Name != ":0" || s.Sockets[1].Kind != AdminSocket || !s.Sockets[1].Foreign || s.Sockets[0].Foreign {
		t.Errorf("got %+v", s)
	}
	s.Step("warming")
	if err := s.Ready(t.Context(), "no places"); err != nil || s.Orphaned {
		t.Fatal(err, s.Orphaned)
	}
	before, err := s.Serving([]int{0, 7, -1})
	if err != nil {
		t.Fatal(err)
	}
	h := wait(t, done)
	// They continue to talk over the same connection, also when the one of the take-over is closed.
	_ = ours.Close()
	for _, way := range []struct{ from, to net.Conn }{{before, h.successor.Conn}, {h.successor.Conn, before}} {
		got := make([]byte, 2)
		if _, err := way.from.Write([]byte("hi")); err != nil {
			t.Error(err)
		} else if _, err := io.ReadFull(way.to, got); err != nil || string(got) != "hi" {
			t.Errorf("%q, %v", got, err)
		}
	}
	_ = h.successor.Conn.Close()
	if _, err := before.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the end of the process before is not noticed: %v", err)
	}
	_ = before.Close()
	if h.err != nil || h.successor.Version != "v2" || !h.successor.Kept[0] || h.successor.Kept[1] {
		t.Errorf("got %+v, %v", h.successor, h.err)
	}
	if len(steps) != 2 || steps[1] != "warming" || lacks != "no places" {
		t.Errorf("steps: %q, what the successor lacks: %q", steps, lacks)
	}
	// The sockets are the same: a connection made now waits in a queue that both have.
	_ = o.Sockets[0].Listener.Close()
	nc, err := net.Dial("tcp", s.Sockets[0].Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	accepted, err := s.Sockets[0].Listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = accepted.Close()
	for _, socket := range s.Sockets {
		_ = socket.Listener.Close()
	}
}

// What goes wrong before "serving" leaves the running process as it was, and both sides know why.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(o *Offer, p *Process)
		successor func(t *testing.T, s *Succession)
		asking    string // why the successor does not even get the sockets
		says      string // why the running process continues
	}{
		"another state directory": {
			change: func(_ *Offer, p *Process) { p.Instance = "there" },
			asking: "another state directory", says: "another state directory",
		},
		"the successor fails": {
			successor: func(_ *testing.T, s *Succession) { s.Fail(errors.New("no backend")) }, says: "no backend",
		},
		"the successor dies": {
			successor: func(_ *testing.T, s *Succession) { s.close() }, says: "has ended",
		},
		"the successor dies when it may accept": {
			successor: func(t *testing.T, s *Succession) {
				if err := s.Ready(t.Context(), ""); err != nil {
					t.Error(err)
				}
				s.close()
			}, says: "has ended",
		},
		"the running process cannot prepare": {
			change: func(o *Offer, _ *Process) { o.Prepare = func(string) error { return errors.New("no port is free") } },
			successor: func(t *testing.T, s *Succession) {
				if err := s.Ready(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "no port is free") {
					t.Errorf("the successor heard %v", err)
				}
			}, says: "no port is free",
		},
		"out of turn": {
			successor: func(_ *testing.T, s *Succession) { _, _ = s.Serving(nil) }, says: `sent "serving" where "ready" was due`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			o, p := offer(t), successor
			if c.change != nil {
				c.change(o, &p)
			}
			done := begin(t.Context(), ours, o)
			s, err := Ask(t.Context(), theirs, p)
			if c.asking != "" {
				if err == nil || !strings.Contains(err.Error(), c.asking) {
					t.Errorf("asking: %v; want %q", err, c.asking)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if s != nil {
				c.successor(t, s)
				s.Fail(errors.New("over"))
			}
			if h := wait(t, done); h.err == nil || !strings.Contains(h.err.Error(), c.says) {
				t.Errorf("the running process: %v; want %q", h.err, c.says)
			}
			nc, err := net.Dial("tcp", o.Sockets[0].Listener.Addr().String())
			if err != nil {
				t.Fatalf("its socket: %v", err)
			}
			_ = nc.Close()
		})
	}
}

// A successor that says nothing is given up, and hears that.
func TestSilent(t *testing.T) {
	ours, theirs := pair(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := begin(ctx, ours, offer(t))
	s, err := Ask(t.Context(), theirs, successor)
	cancel(context.DeadlineExceeded)
	if err != nil {
		t.Fatal(err)
	}
	if h := wait(t, done); h.err == nil || h.err.Error() != "the new process was not ready in time" {
		t.Errorf("the running process: %v", h.err)
	}
	if err := s.Ready(t.Context(), ""); err == nil || err.Error() != "the new process was not ready in time" {
		t.Errorf("the successor: %v", err)
	}
	s.Fail(errors.New("over"))
}

// A successor that has said that it serves does so, even if the running process hears of it too late: it may have been stopped meanwhile.
func TestServesTooLate(t *testing.T) {
	for range 20 { // without the rule, the running process may still be in time
		ours, theirs := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := begin(ctx, ours, offer(t))
		s, err := Ask(t.Context(), theirs, successor)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := s.Serving([]int{0}); err != nil {
			t.Fatal(err)
		}
		if h := wait(t, done); h.err != nil || !h.successor.Kept[0] {
			t.Fatalf("the running process: %+v, %v", h.successor, h.err)
		}
		for _, socket := range s.Sockets {
			_ = socket.Listener.Close()
		}
	}
}

// A take-over that has to end while the running process prepares does.
func TestEndsInPreparation(t *testing.T) {
	ours, theirs := pair(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	o := offer(t)
	o.Prepare = func(string) error {
		cancel(errors.New("the proxy shuts down"))
		return nil
	}
	done := begin(ctx, ours, o)
	s, err := Ask(t.Context(), theirs, successor)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context(), ""); err == nil || err.Error() != "the proxy shuts down" {
		t.Errorf("the successor: %v", err)
	}
	s.Fail(errors.New("over"))
	if h := wait(t, done); h.err == nil || h.err.Error() != "the proxy shuts down" {
		t.Errorf("the running process: %v", h.err)
	}
}

// Versions of the protocol that have nothing in common say so.
func TestVersions(t *testing.T) {
	ours, theirs := pair(t)
	done := begin(t.Context(), ours, offer(t))
	c := &conn{theirs}
	if err := c.send(&message{Type: hello, Protocol: 9, Oldest: 7, Version: "v9", Instance: "here"}, nil); err != nil {
		t.Fatal(err)
	}
	const says = "version v9 needs version 7 of the take-over protocol"
	if _, err := c.expect(welcome, nil); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the successor: %v", err)
	}
	if h := wait(t, done); h.err == nil || !strings.Contains(h.err.Error(), says) {
		t.Errorf("the running process: %v", h.err)
	}
}

// Another program that connects is told nothing, and does no harm.
func TestOtherPrograms(t *testing.T) {
	for _, says := range []string{"GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x02{}", "\x00\x00\x00\x01x", "\x00\x00", ""} {
		ours, theirs := pair(t)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		done := begin(ctx, ours, offer(t))
		_, _ = theirs.Write([]byte(says))
		_ = theirs.CloseWrite()
		if h := wait(t, done); h.err == nil {
			t.Errorf("%q has taken over", says)
		}
		cancel()
	}
}

// A successor without a free descriptor says so, and the running process continues.
func TestDescriptors(t *testing.T) {
	ours, theirs := pair(t)
	o := offer(t)
	done := begin(t.Context(), ours, o)
	// A null file has the lowest free number: with that as the limit, nothing can be opened.
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = uint64(null.Fd())
	_ = null.Close()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	_, err = Ask(t.Context(), theirs, successor)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(err.Error(), "no file descriptor free") {
		t.Errorf("the successor: %v", err)
	}
	if h := wait(t, done); h.err == nil || !strings.Contains(h.err.Error(), "no file descriptor free") {
		t.Errorf("the running process: %v", h.err)
	}
}

func TestProgram(t *testing.T) {
	p := Program{
		Path: "bin/w", Directory: "/srv", Arguments: []string{"--listen", ":1", "--take-over=fd:3", "--take-over", "--take-over-x"},
		Environment: []string{"A=1", "LISTEN_FDS=2", "LISTEN_PID=3", "WATCHDOG_PID=4", "WATCHDOG_USEC=5", "NOTIFY_SOCKET=/n"},
	}
	if got := strings.Join(p.arguments(), " "); got != "--listen :1 --take-over-x" {
		t.Errorf("arguments: %s", got)
	}
	if got := strings.Join(p.environment(), " "); got != "A=1 WATCHDOG_USEC=5 NOTIFY_SOCKET=/n" {
		t.Errorf("environment: %s", got)
	}
	if _, _, err := p.Find(""); err == nil || !strings.Contains(err.Error(), "/srv/bin/w") {
		t.Errorf("a program that is not there: %v", err)
	}
	if path, _, err := p.Find("sh"); err != nil || !filepath.IsAbs(path) {
		t.Errorf("a program in PATH: %s, %v", path, err)
	}
}

// A check that hangs is ended, and said in words.
func TestCheckHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hangs")
	writeProgram(t, path, "#!/bin/sh\nexec sleep 60\n")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := new(Program).Check(ctx, path, func(text string) { t.Errorf("said %s", text) })
	if err == nil || err.Error() != path+" check: it has not ended in time" {
		t.Errorf("a check that hangs: %v", err)
	}
}

// Of a program that writes without end, as one that was named by mistake may, only the end is kept.
func TestCheckIsLoud(t *testing.T) {
	path := filepath.Join(t.TempDir(), "loud")
	writeProgram(t, path, "#!/bin/sh\nyes | head -c 32000000\necho wrong >&2\nexit 2\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := new(Program).Check(t.Context(), path, func(text string) { t.Errorf("said %s", text) })
	runtime.ReadMemStats(&after)
	if err == nil || !strings.HasSuffix(err.Error(), "; y; y; wrong") || len(err.Error()) > 3000 {
		t.Errorf("%.3000v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("the check took %d bytes of memory", took)
	}
}

func TestEnding(t *testing.T) {
	var e ending
	var all []byte
	for i, n := range []int{10, 0, mostOutput - 20, 30, 1, mostOutput + 5, 3, mostOutput, 100, 3*mostOutput + 1} {
		b := bytes.Repeat([]byte{byte('a' + i)}, n)
		all = append(all, b...)
		if written, err := e.Write(b); written != n || err != nil {
			t.Errorf("write %d of %d bytes: %d, %v", i, n, written, err)
		}
		if want := all[max(0, len(all)-mostOutput):]; !bytes.Equal(e, want) || cap(e) > 4*mostOutput {
			t.Errorf("after write %d: %d bytes, room for %d; want %d bytes", i, len(e), cap(e), len(want))
		}
	}
}

// A successor that has not taken over may end by itself, and is killed only if it does not.
func TestEnd(t *testing.T) {
	for _, c := range []struct {
		name, script string
		left         bool // by itself
		least, most  time.Duration
	}{
		{"ends", "read line <&3; echo left >left; exit 1", true, 0, lastWords},
		{"hangs", "exec sleep 60", false, lastWords, 10 * lastWords},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			path := filepath.Join(directory, "successor")
			writeProgram(t, path, "#!/bin/sh\n"+c.script+"\n")
			p := Program{Directory: directory}
			child, err := p.Start(path, path)
			if err != nil {
				t.Fatal(err)
			}
			defer child.Close()
			_, _ = child.Conn.Write([]byte("no\n"))
			begun := time.Now()
			child.End()
			took := time.Since(begun)
			if !child.endsWithin(10 * time.Second) {
				t.Error("it runs")
			}
			if took < c.least || took > c.most {
				t.Errorf("it took %v, want %v to %v", took, c.least, c.most)
			}
			if _, err := os.Stat(filepath.Join(directory, "left")); (err == nil) != c.left {
				t.Errorf("it ended by itself: %v, want %v", err == nil, c.left)
			}
		})
	}
}

func TestConnection(t *testing.T) {
	if _, ok, err := Connection("admin-socket"); ok || err != nil {
		t.Error(ok, err)
	}
	if _, _, err := Connection("fd:0"); err == nil || !strings.Contains(err.Error(), "only a running proxy gives") {
		t.Error(err)
	}
}

// writeProgram writes a script that can be run. No process may be started meanwhile: it would inherit the open file until it runs its own
// program, and a file that is open for writing cannot be run (ETXTBSY).
func writeProgram(t *testing.T, path, script string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
}

// A process has ended also before its parent knows it, and one that lives has not.
func TestHasEnded(t *testing.T) {
	child := exec.Command("cat")
	if _, err := child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if hasEnded(child.Process.Pid) {
		t.Error("a process that waits has ended")
	}
	_ = child.Process.Kill()
	ended := false
	for range limit / time.Second { // which each may take, on a machine that stands still
		ended = ended || hasEnded(child.Process.Pid)
	}
	if !ended {
		t.Error("one that was killed, which nobody has waited for, has not")
	}
	_ = child.Wait()
	if !hasEnded(child.Process.Pid) {
		t.Error("one that is gone has not")
	}
}
