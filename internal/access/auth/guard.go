package auth

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
)

// maxSuspects is how many addresses a [Guard] remembers. They take about 10 MB.
const maxSuspects = 1 << 16

// sampled is how many addresses a full [Guard] looks at to find one to forget.
const sampled = 8

// Guard refuses clients of addresses from which authentication has failed too often, before anything is computed or asked for them. An
// IPv6 address counts as its network of 64 bits, which one client has for itself. Clients behind one address translator are one suspect.
//
// Each failure takes a place in a bucket of one period's failures, as for all rates: with 20/m, 20 failures at once are answered, and one
// more each 3 s. Attempts that run at the same time count when they have failed.
//
// Any goroutine may use it. A nil Guard refuses no client.
type Guard struct {
	log   *slog.Logger     // static
	now   func() time.Time // static
	lines *rate.Limiter    // static; of log lines

	mu       sync.Mutex
	rate     limits.Rate            // guarded by mu; of failures from one address; unlimited if off
	suspects map[netip.Addr]suspect // guarded by mu; by address, or by the first one of its network
	blocked  uint64                 // guarded by mu; attempts that were refused
}

// suspect is an address from which authentication has failed.
type suspect struct {
	until time.Time // when its bucket is empty again
	told  bool      // the log has a line about it
}

// NewGuard returns a guard that allows failures of each address at a rate. now is the clock.
func NewGuard(failures limits.Rate, log *slog.Logger, now func() time.Time) *Guard {
	return &Guard{log: log, now: now, lines: rate.NewLimiter(1, 10), rate: failures, suspects: make(map[netip.Addr]suspect)}
}

// SetRate changes the rate of failures. Addresses that were blocked are judged by the new one.
func (g *Guard) SetRate(failures limits.Rate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rate = failures
	if failures.Unlimited() {
		clear(g.suspects)
	}
	limit := g.now().Add(failures.Per) // a bucket is at most full
	for key, s := range g.suspects {
		if s.until.After(limit) {
			s.until = limit
			g.suspects[key] = s
		}
	}
}

// Wait returns how long a client must wait before it may try again; 0 if it may now. It counts those that must wait.
func (g *Guard) Wait(client netip.Addr) time.Duration {
	if g == nil {
		return 0
	}
	key, now := Network(client), g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	wait := g.excess(g.suspects[key], now)
	if wait > 0 {
		g.blocked++
	}
	return wait
}

// excess returns how long the bucket of a suspect stays full. It is called with mu held.
func (g *Guard) excess(s suspect, now time.Time) time.Duration {
	if g.rate.Unlimited() || s.until.IsZero() {
		return 0
	}
	return max(0, s.until.Sub(now)-(g.rate.Per-g.interval()))
}

// interval returns the time in which one failure is forgotten. It is called with mu held.
func (g *Guard) interval() time.Duration { return max(1, g.rate.Per/time.Duration(g.rate.N)) }

// Failed counts a failure. service is for the log.
func (g *Guard) Failed(client netip.Addr, service string) {
	if g == nil {
		return
	}
	key, now := Network(client), g.now()
	if !key.IsValid() {
		return
	}
	g.mu.Lock()
	if g.rate.Unlimited() {
		g.mu.Unlock()
		return
	}
	s, known := g.suspects[key]
	if !known && len(g.suspects) >= maxSuspects {
		g.forgetOne(now)
	}
	if s.until.Before(now) {
		s = suspect{until: now}
	}
	// Attempts that ran at the same time add no more than one period, so that the way back is as long as the documentation says.
	s.until = s.until.Add(g.interval())
	if limit := now.Add(g.rate.Per); s.until.After(limit) {
		s.until = limit
	}
	begins := g.excess(s, now) > 0 && !s.told
	s.told = s.told || begins
	g.suspects[key] = s
	failures := g.rate
	g.mu.Unlock()
	if begins && g.lines.AllowN(now, 1) {
		g.log.Warn("clients of an address fail to authenticate too often and get 429 for a while",
			"client", client.String(), "service", service, "limit", failures.String())
	}
}

// forgetOne makes room for another suspect: it forgets the one of a few that needs to wait least. It is called with mu held.
func (g *Guard) forgetOne(now time.Time) {
	var least netip.Addr
	var until time.Time
	seen := 0
	for key, s := range g.suspects { // begins at random
		if !s.until.After(now) {
			delete(g.suspects, key)
			if seen++; seen == sampled {
				return
			}
			continue
		}
		if !least.IsValid() || s.until.Before(until) {
			least, until = key, s.until
		}
		if seen++; seen == sampled {
			break
		}
	}
	if len(g.suspects) >= maxSuspects {
		delete(g.suspects, least)
	}
}

// GuardStats describes a [Guard] at one instant.
type GuardStats struct {
	Blocked  uint64 // attempts that were refused since the start
	Suspects int    // addresses whose clients are refused now
}

// Stats returns what the guard does. It also forgets the addresses that are no longer suspects.
func (g *Guard) Stats() (stats GuardStats) {
	if g == nil {
		return stats
	}
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, s := range g.suspects {
		switch {
		case !s.until.After(now):
			delete(g.suspects, key)
		case g.excess(s, now) > 0:
			stats.Suspects++
		}
	}
	stats.Blocked = g.blocked
	return stats
}

// Network returns what an address is counted as: itself, or its network of 64 bits, as [limits.AddressOf].
func Network(a netip.Addr) netip.Addr { return limits.AddressOf(a).Addr() }
