//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// wsbouncer runs with one pool for each backend that together hold all sessions
// and a tenth more, all of it warm.
func wsbouncer(tools toolbox) rival {
	return rival{
		name:    "wsbouncer",
		command: func(t task) ([]string, error) { return serve(tools, t, poolSize(t)), nil },
		ready: func(t task) func(context.Context) error {
			return func(ctx context.Context) error { return warm(ctx, t, poolSize(t)) }
		},
	}
}

func poolSize(t task) int { return (t.sessions*11/10)/len(t.backends) + 8 }

// serve is the proxy's command line, with so many warm connections to each
// backend. The other proxies log no sessions either.
func serve(tools toolbox, t task, each int) []string {
	argv := []string{
		tools.wsbouncer, "serve", "--listen", t.listen, "--admin", t.admin, "--profile", "echo", "--log-level", "warn",
		"--connections", strconv.Itoa(each),
	}
	for _, b := range t.backends {
		argv = append(argv, "--backend", "ws://"+b)
	}
	return argv
}

// warm asks the admin API whether the proxy is ready and all its pools have so
// many idle connections.
func warm(ctx context.Context, t task, each int) error {
	if err := get(ctx, "http://"+t.admin+"/readyz", nil); err != nil {
		return err
	}
	var stats struct {
		Backends []struct {
			Idle int `json:"idle"`
		} `json:"backends"`
	}
	if err := get(ctx, "http://"+t.admin+"/api/v1/stats", &stats); err != nil {
		return err
	}
	idle, want := 0, each*len(t.backends)
	for _, b := range stats.Backends {
		idle += b.Idle
	}
	if idle < want {
		return fmt.Errorf("%d of %d connections are idle", idle, want)
	}
	return nil
}

func get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Close = true // leave no connection behind that would count as memory
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
