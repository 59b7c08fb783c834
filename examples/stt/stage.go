package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// stage is the processes of the demonstration: the recognisers and the proxy in front of them.
type stage struct {
	processes []*process
	backends  []string // the recognisers' URLs
	proxyURL  string
	adminURL  string
	client    http.Client // for the admin API
}

// What the processes print once they listen.
var (
	serverListens = regexp.MustCompile(`^listening on (ws://\S+)$`)
	proxyListens  = regexp.MustCompile(`msg=listening address=(\S+)`)
	adminListens  = regexp.MustCompile(`msg="admin API" address=(\S+)`)
)

// setStage starts the processes and waits until they are ready.
func setStage(ctx context.Context, o options) (_ *stage, err error) {
	s := &stage{backends: o.backends, client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if len(s.backends) == 0 {
		if err := s.startServers(ctx, o); err != nil {
			return nil, err
		}
	}
	// All clients have a connection, and no more are dialed than that, so that reuse is seen.
	each := (o.clients + len(s.backends) - 1) / len(s.backends)
	arguments := []string{
		"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--profile", o.profile,
		"--connections", strconv.Itoa(each), "--log-level", "info", "--log-format", "text", "--drain-timeout", "0s",
	}
	for _, url := range s.backends {
		arguments = append(arguments, "--backend", url)
	}
	proxy, err := s.start("the proxy", o.proxy, arguments...)
	if err != nil {
		return nil, err
	}
	address, err := proxy.await(ctx, proxyListens)
	if err != nil {
		return nil, err
	}
	s.proxyURL = "ws://" + address + "/"
	if s.adminURL, err = proxy.await(ctx, adminListens); err != nil {
		return nil, err
	}
	return s, s.awaitReady(ctx, proxy)
}

// startServers starts the recognisers at the same time: each takes a while to load.
func (s *stage) startServers(ctx context.Context, o options) error {
	for i := range o.servers {
		if _, err := s.start(fmt.Sprintf("recogniser %d", i+1), o.python, o.server, "--listen", "127.0.0.1:0", "--workers", "1"); err != nil {
			return err
		}
	}
	for _, p := range s.processes {
		url, err := p.await(ctx, serverListens)
		if err != nil {
			return err
		}
		s.backends = append(s.backends, url)
	}
	return nil
}

func (s *stage) start(name, binary string, arguments ...string) (*process, error) {
	p, err := startProcess(name, binary, arguments...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return p, err
}

// awaitReady waits until the proxy has a connection for a client.
func (s *stage) awaitReady(ctx context.Context, proxy *process) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for s.get(ctx, "/readyz", nil) != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-proxy.ended:
			return proxy.failure()
		case <-ticker.C:
		}
	}
	return nil
}

// close ends the processes, the proxy first, and returns when they are gone.
func (s *stage) close() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].terminate()
	}
	var ending sync.WaitGroup
	for _, p := range s.processes {
		ending.Go(p.wait)
	}
	ending.Wait()
}

// poolStats is what the proxy's admin API tells of a backend's pool.
type poolStats struct {
	URL       string     `json:"url"`
	Leased    int        `json:"leased"`
	Resetting int        `json:"resetting"`
	Totals    poolTotals `json:"totals"`
}

// poolTotals are counts since the proxy's start.
type poolTotals struct {
	Dialed   uint64 `json:"dialed"`
	Leased   uint64 `json:"leased"`
	Returned uint64 `json:"returned"`
}

func (t poolTotals) String() string {
	return fmt.Sprintf("%d sessions, %d connections dialed, %d times one was returned for another session", t.Leased, t.Dialed, t.Returned)
}

// pools returns the statistics of the backends' pools, once all sessions have ended there.
func (s *stage) pools(ctx context.Context) ([]poolStats, error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		var stats struct {
			Backends []poolStats `json:"backends"`
		}
		if err := s.get(ctx, "/api/v1/stats", &stats); err != nil {
			return nil, err
		}
		busy := 0
		for _, p := range stats.Backends {
			busy += p.Leased + p.Resetting
		}
		if busy == 0 {
			return stats.Backends, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

// get asks the admin API, and reads the JSON that it answers with unless into is nil.
func (s *stage) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.adminURL+path, nil)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s", s.adminURL, path, response.Status)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("%s%s: %w", s.adminURL, path, err)
	}
	return nil
}
