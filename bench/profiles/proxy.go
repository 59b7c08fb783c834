//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/child"
)

// patience is how long anything may take that is not measured by its duration.
const patience = 15 * time.Second

// startServer starts a simulated server, and returns its address. The caller stops the process.
func (p *programs) startServer(ctx context.Context, protocol string, flags ...string) (*child.Process, string, error) {
	addresses, err := child.FreeAddresses(1)
	if err != nil {
		return nil, "", err
	}
	argv := append([]string{p.wsbouncer, "sim", "--listen", addresses[0], "--protocol", protocol, "--quiet"}, flags...)
	started, err := child.Start(argv)
	if err != nil {
		return nil, "", err
	}
	if err := child.WaitFor(ctx, started, protocol+" server", patience, child.Accepts(addresses[0])); err != nil {
		started.Stop()
		return nil, "", err
	}
	return started, addresses[0], nil
}

// proxy is a running wsbouncer with one backend.
type proxy struct {
	*child.Process
	listen, admin string
}

// startProxy starts the proxy with a profile and so many connections to a backend, and returns when all of them are idle. The
// caller stops it.
func (p *programs) startProxy(ctx context.Context, profile, backend string, connections int) (*proxy, error) {
	addresses, err := child.FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	x := &proxy{listen: addresses[0], admin: addresses[1]}
	x.Process, err = child.Start([]string{
		p.wsbouncer, "serve", "--listen", x.listen, "--admin", x.admin, "--backend", "ws://" + backend, "--log-level", "warn",
		"--profile", profile, "--profile-file", p.profiles, "--connections", strconv.Itoa(connections),
	})
	if err != nil {
		return nil, err
	}
	if _, err := x.await(ctx, func(s stats) bool { return s.backend().Idle == connections }); err != nil {
		x.Stop()
		return nil, fmt.Errorf("profile %s: %w", profile, err)
	}
	return x, nil
}

// stats is what the admin API says, as far as it is looked at here.
type stats struct {
	Services []struct {
		Queue struct {
			Waiting int `json:"waiting"`
		} `json:"queue"`
	} `json:"services"`
	Backends []backendStats `json:"backends"`
	Relayed  struct {
		FramesFromBackends uint64 `json:"frames_from_backends"`
	} `json:"relayed"`
}

type backendStats struct {
	Idle   int `json:"idle"`
	Leased int `json:"leased"`
	Totals struct {
		Dialed    uint64 `json:"dialed"`
		Discarded uint64 `json:"discarded"`
	} `json:"totals"`
}

// backend returns the statistics of the one backend.
func (s stats) backend() backendStats {
	if len(s.Backends) != 1 {
		return backendStats{}
	}
	return s.Backends[0]
}

// waiting returns how many clients wait for a connection.
func (s stats) waiting() (n int) {
	for _, service := range s.Services {
		n += service.Queue.Waiting
	}
	return n
}

// stats asks the admin API.
func (x *proxy) stats(ctx context.Context) (s stats, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+x.admin+"/api/v1/stats", nil)
	if err != nil {
		return s, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return s, fmt.Errorf("the proxy's statistics: %s", response.Status)
	}
	return s, json.NewDecoder(response.Body).Decode(&s)
}

// await asks again and again until the statistics are as they should be.
func (x *proxy) await(ctx context.Context, are func(stats) bool) (stats, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		s, err := x.stats(ctx)
		if err == nil && are(s) {
			return s, nil
		}
		if failure := x.Failure(); failure != nil {
			return s, failure
		}
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("the proxy did not come to the state awaited (%w): %+v, %v", ctx.Err(), s, err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
