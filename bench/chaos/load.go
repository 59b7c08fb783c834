//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// load is a run of wsbouncer bench.
type load struct{ *process }

// loadResult is what it says when it is done.
type loadResult struct {
	Connections     int            `json:"connections"`
	Connected       int            `json:"connected"`
	ConnectFailures int            `json:"connect_failures"`
	Sent            int            `json:"sent"`
	Received        int            `json:"received"`
	Lost            int            `json:"lost"`
	Mixed           int            `json:"mixed"`
	Failed          int            `json:"failed"`
	Errors          map[string]int `json:"errors"`
	Latency         struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"latency_ms"`
}

func (r loadResult) String() string {
	return fmt.Sprintf("%d of %d connected, %d sent, %d received, p50 %.1f ms, p99 %.1f ms; %d lost, %d mixed up, %d sessions failed %v",
		r.Connected, r.Connections, r.Sent, r.Received, r.Latency.P50, r.Latency.P99, r.Lost, r.Mixed, r.Failed, r.Errors)
}

// startLoad connects so many clients, and returns when all stream.
func startLoad(ctx context.Context, name, binary, address string, clients int, o options, duration time.Duration) (load, error) {
	ramp := time.Duration(clients) * time.Millisecond
	p, err := startProcess(name, binary, "bench", "ws://"+address+"/",
		"--connections", strconv.Itoa(clients), "--ramp", ramp.String(),
		"--rate", strconv.FormatFloat(o.rate, 'f', -1, 64), "--size", strconv.Itoa(o.size), "--text",
		"--duration", duration.String(), "--json", "--quiet")
	if err != nil {
		return load{}, err
	}
	err = await(ctx, ramp+patience, name+" streams", func() (bool, error) {
		return slices.Contains(p.stderr.all(), "steady"), p.running()
	})
	if err != nil {
		p.stop(syscall.SIGKILL)
	}
	return load{p}, err
}

// end interrupts the load, if it has not come to its end, and returns its result.
func (l load) end() (r loadResult, err error) {
	l.stop(syscall.SIGINT)
	if err := json.Unmarshal([]byte(strings.Join(l.stdout.all(), "\n")), &r); err != nil {
		return r, fmt.Errorf("%s gave no result: %s", l.name, l.stderr.last())
	}
	return r, nil
}
