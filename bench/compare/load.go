//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// load is what wsbouncer's load generator is asked for.
type load struct {
	label    string // in tables
	sessions int
	rate     float64 // messages per second and session
	size     int
	binary   bool
	duration time.Duration
	ramp     time.Duration // time over which clients connect
	trials   int           // of a search, about
	parallel int           // most connections being opened at a time; 0: all
}

// quantiles are in milliseconds.
type quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

// loadResult is what the load generator says when it is done.
type loadResult struct {
	Connections     int            `json:"connections"`
	Connected       int            `json:"connected"`
	ConnectFailures int            `json:"connect_failures"`
	Sent            int            `json:"sent"`
	Received        int            `json:"received"`
	PerSecond       float64        `json:"messages_per_second"`
	Unsent          int            `json:"unsent"`
	Lost            int            `json:"lost"`
	Mixed           int            `json:"mixed"`
	Failed          int            `json:"failed"`
	Latency         quantiles      `json:"latency_ms"`
	Connect         quantiles      `json:"connect_ms"`
	FirstEcho       quantiles      `json:"first_echo_ms"`
	Errors          map[string]int `json:"errors"`
}

// broken tells what makes a load's other numbers meaningless: sessions that did not connect or failed, echoes that went astray.
func (r loadResult) broken() error {
	if r.ConnectFailures+r.Failed+r.Mixed == 0 && r.Connected > 0 {
		return nil
	}
	return fmt.Errorf("%d of %d did not connect, %d failed, %d of %d messages lost, %d mixed up, errors %v",
		r.ConnectFailures, r.Connections, r.Failed, r.Lost, r.Sent, r.Mixed, r.Errors)
}

// behind tells by how much the answers fell behind what was offered; "" if they did not.
func (r loadResult) behind(l load) string {
	const enough = 0.95
	offered := float64(l.sessions) * l.rate
	if r.PerSecond >= enough*offered && (r.Lost+r.Unsent)*1000 <= r.Sent {
		return ""
	}
	return fmt.Sprintf("it answered %.0f of %.0f messages/s", r.PerSecond, offered)
}

// offer runs the load generator against an address. It calls steady once all clients are connected and stream, and done when the
// streaming ends.
func offer(ctx context.Context, binary, address string, l load, steady, done func()) (loadResult, error) {
	const patience = 120 * time.Second // for connecting and closing
	ctx, cancel := context.WithTimeout(ctx, l.duration+patience)
	defer cancel()
	kind := "--text"
	if l.binary {
		kind = "--binary"
	}
	command := exec.CommandContext(ctx, binary, "bench", "ws://"+address+"/",
		"--connections", strconv.Itoa(l.sessions),
		"--rate", strconv.FormatFloat(l.rate, 'f', -1, 64),
		"--size", strconv.Itoa(l.size), kind,
		"--duration", l.duration.String(), "--ramp", l.ramp.String(), "--dial-parallel", strconv.Itoa(l.parallel),
		"--connect-timeout", "40s", "--drain", "2s", "--json")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	var output bytes.Buffer
	command.Stdout = &output
	messages, err := command.StderrPipe()
	if err != nil {
		return loadResult{}, err
	}
	if err := command.Start(); err != nil {
		return loadResult{}, err
	}
	var said child.Tail
	for lines := bufio.NewScanner(messages); lines.Scan(); {
		switch line := lines.Text(); strings.TrimSpace(line) {
		case "steady":
			steady()
		case "done":
			done()
		default:
			fmt.Fprintln(&said, line)
		}
	}
	exit := command.Wait()
	if ctx.Err() != nil {
		return loadResult{}, fmt.Errorf("load: %w", context.Cause(ctx))
	}
	var result loadResult
	if err := json.Unmarshal(output.Bytes(), &result); err != nil {
		return loadResult{}, fmt.Errorf("load (%v) gave no result: %s", exit, &said)
	}
	return result, nil
}
