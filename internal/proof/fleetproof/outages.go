//go:build linux

package fleetproof

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// cut cuts the subjects off from PostgreSQL.
func cut(how kit.Way) step {
	return each(func(r *proof, _ context.Context, p *proxy) error {
		r.journal.Event("%s is cut off from PostgreSQL", p.Name)
		r.database.ways[p.index].Become(how)
		return nil
	})
}

// mend has all proxies reach PostgreSQL again.
var mend = act(func(r *proof) {
	for i := range r.proxies {
		r.database.ways[i].Become(kit.Open)
	}
	r.journal.Event("PostgreSQL can be reached again")
	r.at = time.Now()
})

// restart restarts PostgreSQL.
func restart(how string) step {
	return func(r *proof, ctx context.Context) error {
		d := r.database
		end := map[string]func() error{"fast": d.primary.Stop, "immediate": d.primary.Kill, "sigkill": d.primary.Destroy}[how]
		pause := kit.Between(r.dice, 0, 4*time.Second)
		r.journal.Event("PostgreSQL is down for %v", pause.Round(time.Millisecond))
		err := d.restart(ctx, end, pause)
		r.journal.Event("PostgreSQL answers again")
		r.at = time.Now()
		return err
	}
}

// forgetful makes a standby, and stops what it hears of the primary: places move after that, and proxies come or go.
func forgetful(r *proof, ctx context.Context) error {
	if err := r.database.prepareStandby(ctx); err != nil {
		return err
	}
	if err := r.pause(ctx, 0, time.Second); err != nil {
		return err
	}
	r.journal.Event("the standby hears no more of PostgreSQL")
	r.database.replication.Become(kit.Refused)
	return nil
}

// promote replaces PostgreSQL by the standby, which misses the last commits.
func promote(r *proof, ctx context.Context) error {
	r.watcher.update(func() { r.watcher.forgot = true })
	r.journal.Event("PostgreSQL is killed")
	err := r.database.failOver(ctx, kit.Between(r.dice, 0, 3*time.Second))
	r.journal.Event("the standby has taken its place")
	r.at = time.Now()
	return err
}

// promoteWithout makes the standby the primary while the subject is stopped, which continues after the lease time.
var promoteWithout = []step{freeze, promote, spread, pause(fleet.Lease+3*time.Second, fleet.Lease+8*time.Second), proceed}

// gather moves nearly all clients, and so places, to the subject.
var gather = act(func(r *proof) {
	for i := range r.shares {
		r.shares[i] = 1
	}
	r.shares[r.subjects[0].index] = 20
	r.crowd.place(r.proxies, r.options.Sessions, r.shares, false)
})

// raiseCap and lowerCap change the cap of a server, between half of and twice what it was in the beginning.
func raiseCap(r *proof, ctx context.Context) error {
	s := r.servers[r.dice.IntN(len(r.servers))]
	r.at = time.Now()
	return r.setCap(ctx, s, min(s.cap+1+r.dice.IntN(s.first), 2*s.first))
}

func lowerCap(r *proof, ctx context.Context) error {
	s := r.servers[r.dice.IntN(len(r.servers))]
	to := max(s.first/2, s.cap-1-r.dice.IntN(s.first))
	if to == s.cap {
		r.at = time.Now()
		return nil
	}
	if err := r.setCap(ctx, s, to); err != nil {
		return err
	}
	t := r.tally("lower-cap")
	t.limit = sessionLimit
	took, err := r.expect(ctx, "a lowered cap was not reached", s.name, sessionLimit, func() string {
		if _, ok := r.watcher.capReached(s.seen); ok {
			return ""
		}
		return fmt.Sprintf("%s has %d connections, and its cap was lowered to %d", s.name, r.watcher.count(s.seen), to)
	})
	if took > 0 {
		took, _ = r.watcher.capReached(s.seen)
		t.took = append(t.took, took)
		r.journal.Event("%s has no more than %d connections after %v", s.name, to, took.Round(time.Millisecond))
	}
	return err
}

// setCap changes the cap of a server.
func (r *proof) setCap(ctx context.Context, s *server, to int) error {
	r.journal.Event("the cap of %s changes from %d to %d", s.name, s.cap, to)
	if to > s.cap {
		r.watcher.update(func() { s.seen.cap, s.seen.limit = to, max(s.seen.limit, to) })
	}
	if err := r.operate(ctx, []string{"backend", "set", s.name, "--connections", strconv.Itoa(to)}); err != nil {
		return err
	}
	if to < s.cap {
		r.watcher.lowered(s.seen, to)
	}
	s.cap = to
	return nil
}

// drainBackend drains a server, disables it, waits until it has no connection, and enables it again.
func drainBackend(r *proof, ctx context.Context) error {
	s := r.servers[r.dice.IntN(len(r.servers))]
	r.watcher.update(func() { s.seen.drained = true })
	defer r.watcher.update(func() { s.seen.drained = false })
	become := func(state string) error { return r.operate(ctx, []string{"backend", "set", s.name, "--state", state}) }
	r.journal.Event("%s is drained", s.name)
	if err := become("draining"); err != nil {
		return err
	}
	if err := r.pause(ctx, 0, 3*time.Second); err != nil {
		return err
	}
	if err := become("disabled"); err != nil {
		return err
	}
	took, err := r.expect(ctx, "a disabled server kept connections", s.name, sessionLimit, func() string {
		if n := r.watcher.count(s.seen); n > 0 {
			return fmt.Sprintf("%s has %d connections, and was disabled", s.name, n)
		}
		return ""
	})
	if err != nil {
		return err
	}
	r.journal.Event("%s has no connections after %v", s.name, took.Round(time.Millisecond))
	err = become("enabled")
	r.at = time.Now()
	return err
}

// moveClients moves clients from proxy to proxy at once, and waits until places have followed.
func moveClients(r *proof, ctx context.Context) error {
	r.share()
	return r.follow(ctx)
}

// swapClients has all clients vanish, and others come to one proxy, another one than had most: nearly all places have to move.
func swapClients(r *proof, ctx context.Context) error {
	most := slices.Index(r.shares, slices.Max(r.shares))
	clear(r.shares)
	r.shares[(most+1)%len(r.shares)] = 1
	return r.follow(ctx)
}

// follow moves clients at once to where the shares say, and waits until places have followed: until nearly all are in use by sessions.
func (r *proof) follow(ctx context.Context) error {
	r.crowd.place(r.proxies, r.options.Sessions, r.shares, true)
	places := r.places()
	leased := 0
	took, err := r.expect(ctx, "places did not follow clients", "", moveLimit, func() string {
		var err error
		if leased, err = r.leased(ctx); err == nil && leased >= places*usedShare/100 {
			return ""
		}
		return fmt.Sprintf("sessions use %d of %d places (%v)", leased, places, err)
	})
	if took > 0 {
		t := r.tally(r.event)
		t.took, t.limit = append(t.took, took), moveLimit
		r.journal.Event("after %v, sessions use %d of %d places", took.Round(time.Millisecond), leased, places)
	}
	return err
}

// usedShare is how many per cent of all places sessions use when clients wait for all of them: the others are between two sessions.
const usedShare = 85

// leased returns how many connections of all proxies are in use by sessions of clients that are there: those of clients that have just
// left do not count.
func (r *proof) leased(ctx context.Context) (n int, err error) {
	for i, p := range r.proxies {
		s, err := p.Stats(ctx)
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
