//go:build linux

package fleetproof

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// raiseCap and lowerCap change the cap of a server, between half of and twice what it was in the beginning.
func raiseCap(r *proof, ctx context.Context) (time.Time, error) {
	s := r.servers[r.dice.IntN(len(r.servers))]
	return time.Now(), r.setCap(ctx, s, min(s.cap+1+r.dice.IntN(s.first), 2*s.first))
}

func lowerCap(r *proof, ctx context.Context) (time.Time, error) {
	s := r.servers[r.dice.IntN(len(r.servers))]
	to := max(s.first/2, s.cap-1-r.dice.IntN(s.first))
	if to == s.cap {
		return time.Now(), nil
	}
	if err := r.setCap(ctx, s, to); err != nil {
		return time.Time{}, err
	}
	begin := time.Now()
	for {
		if took, ok := r.watcher.capReached(s.seen); ok {
			r.tally("lower-cap").took = append(r.tally("lower-cap").took, took)
			r.tally("lower-cap").limit = sessionLimit
			r.journal.event("%s has no more than %d connections after %v", s.name, to, took.Round(time.Millisecond))
			return time.Time{}, nil
		}
		if took := time.Since(begin); took > sessionLimit+r.options.Slack {
			r.journal.violation("a lowered cap was not reached", r.pools(ctx, s.name), "%s has %d connections, %v after its cap was lowered to %d",
				s.name, r.watcher.count(s.seen), took.Round(time.Millisecond), to)
			return time.Time{}, nil
		}
		if err := wait(ctx, lookInterval); err != nil {
			return time.Time{}, err
		}
	}
}

// setCap changes the cap of a server.
func (r *proof) setCap(ctx context.Context, s *server, to int) error {
	r.journal.event("the cap of %s changes from %d to %d", s.name, s.cap, to)
	if to > s.cap {
		r.watcher.raised(s.seen, to)
	}
	if err := r.command(ctx, "backend", "set", s.name, "--connections", strconv.Itoa(to)); err != nil {
		return err
	}
	if to < s.cap {
		r.watcher.lowered(s.seen, to)
	}
	s.cap = to
	return nil
}

// drainBackend drains a server, disables it, waits until it has no connection, and enables it again.
func drainBackend(r *proof, ctx context.Context) (time.Time, error) {
	s := r.servers[r.dice.IntN(len(r.servers))]
	r.watcher.drain(s.seen, true)
	defer r.watcher.drain(s.seen, false)
	r.journal.event("%s is drained", s.name)
	if err := r.command(ctx, "backend", "set", s.name, "--state", "draining"); err != nil {
		return time.Time{}, err
	}
	if err := r.pause(ctx, 0, 3*time.Second); err != nil {
		return time.Time{}, err
	}
	if err := r.command(ctx, "backend", "set", s.name, "--state", "disabled"); err != nil {
		return time.Time{}, err
	}
	begin := time.Now()
	for r.watcher.count(s.seen) > 0 {
		if took := time.Since(begin); took > sessionLimit+r.options.Slack {
			r.journal.violation("a disabled server kept connections", r.pools(ctx, s.name), "%s has %d connections, %v after it was disabled",
				s.name, r.watcher.count(s.seen), took.Round(time.Millisecond))
			break
		}
		if err := wait(ctx, lookInterval); err != nil {
			return time.Time{}, err
		}
	}
	r.journal.event("%s has no connections after %v", s.name, time.Since(begin).Round(time.Millisecond))
	err := r.command(ctx, "backend", "set", s.name, "--state", "enabled")
	return time.Now(), err
}

// moveClients moves clients from proxy to proxy at once, and waits until places have followed.
func moveClients(r *proof, ctx context.Context) (time.Time, error) {
	r.share()
	return time.Time{}, r.follow(ctx, "move-clients")
}

// swapClients has all clients vanish, and others come to one proxy, another one than had most: nearly all places have to move.
func swapClients(r *proof, ctx context.Context) (time.Time, error) {
	most := slices.Index(r.shares, slices.Max(r.shares))
	clear(r.shares)
	r.shares[(most+1)%len(r.shares)] = 1
	return time.Time{}, r.follow(ctx, "swap-clients")
}

// follow moves clients at once to where the shares say, and waits until places have followed: until nearly all are in use by sessions.
func (r *proof) follow(ctx context.Context, event string) error {
	r.crowd.place(r.proxies, r.options.Sessions, r.shares, true)
	begin := time.Now()
	places := 0
	for _, s := range r.servers {
		places += s.cap
	}
	for {
		leased, err := r.leased(ctx)
		took := time.Since(begin)
		if err == nil && leased >= places*usedShare/100 {
			t := r.tally(event)
			t.took, t.limit = append(t.took, took), moveLimit
			r.journal.event("after %v, sessions use %d of %d places", took.Round(time.Millisecond), leased, places)
			return nil
		}
		if took > moveLimit && r.grantsNothing(ctx) {
			begin = time.Now()
			continue
		}
		if took > moveLimit+r.options.Slack {
			r.journal.violation("places did not follow clients", r.pools(ctx, ""), "%v after clients had moved, sessions used %d of %d places (%v)",
				took.Round(time.Millisecond), leased, places, err)
			return nil
		}
		if err := wait(ctx, lookInterval); err != nil {
			return err
		}
	}
}

// usedShare is how many per cent of all places sessions use when clients wait for all of them: the others are between two sessions.
const usedShare = 85

// leased returns how many connections of all proxies are in use by sessions of clients that are there: those of clients that have just
// left do not count.
func (r *proof) leased(ctx context.Context) (n int, err error) {
	for i, p := range r.proxies {
		s, err := p.api.Stats(ctx)
		if err != nil {
			return 0, err
		}
		at := 0
		for _, b := range s.Backends {
			at += b.Leased
		}
		n += min(at, gang*len(r.crowd.gangs[i]))
	}
	return n, nil
}
