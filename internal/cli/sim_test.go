package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// The command prints its URL, serves there, and ends with its context.
func TestSim(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, in := io.Pipe()
	var log bytes.Buffer
	cmd := newSimCommand()
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--sessions", "1", "--fail", "greeting"})
	cmd.SetOut(in)
	cmd.SetErr(&log)
	running, interrupt := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(running)
		_ = in.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("no URL; the log says %s", log.String())
	}
	c, _, err := websocket.Dial(ctx, lines.Text(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if _, greeting, err := c.Read(ctx); err != nil || !strings.Contains(string(greeting), "greeting") {
		t.Errorf("got %q, %v", greeting, err)
	}
	interrupt()
	if lines.Scan() {
		t.Errorf("more on standard output: %s", lines.Text())
	}
	if err := <-ended; err != nil {
		t.Errorf("the command failed: %v", err)
	}
	if !strings.Contains(log.String(), "connections=1 peak=1 accepted=1") {
		t.Errorf("no count in the log: %s", log.String())
	}
}

func TestSimUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--protocol chat":      `unknown protocol "chat"`,
		"--fail explode":       "unknown failure",
		"--nasty rude":         `unknown switch "rude": use one of late-partials, overtaken-final,`,
		"--latency -1s":        "latency: -1s is out of range",
		"--path v1":            `path: "v1" does not begin with a slash`,
		"--api-key k":          "api key: the protocol echo takes none",
		"--listen here":        `listen: invalid address "here"`,
		"ws://127.0.0.1:9001/": "takes no arguments",
	} {
		cmd := newSimCommand()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(strings.Fields(args))
		err := cmd.Execute()
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(usage)) {
			t.Errorf("%s: got %v; want a usage error with %q", args, err, want)
		}
	}
}

// What only shows when it listens is not a usage error.
func TestSimCannotListen(t *testing.T) {
	cmd := newSimCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--listen", "192.0.2.1:1", "--quiet"})
	if err := cmd.Execute(); err == nil || errors.As(err, new(usage)) {
		t.Errorf("got %v", err)
	}
}
