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

// cutOne cuts a proxy off from PostgreSQL, while clients move.
func cutOne(how kit.Way) func(r *proof, ctx context.Context) (time.Time, error) {
	return func(r *proof, ctx context.Context) (time.Time, error) {
		p := r.any()
		r.journal.Event("%s is cut off from PostgreSQL", p.Name)
		r.database.ways[p.index].Become(how)
		r.spread()
		err := r.pause(ctx, time.Second, 12*time.Second)
		r.database.ways[p.index].Become(kit.Open)
		return time.Now(), err
	}
}

// cutAll cuts all proxies off from PostgreSQL, while clients move.
func cutAll(how kit.Way) func(r *proof, ctx context.Context) (time.Time, error) {
	return func(r *proof, ctx context.Context) (time.Time, error) {
		r.journal.Event("all proxies are cut off from PostgreSQL")
		r.cut(how)
		r.spread()
		err := r.pause(ctx, time.Second, 12*time.Second)
		r.cut(kit.Open)
		r.journal.Event("PostgreSQL can be reached again")
		return time.Now(), err
	}
}

func (r *proof) cut(how kit.Way) {
	for i := range r.proxies {
		r.database.ways[i].Become(how)
	}
}

// restart restarts PostgreSQL.
func restart(how string) func(r *proof, ctx context.Context) (time.Time, error) {
	return func(r *proof, ctx context.Context) (time.Time, error) {
		d := r.database
		end := map[string]func() error{"fast": d.primary.Stop, "immediate": d.primary.Kill, "sigkill": d.primary.Destroy}[how]
		pause := kit.Between(r.dice, 0, 4*time.Second)
		r.journal.Event("PostgreSQL is down for %v", pause.Round(time.Millisecond))
		r.spread()
		err := d.restart(ctx, end, pause)
		r.journal.Event("PostgreSQL answers again")
		return time.Now(), err
	}
}

// failOver replaces PostgreSQL by a standby that misses the last commits: places have moved since, and proxies have come or gone.
func failOver(r *proof, ctx context.Context) (time.Time, error) {
	if err := r.forgetful(ctx); err != nil {
		return time.Time{}, err
	}
	r.spread()
	if err := r.pause(ctx, 500*time.Millisecond, 4*time.Second); err != nil {
		return time.Time{}, err
	}
	return r.promote(ctx)
}

// forgetful makes a standby, and stops what it hears of the primary.
func (r *proof) forgetful(ctx context.Context) error {
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

func (r *proof) promote(ctx context.Context) (time.Time, error) {
	r.watcher.update(func() { r.watcher.forgot = true })
	r.journal.Event("PostgreSQL is killed")
	err := r.database.failOver(ctx, kit.Between(r.dice, 0, 3*time.Second))
	r.journal.Event("the standby has taken its place")
	return time.Now(), err
}

// failOverNewcomer starts a new process of a proxy, of which the standby has never heard, and stops it while the standby takes over.
func failOverNewcomer(r *proof, ctx context.Context) (time.Time, error) {
	if err := r.forgetful(ctx); err != nil {
		return time.Time{}, err
	}
	p := r.any()
	r.kill(p)
	if _, err := r.comeBack(ctx, p); err != nil {
		return time.Time{}, err
	}
	if err := r.pause(ctx, time.Second, 4*time.Second); err != nil { // it gets places
		return time.Time{}, err
	}
	return r.promoteWithout(ctx, p)
}

// failOverStopped moves clients, and so places, to a proxy, and stops it while the standby takes over.
func failOverStopped(r *proof, ctx context.Context) (time.Time, error) {
	if err := r.forgetful(ctx); err != nil {
		return time.Time{}, err
	}
	p := r.any()
	for i := range r.shares {
		r.shares[i] = 1
	}
	r.shares[p.index] = 20
	r.crowd.place(r.proxies, r.options.Sessions, r.shares, false)
	if err := r.pause(ctx, 2*time.Second, 4*time.Second); err != nil {
		return time.Time{}, err
	}
	return r.promoteWithout(ctx, p)
}

// promoteWithout makes the standby the primary while a proxy is stopped, which continues after the lease time.
func (r *proof) promoteWithout(ctx context.Context, p *proxy) (time.Time, error) {
	r.journal.Event("%s is stopped", p.Name)
	if err := p.freeze(); err != nil {
		return time.Time{}, err
	}
	if _, err := r.promote(ctx); err != nil {
		return time.Time{}, err
	}
	r.spread()
	if err := r.pause(ctx, fleet.Lease+3*time.Second, fleet.Lease+8*time.Second); err != nil {
		return time.Time{}, err
	}
	r.journal.Event("%s continues", p.Name)
	return time.Now(), p.proceed()
}

// killWhileAway kills a proxy while PostgreSQL is down, and starts it again before or after.
func killWhileAway(r *proof, ctx context.Context) (time.Time, error) {
	r.journal.Event("all proxies are cut off from PostgreSQL")
	r.cut(kit.Refused)
	if err := r.pause(ctx, 0, 2*time.Second); err != nil {
		return time.Time{}, err
	}
	p := r.any()
	r.kill(p)
	r.avoid(p)
	if r.dice.IntN(2) == 0 {
		if _, err := r.comeBack(ctx, p); err != nil {
			return time.Time{}, err
		}
	}
	if err := r.pause(ctx, time.Second, 5*time.Second); err != nil {
		return time.Time{}, err
	}
	r.cut(kit.Open)
	r.journal.Event("PostgreSQL can be reached again")
	at := time.Now()
	if p.Alive() {
		return at, nil
	}
	if err := r.recover(ctx, "kill-while-away", at, killedLimit); err != nil {
		return at, err
	}
	return r.comeBack(ctx, p)
}

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
	return time.Time{}, err
}

// setCap changes the cap of a server.
func (r *proof) setCap(ctx context.Context, s *server, to int) error {
	r.journal.Event("the cap of %s changes from %d to %d", s.name, s.cap, to)
	if to > s.cap {
		r.watcher.update(func() { s.seen.cap, s.seen.limit = to, max(s.seen.limit, to) })
	}
	if err := r.operate(ctx, "backend", "set", s.name, "--connections", strconv.Itoa(to)); err != nil {
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
	r.watcher.update(func() { s.seen.drained = true })
	defer r.watcher.update(func() { s.seen.drained = false })
	r.journal.Event("%s is drained", s.name)
	if err := r.operate(ctx, "backend", "set", s.name, "--state", "draining"); err != nil {
		return time.Time{}, err
	}
	if err := r.pause(ctx, 0, 3*time.Second); err != nil {
		return time.Time{}, err
	}
	if err := r.operate(ctx, "backend", "set", s.name, "--state", "disabled"); err != nil {
		return time.Time{}, err
	}
	took, err := r.expect(ctx, "a disabled server kept connections", s.name, sessionLimit, func() string {
		if n := r.watcher.count(s.seen); n > 0 {
			return fmt.Sprintf("%s has %d connections, and was disabled", s.name, n)
		}
		return ""
	})
	if err != nil {
		return time.Time{}, err
	}
	r.journal.Event("%s has no connections after %v", s.name, took.Round(time.Millisecond))
	err = r.operate(ctx, "backend", "set", s.name, "--state", "enabled")
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
		t := r.tally(event)
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
