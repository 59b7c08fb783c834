//go:build linux

package fleetproof

import (
	"context"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// cutOne cuts a proxy off from PostgreSQL, while clients move.
func cutOne(how way) func(r *proof, ctx context.Context) (time.Time, error) {
	return func(r *proof, ctx context.Context) (time.Time, error) {
		p := r.any()
		r.journal.event("%s is cut off from PostgreSQL", p.name)
		r.database.ways[p.index].become(how)
		r.spread()
		err := r.pause(ctx, time.Second, 12*time.Second)
		r.database.ways[p.index].become(open)
		return time.Now(), err
	}
}

// cutAll cuts all proxies off from PostgreSQL, while clients move.
func cutAll(how way) func(r *proof, ctx context.Context) (time.Time, error) {
	return func(r *proof, ctx context.Context) (time.Time, error) {
		r.journal.event("all proxies are cut off from PostgreSQL")
		r.cut(how)
		r.spread()
		err := r.pause(ctx, time.Second, 12*time.Second)
		r.cut(open)
		r.journal.event("PostgreSQL can be reached again")
		return time.Now(), err
	}
}

func (r *proof) cut(how way) {
	for i := range r.proxies {
		r.database.ways[i].become(how)
	}
}

// restart restarts PostgreSQL.
func restart(how string) func(r *proof, ctx context.Context) (time.Time, error) {
	return func(r *proof, ctx context.Context) (time.Time, error) {
		d := r.database
		end := map[string]func() error{"fast": d.primary.Stop, "immediate": d.primary.Kill, "sigkill": d.primary.Destroy}[how]
		pause := time.Duration(r.dice.Int64N(int64(4 * time.Second)))
		r.journal.event("PostgreSQL is down for %v", pause.Round(time.Millisecond))
		r.spread()
		err := d.restart(ctx, end, pause)
		r.journal.event("PostgreSQL answers again")
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
	r.journal.event("the standby hears no more of PostgreSQL")
	r.database.replication.become(refused)
	return nil
}

func (r *proof) promote(ctx context.Context) (time.Time, error) {
	r.watcher.forgotten(true)
	r.journal.event("PostgreSQL is killed")
	err := r.database.failOver(ctx, time.Duration(r.dice.Int64N(int64(3*time.Second))))
	r.journal.event("the standby has taken its place")
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
	r.journal.event("%s is stopped", p.name)
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
	r.journal.event("%s continues", p.name)
	return time.Now(), p.proceed()
}

// killWhileAway kills a proxy while PostgreSQL is down, and starts it again before or after.
func killWhileAway(r *proof, ctx context.Context) (time.Time, error) {
	r.journal.event("all proxies are cut off from PostgreSQL")
	r.cut(refused)
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
	r.cut(open)
	r.journal.event("PostgreSQL can be reached again")
	at := time.Now()
	if p.process.alive() {
		return at, nil
	}
	if err := r.recover(ctx, "kill-while-away", at, killedLimit); err != nil {
		return at, err
	}
	return r.comeBack(ctx, p)
}
