//go:build unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// environment is what the processes get. The race detector lets a process sleep for a second at its end otherwise.
func environment() []string {
	return append(os.Environ(), strings.TrimSpace("GORACE=atexit_sleep_ms=1 "+os.Getenv("GORACE")))
}

// runResult is what became of a command that ended by itself.
type runResult struct {
	status         int
	stdout, stderr string
}

// runCommand runs the binary to its end.
func runCommand(t testing.TB, args ...string) runResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wstest.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = environment()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("wsbouncer %s: %v %v", strings.Join(args, " "), err, ctx.Err())
	}
	return runResult{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// child is a command that runs until it is told to end.
type child struct {
	*kit.Process
	t              testing.TB
	name           string
	stdout, stderr *kit.Output
	judged         bool // the test has looked at the exit status
}

// startChild runs the binary for the time of the test, at the end of which it must exit with status 0.
func startChild(t testing.TB, args ...string) *child {
	t.Helper()
	return start(t, args[0], exec.Command(binary, args...))
}

// startLimited is startChild with a limit of file descriptors.
func startLimited(t testing.TB, descriptors int, args ...string) *child {
	t.Helper()
	script := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, descriptors)
	return start(t, args[0], exec.Command("sh", append([]string{"-c", script, binary}, args...)...))
}

func start(t testing.TB, name string, cmd *exec.Cmd) *child {
	t.Helper()
	c := &child{t: t, name: name, stdout: new(kit.Output), stderr: new(kit.Output)}
	if cmd.Env == nil {
		cmd.Env = environment()
	}
	cmd.Stdout, cmd.Stderr = c.stdout, c.stderr
	var err error
	if c.Process, err = kit.Start(name, cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.cleanUp)
	return c
}

// cleanUp ends the process if the test has not, and reports what it left to see.
func (c *child) cleanUp() {
	c.signal(syscall.SIGTERM)
	if !c.judged {
		c.wait(0)
	}
	text := strings.Join(c.stderr.Lines(), "\n")
	if strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") || strings.Contains(text, "fatal error:") {
		c.t.Errorf("%s broke:\n%s", c.name, text)
	} else if c.t.Failed() {
		c.t.Logf("%s logged (the end of it):\n%.8000s", c.name, text[max(0, len(text)-8000):])
	}
}

// signal sends a signal to the process.
func (c *child) signal(s syscall.Signal) {
	if err := c.Signal(s); err != nil {
		c.t.Errorf("signalling %s: %v", c.name, err)
	}
}

// ended waits for the end of the process and returns how it ended.
func (c *child) ended() syscall.WaitStatus {
	c.t.Helper()
	c.judged = true
	if !c.Wait(wstest.Timeout) {
		c.t.Errorf("%s did not end within %v", c.name, wstest.Timeout)
	}
	return c.State().Sys().(syscall.WaitStatus)
}

// wait waits for the end of the process, which must have this exit status.
func (c *child) wait(status int) {
	c.t.Helper()
	if got := c.ended(); !got.Exited() || got.ExitStatus() != status {
		c.t.Errorf("%s ended with %v, want exit status %d", c.name, c.State(), status)
	}
}

// stop ends the process as its operator does; it must exit with status 0.
func (c *child) stop() {
	c.t.Helper()
	c.signal(syscall.SIGTERM)
	c.wait(0)
}

// kill ends the process at once, as a crash does.
func (c *child) kill() {
	c.t.Helper()
	c.signal(syscall.SIGKILL)
	c.ended()
}

// record is a line of a log in JSON.
type record map[string]any

func (r record) text(key string) string { s, _ := r[key].(string); return s }

func (r record) number(key string) int { n, _ := r[key].(float64); return int(n) }

// logged returns the records with this message, so far.
func (c *child) logged(message string) []record {
	var records []record
	for _, line := range c.stderr.Lines() {
		var r record
		if json.Unmarshal([]byte(line), &r) == nil && r.text("msg") == message {
			records = append(records, r)
		}
	}
	return records
}

// awaitLog waits for the first record with this message.
func (c *child) awaitLog(message string) record {
	c.t.Helper()
	var found []record
	wstest.Eventually(c.t, c.name+" logs "+message, func() bool {
		select {
		case <-c.Ended():
			found = c.logged(message)
			if len(found) == 0 {
				c.t.Fatalf("%s has ended without logging %q", c.name, message)
			}
		default:
			found = c.logged(message)
		}
		return len(found) > 0
	})
	return found[0]
}
