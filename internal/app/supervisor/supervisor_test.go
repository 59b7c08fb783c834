package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// process is a process that does what the test says.
type process struct {
	status func() string
	answer func(context.Context) error
}

func (p *process) Status() string { return p.status() }

func (p *process) Responds(ctx context.Context) error {
	if p.answer == nil {
		return nil
	}
	return p.answer(ctx)
}

// quiet is a process that always says the same.
func quiet() *process { return &process{status: func() string { return "Serving" }} }

// heard are the messages that a test's service manager gets, each with the time since the beginning.
type heard struct {
	begun time.Time

	mu       sync.Mutex
	messages []string // guarded by mu
}

func (h *heard) send(message string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages = append(h.messages, fmt.Sprint(time.Since(h.begun), " ", strings.ReplaceAll(message, "\n", " ")))
	return nil
}

// take returns the messages so far that contain the text, and forgets all.
func (h *heard) take(text string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := slices.DeleteFunc(slices.Clone(h.messages), func(m string) bool { return !strings.Contains(m, text) })
	h.messages = nil
	return taken
}

// want compares what was heard.
func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("heard\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// listen opens the socket of a service manager.
func listen(t *testing.T, address string) *net.UnixConn {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	t.Setenv("NOTIFY_SOCKET", address)
	t.Setenv("WATCHDOG_USEC", "")
	return socket
}

// TestMessages has a process start, reload and stop, with real sockets.
func TestMessages(t *testing.T) {
	addresses := map[string]string{"path": filepath.Join(t.TempDir(), "notify")}
	if runtime.GOOS == "linux" {
		addresses["abstract"] = fmt.Sprintf("@wsbouncer-test-%d", os.Getpid())
	}
	for name, address := range addresses {
		t.Run(name, func(t *testing.T) {
			socket := listen(t, address)
			next := func() string {
				t.Helper()
				buf := make([]byte, 4096)
				_ = socket.SetReadDeadline(time.Now().Add(10 * time.Second))
				n, err := socket.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				return string(buf[:n])
			}
			var log bytes.Buffer
			s := Connect(slog.New(slog.NewTextHandler(&log, nil)))
			s.Starting("reading\nall")
			if got := next(); got != "STATUS=reading; all" {
				t.Errorf("starting: %q", got)
			}
			s.Ready(quiet())
			if got := next(); got != "READY=1\nSTATUS=Serving" {
				t.Errorf("ready: %q", got)
			}
			s.Reload(func() {
				if got := next(); !regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+$`).MatchString(got) && runtime.GOOS == "linux" {
					t.Errorf("reloading: %q", got)
				}
			})
			if got := next(); got != "READY=1" {
				t.Errorf("reloaded: %q", got)
			}
			s.Stopping()
			if got := next(); got != "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000" {
				t.Errorf("stopping: %q", got)
			}
			called := false
			s.Reload(func() { called = true }) // is known already
			s.Close()
			_ = socket.SetReadDeadline(time.Now())
			for message := make([]byte, 100); ; {
				n, err := socket.Read(message)
				if err != nil {
					break
				}
				if more := string(message[:n]); more != "EXTEND_TIMEOUT_USEC=30000000" { // it took more than a second
					t.Errorf("%q is sent besides", more)
				}
			}
			if !called || log.Len() > 0 {
				t.Errorf("reloaded: %v; logged %s", called, &log)
			}
		})
	}
}

// TestWatchdog has the watchdog told that the process is alive twice in each period, late if it answers late, and not if it hangs.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{begun: time.Now()}
		var log bytes.Buffer
		var takes atomic.Int64 // by a loop to answer, in nanoseconds
		p := quiet()
		p.answer = func(ctx context.Context) error {
			select {
			case <-time.After(time.Duration(takes.Load())):
				return nil
			case <-ctx.Done():
				return fmt.Errorf("event loop 3: %w", ctx.Err())
			}
		}
		s := connect(h.send, 20*time.Second, slog.New(slog.NewTextHandler(&log, nil)))
		s.Ready(p)
		time.Sleep(25 * time.Second)
		want(t, h.take("WATCHDOG"), "0s WATCHDOG=1", "10s WATCHDOG=1", "20s WATCHDOG=1")
		takes.Store(int64(9 * time.Second)) // it is busy
		time.Sleep(40 * time.Second)
		want(t, h.take("WATCHDOG"), "39s WATCHDOG=1", "49s WATCHDOG=1", "59s WATCHDOG=1")
		if synctest.Wait(); log.Len() > 0 {
			t.Errorf("a busy process hangs: %s", &log)
		}
		takes.Store(int64(time.Hour))
		time.Sleep(60 * time.Second)
		want(t, h.take("WATCHDOG"), "1m9s WATCHDOG=1")
		synctest.Wait()
		if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "event loop 3") {
			t.Errorf("logged %s", &log)
		}
		takes.Store(0)
		time.Sleep(10 * time.Second)
		if got := h.take("WATCHDOG"); len(got) != 1 {
			t.Errorf("it responds again: heard %q", got)
		}
		s.Close()
	})
}

// TestStatus has the status told when it has changed, and more time asked for while the process stops, unless it hangs.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{begun: time.Now()}
		var text atomic.Value
		var hangs atomic.Bool
		text.Store("Serving 1")
		p := &process{status: func() string { return text.Load().(string) }, answer: func(ctx context.Context) error {
			if hangs.Load() {
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		s := connect(h.send, 0, slog.New(slog.DiscardHandler))
		s.Ready(p)
		time.Sleep(35 * time.Second)
		text.Store("Serving 2")
		time.Sleep(10 * time.Second)
		want(t, h.take(""), "0s READY=1 STATUS=Serving 1", "10s STATUS=Serving 1", "40s STATUS=Serving 2")
		s.Stopping()
		text.Store("Draining")
		time.Sleep(2500 * time.Millisecond)
		want(t, h.take(""), "45s STOPPING=1 EXTEND_TIMEOUT_USEC=30000000", "46s STATUS=Draining EXTEND_TIMEOUT_USEC=30000000", "47s EXTEND_TIMEOUT_USEC=30000000")
		hangs.Store(true)
		time.Sleep(time.Hour)
		want(t, h.take(""))
		s.Close()
	})
}

// TestHandOver: of a process that another one has replaced, the service manager hears only that it needs more time to stop, and SIGTERM, which comes once more
// when the main process has ended, does not end it.
func TestHandOver(t *testing.T) {
	t.Cleanup(func() { signal.Stop(unread) })
	signal.Notify(unread, syscall.SIGTERM) // starts what must not belong to the bubble
	signal.Stop(unread)
	synctest.Test(t, func(t *testing.T) {
		h := &heard{begun: time.Now()}
		var text atomic.Value
		text.Store("Serving")
		s := connect(h.send, 20*time.Second, slog.New(slog.DiscardHandler))
		s.Ready(&process{status: func() string { return text.Load().(string) }})
		time.Sleep(15 * time.Second)
		h.take("")
		s.HandOver(42)
		text.Store("Draining")
		time.Sleep(40 * time.Second)
		s.Reload(func() {})
		want(t, h.take(""), "15s MAINPID=42")
		s.Stopping()
		time.Sleep(2500 * time.Millisecond)
		want(t, h.take(""), "55s EXTEND_TIMEOUT_USEC=30000000", "56s EXTEND_TIMEOUT_USEC=30000000", "57s EXTEND_TIMEOUT_USEC=30000000")
		s.Close()
	})
	if runtime.GOOS == "windows" {
		return
	}
	me, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := me.Signal(syscall.SIGTERM); err != nil { // ends the test if HandOver did nothing about it
		t.Error(err)
	}
	<-unread
}

// TestBroken has the messages lost, which is one warning and no failure.
func TestBroken(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "missing"))
	t.Setenv("WATCHDOG_USEC", "soon")
	var log bytes.Buffer
	s := Connect(slog.New(slog.NewTextHandler(&log, nil)))
	s.Ready(quiet())
	reloaded := false
	s.Reload(func() { reloaded = true })
	s.Stopping()
	s.Close()
	if text := log.String(); !reloaded || strings.Count(text, "\n") != 2 || strings.Count(text, "NOTIFY_SOCKET") != 1 || strings.Count(text, "WATCHDOG_USEC") != 1 {
		t.Errorf("reloaded: %v, and logged\n%s", reloaded, text)
	}
}

// TestManagerHangs has a service manager that reads nothing, so that the socket is full soon.
func TestManagerHangs(t *testing.T) {
	address := filepath.Join(t.TempDir(), "notify")
	listen(t, address)
	for n := range 1 << 20 {
		if err := send(address, strings.Repeat("x", 1000), time.Millisecond); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %d messages: %v", n, err)
			}
			return
		}
	}
	t.Error("the socket is never full")
}

// TestNone has no service manager.
func TestNone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	s := Connect(nil)
	s.Starting("x")
	s.Ready(nil)
	reloaded := false
	s.Reload(func() { reloaded = true })
	s.Stopping()
	s.Close()
	if s != nil || !reloaded {
		t.Errorf("%v, reloaded: %v", s, reloaded)
	}
}
