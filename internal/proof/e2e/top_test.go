//go:build unix

package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// terminal is a command in a terminal that the test plays.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	file *os.File
	over chan struct{}

	mu  sync.Mutex
	out bytes.Buffer // guarded by mu: all that the command has written
}

// inTerminal runs a command in a terminal of 100 x 30.
func inTerminal(t *testing.T, environment []string, args ...string) *terminal {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(environment, "TERM=xterm-256color", "LANG=C.UTF-8")
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	s := &terminal{t: t, cmd: cmd, file: file, over: make(chan struct{})}
	go func() {
		defer close(s.over)
		chunk := make([]byte, 1<<16)
		for {
			n, err := file.Read(chunk)
			s.mu.Lock()
			s.out.Write(chunk[:n])
			s.mu.Unlock()
			if err != nil { // EIO when the command has ended, on Linux
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.over
		_ = file.Close()
	})
	return s
}

// codes are the sequences that move the cursor and give colours.
var codes = regexp.MustCompile(`\x1b(\[[0-9;?<>=]*[a-zA-Z]|\][^\x07]*\x07|[=>])`)

// text returns the words that were written so far, without the sequences for the terminal.
func (s *terminal) text() string {
	return strings.Join(strings.Fields(codes.ReplaceAllString(s.raw(), " ")), " ")
}

func (s *terminal) raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// await waits until the terminal has shown a text.
func (s *terminal) await(text string) {
	s.t.Helper()
	wstest.Eventually(s.t, "the terminal shows "+text, func() bool { return strings.Contains(s.text(), text) })
}

func (s *terminal) press(keys string) {
	s.t.Helper()
	if _, err := s.file.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// ended waits for the end of the command, which leaves the terminal as it was.
func (s *terminal) ended(status int) {
	s.t.Helper()
	wstest.Receive(s.t, s.over, "the end of the command")
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || s.cmd.ProcessState.ExitCode() != status {
		s.t.Errorf("it ended with %v, want status %d:\n%s", err, status, s.text())
	}
	raw := s.raw()
	if entered, left := strings.LastIndex(raw, "\x1b[?1049h"), strings.LastIndex(raw, "\x1b[?1049l"); entered < 0 || left < entered {
		s.t.Errorf("it leaves the alternate screen behind: entered at %d, left at %d of %d", entered, left, len(raw))
	}
	if shown, hidden := strings.LastIndex(raw, "\x1b[?25h"), strings.LastIndex(raw, "\x1b[?25l"); hidden > shown {
		s.t.Error("it leaves the cursor hidden")
	}
}

// An operator finds a session in a terminal and ends it with the keyboard; its client hears why.
func TestTopKills(t *testing.T) {
	t.Parallel()
	server := startSim(t, "--protocol", "echo")
	p := startReady(t, "--backend", server.url, "--profile", "echo", "--connections", "4", "--admin-socket", filepath.Join(t.TempDir(), "admin.sock"))
	c := dialRaw(t, p.url("/"))
	c.echo("hello")
	top := inTerminal(t, append(environment(), "NO_COLOR=1"), "top", "--interval", "1s", "--admin", p.socket())
	top.await("relaying") // in the session's row; of the number in its heading, only the digit is drawn if it was 0 at first
	top.press("k")
	top.await("End session ")
	top.press("n")
	top.await("Nothing was done.")
	c.echo("still there")
	top.press("k")
	top.press("y")
	if reason := c.expectCode(1012); reason == "" {
		t.Error("the client does not hear why")
	}
	if err := pty.Setsize(top.file, &pty.Winsize{Rows: 12, Cols: 40}); err != nil { // it draws everything anew
		t.Fatal(err)
	}
	top.await("services backends waiting sessions")
	top.press("q")
	top.ended(0)
	if regexp.MustCompile(`\x1b\[[0-9;]*(3[0-7]|9[0-7])m`).MatchString(top.raw()) {
		t.Error("there are colours in spite of NO_COLOR")
	}
}

// A proxy that goes away is said to be gone, and signals leave the terminal as it was.
func TestTopOfProxyThatIsGone(t *testing.T) {
	t.Parallel()
	server := startSim(t, "--protocol", "echo")
	p := startReady(t, "--backend", server.url, "--profile", "echo", "--connections", "4")
	var all []*terminal
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}
	for range signals {
		top := inTerminal(t, environment(), "top", "--interval", "1s", "--admin", p.admin)
		top.await("BACKEND 1")
		all = append(all, top)
	}
	p.stop()
	for i, top := range all {
		top.await("gone since")
		if err := top.cmd.Process.Signal(signals[i]); err != nil {
			t.Fatal(err)
		}
		top.ended(0)
	}
	if r := runCommand(t, "top", "--admin", p.admin); r.status != 2 || !strings.Contains(r.stderr, "top needs a terminal") {
		t.Errorf("without a terminal: %+v", r)
	}
	if r := runCommand(t, "top", "--once", "--admin", p.admin); r.status != 1 || !strings.Contains(r.stderr, "no proxy answers at ") {
		t.Errorf("without a proxy: %+v", r)
	}
}
