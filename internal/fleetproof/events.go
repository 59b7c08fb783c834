//go:build linux

package fleetproof

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/spelling"
)

// kind is a kind of events.
type kind struct {
	name string
	// limit is how long it may take, from the time that happen returns, until all places of all servers are in use.
	limit time.Duration
	// happen has one happen. It returns since when all places can be used, or the zero time if it has waited for that itself.
	happen func(r *proof, ctx context.Context) (time.Time, error)
	// possible reports whether it can happen; nil for always.
	possible func(r *proof) bool
}

const (
	// killedLimit is after how long the places of a proxy that was killed are others'.
	killedLimit = 5 * time.Second
	// moveLimit is how long places take to move to where clients wait.
	moveLimit = 2 * time.Second
	// epochLimit is how long it takes until places move after the database was restarted or failed over: the lease time, the beats in which
	// all proxies say what they hold, and the time that a proxy takes to connect again.
	epochLimit = fleet.Lease + 5*time.Second
	// sessionLimit is the longest time that a session may last.
	sessionLimit = 10 * time.Second
)

var kinds = []kind{
	{name: "kill", limit: killedLimit, happen: kill},
	{name: "kill-restart", limit: killedLimit, happen: killRestart},
	{name: "kill-elsewhere", limit: killedLimit, happen: killElsewhere},
	{name: "kill-two", limit: killedLimit, happen: killTwo},
	{name: "forget", limit: moveLimit, happen: forget},
	{name: "stop", limit: killedLimit, happen: stop},
	{name: "drain", limit: killedLimit, happen: drain},
	{name: "upgrade", limit: killedLimit, happen: upgrade},
	{name: "upgrade-kill", limit: killedLimit, happen: upgradeKill},
	{name: "cut-reset", limit: killedLimit, happen: cutOne(refused)},
	{name: "cut-hang", limit: killedLimit, happen: cutOne(hanging)},
	{name: "cut-all-reset", limit: killedLimit, happen: cutAll(refused)},
	{name: "cut-all-hang", limit: killedLimit, happen: cutAll(hanging)},
	{name: "restart-fast", limit: epochLimit, happen: restart("fast")},
	{name: "restart-immediate", limit: epochLimit, happen: restart("immediate")},
	{name: "restart-sigkill", limit: epochLimit, happen: restart("sigkill")},
	{name: "failover", limit: epochLimit, happen: failOver},
	{name: "failover-newcomer", limit: epochLimit, happen: failOverNewcomer},
	{name: "failover-stopped", limit: epochLimit, happen: failOverStopped},
	{name: "kill-while-away", limit: epochLimit, happen: killWhileAway},
	{name: "raise-cap", limit: moveLimit, happen: raiseCap},
	{name: "lower-cap", limit: sessionLimit, happen: lowerCap},
	{name: "drain-backend", limit: moveLimit, happen: drainBackend},
	{name: "move-clients", limit: moveLimit, happen: moveClients},
	{name: "swap-clients", limit: moveLimit, happen: swapClients},
}

// kindNamed returns the kind of events with a name.
func kindNamed(name string) (kind, error) {
	var names []string
	for _, k := range kinds {
		if k.name == name {
			return k, nil
		}
		names = append(names, k.name)
	}
	return kind{}, spelling.Unknown("event", name, names)
}

// kill kills a proxy; the others take its places; then it comes back with the same state directory.
func kill(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	r.kill(p)
	at := time.Now()
	r.avoid(p)
	if err := r.recover(ctx, "kill", at, killedLimit); err != nil {
		return at, err
	}
	return r.comeBack(ctx, p)
}

// kill kills a proxy, whose sessions may end.
func (r *proof) kill(p *proxy) {
	r.journal.event("%s is killed", p.name)
	r.crowd.excuse(p.index, "the proxy was killed", false)
	p.kill()
}

// comeBack starts a proxy again.
func (r *proof) comeBack(ctx context.Context, p *proxy) (time.Time, error) {
	begin := time.Now()
	if err := p.start(ctx); err != nil {
		return begin, err
	}
	r.journal.event("%s answers again after %v", p.name, time.Since(begin).Round(time.Millisecond))
	r.crowd.pardon(p.index)
	r.spread()
	return time.Now(), nil
}

// killRestart kills a proxy, and starts it again at once with the same state directory.
func killRestart(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	r.kill(p)
	return r.comeBack(ctx, p)
}

// killElsewhere kills a proxy, and starts another at once in its place, with a new state directory and at another address of the admin API.
func killElsewhere(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	r.kill(p)
	p.moveState()
	if err := p.moveAdmin(); err != nil {
		return time.Time{}, err
	}
	return r.comeBack(ctx, p)
}

// killTwo kills two proxies at once. If there are only two, one is left with none.
func killTwo(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	q := r.proxies[(p.index+1)%len(r.proxies)]
	r.kill(p)
	r.kill(q)
	at := time.Now()
	if len(r.proxies) > 2 {
		r.avoid(p, q)
		if err := r.recover(ctx, "kill-two", at, killedLimit); err != nil {
			return at, err
		}
	}
	if _, err := r.comeBack(ctx, p); err != nil {
		return at, err
	}
	return r.comeBack(ctx, q)
}

// forget kills a proxy of whose death there is no proof: its address answers no more, but refuses nothing, as that of a host that is gone. An
// operator says that it is dead.
func forget(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	r.kill(p)
	silent, err := net.Listen("tcp", p.admin)
	if err != nil {
		return time.Time{}, err
	}
	defer silent.Close()
	r.avoid(p)
	if err := r.pause(ctx, fleet.Unseen+fleet.Beat, fleet.Unseen+4*time.Second); err != nil {
		return time.Time{}, err
	}
	other := r.proxies[(p.index+1)%len(r.proxies)]
	command := exec.CommandContext(ctx, r.options.Binary, "proxy", "forget", p.name, "--yes", "--admin", "http://"+other.admin)
	if out, err := command.CombinedOutput(); err != nil { // it would if others had found a proof
		return time.Time{}, fmt.Errorf("wsbouncer proxy forget %s: %w\n%s", p.name, err, out)
	}
	at := time.Now()
	r.journal.event("%s is forgotten", p.name)
	if err := r.recover(ctx, "forget", at, moveLimit); err != nil {
		return at, err
	}
	p.moveState()
	if err := p.moveAdmin(); err != nil {
		return at, err
	}
	return r.comeBack(ctx, p)
}

// stop stops a proxy for longer than the lease time, so that the others suspect it, and continues it. Its places stay its own.
func stop(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	least, most := fleet.Lease+2*time.Second, 16*time.Second
	if r.options.Stop > 0 {
		least, most = r.options.Stop, r.options.Stop
	}
	if err := r.stopFor(ctx, p, least, most); err != nil {
		return time.Time{}, err
	}
	return time.Now(), nil
}

// stopFor stops a proxy for a random time.
func (r *proof) stopFor(ctx context.Context, p *proxy, least, most time.Duration) error {
	r.journal.event("%s is stopped", p.name)
	if err := p.freeze(); err != nil {
		return err
	}
	if t := r.options.GrantTimeout; t > 0 && most >= t {
		r.watcher.excuse(p.source)
	}
	if err := r.pause(ctx, least, most); err != nil {
		return err
	}
	r.journal.event("%s continues", p.name)
	return p.proceed()
}

// drain ends a proxy in order and starts it again. Sessions end by themselves; waiting clients are refused.
func drain(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	r.journal.event("%s drains", p.name)
	r.crowd.excuse(p.index, "the proxy drained", true)
	begin := time.Now()
	r.avoid(p)
	if err := p.drain(); err != nil {
		return begin, err
	}
	at := time.Now()
	r.journal.event("%s has ended after %v", p.name, at.Sub(begin).Round(time.Millisecond))
	if err := r.recover(ctx, "drain", at, moveLimit); err != nil {
		return at, err
	}
	return r.comeBack(ctx, p)
}

// upgrade has another process take over from a proxy, while clients come, and waits until the old one has ended.
func upgrade(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	begin := time.Now()
	if err := p.upgrade(ctx, r.upgraded()); err != nil {
		return begin, err
	}
	r.journal.event("a new process has taken over from %s after %v", p.name, time.Since(begin).Round(time.Millisecond))
	r.spread()
	err := p.old.wait(drainTimeout + startTimeout)
	r.journal.event("the old process of %s has ended after %v", p.name, time.Since(begin).Round(time.Millisecond))
	p.old = nil
	return time.Now(), err
}

func (r *proof) upgraded() string {
	if r.options.Upgraded != "" {
		return r.options.Upgraded
	}
	return r.options.Binary
}

// upgradeKill has another process take over from a proxy, and kills the old one while it drains.
func upgradeKill(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	if err := p.upgrade(ctx, r.upgraded()); err != nil {
		return time.Time{}, err
	}
	if err := r.pause(ctx, 0, 2*time.Second); err != nil {
		return time.Time{}, err
	}
	r.journal.event("the old process of %s is killed", p.name)
	r.crowd.excuse(p.index, "the old process was killed after an upgrade", false)
	p.old.kill()
	p.old = nil
	r.crowd.pardon(p.index)
	return time.Now(), nil
}

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
