//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// backendStats is what /api/v1/stats says of a backend, as far as it is looked at here.
type backendStats struct {
	Cap       int
	Warm      int
	Dialing   int
	Idle      int
	Leased    int
	Resetting int
	Retiring  int
	Usable    bool
	Ramp      float64
	Circuit   string
	Opened    uint64 `json:"circuit_opened"`
	Broken    uint64 `json:"broken_sessions"`
	Totals    struct {
		DialFailed uint64 `json:"dial_failed"`
		Leased     uint64
		Returned   uint64
		Discarded  uint64
	}
}

// used returns how many connections the server may have.
func (b backendStats) used() int { return b.Dialing + b.Idle + b.Leased + b.Resetting + b.Retiring }

// full tells whether the pool is as large as it is to be, with nothing under way.
func (b backendStats) full() bool {
	return b.Usable && b.Idle == min(b.Warm, b.Cap-b.Leased) && b.Idle+b.Leased == b.used()
}

// sample is the statistics at one instant.
type sample struct {
	at       time.Time
	Backends []backendStats
	Sessions struct {
		Active int
		Total  uint64
		Ended  map[string]uint64
	}
}

// full tells whether all pools are.
func (s sample) full() bool {
	for _, b := range s.Backends {
		if !b.full() {
			return false
		}
	}
	return len(s.Backends) > 0
}

var client = &http.Client{Timeout: 5 * time.Second}

// getStats asks the admin API.
func getStats(ctx context.Context, address string) (sample, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/stats", nil)
	if err != nil {
		return sample{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return sample{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return sample{}, fmt.Errorf("the proxy's statistics: %s", response.Status)
	}
	s := sample{at: time.Now()}
	return s, json.NewDecoder(response.Body).Decode(&s)
}
