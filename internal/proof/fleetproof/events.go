//go:build linux

package fleetproof

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// kind is a kind of events.
type kind struct {
	name string
	// limit is how long it may take, from the time that happen returns, until all places of all servers are in use.
	limit time.Duration
	// happen has one happen. It returns since when all places can be used, or the zero time if it has waited for that itself.
	happen func(r *proof, ctx context.Context) (time.Time, error)
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
	{name: "kill", limit: killedLimit, happen: killing("kill", 1, false, false)},
	{name: "kill-restart", limit: killedLimit, happen: killing("kill-restart", 1, true, false)},
	{name: "kill-elsewhere", limit: killedLimit, happen: killing("kill-elsewhere", 1, true, true)},
	{name: "kill-two", limit: killedLimit, happen: killing("kill-two", 2, false, false)},
	{name: "forget", limit: moveLimit, happen: forget},
	{name: "stop", limit: killedLimit, happen: stop},
	{name: "drain", limit: killedLimit, happen: drain},
	{name: "upgrade", limit: killedLimit, happen: upgrade},
	{name: "upgrade-kill", limit: killedLimit, happen: upgradeKill},
	{name: "cut-reset", limit: killedLimit, happen: cutOne(kit.Refused)},
	{name: "cut-hang", limit: killedLimit, happen: cutOne(kit.Hanging)},
	{name: "cut-all-reset", limit: killedLimit, happen: cutAll(kit.Refused)},
	{name: "cut-all-hang", limit: killedLimit, happen: cutAll(kit.Hanging)},
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

// killing kills n proxies. The others take their places before they come back, unless they come back immediately. They do with the same state directory,
// or elsewhere: with a new one, and at another address of the admin API.
func killing(name string, n int, immediately, elsewhere bool) func(r *proof, ctx context.Context) (time.Time, error) {
	return func(r *proof, ctx context.Context) (at time.Time, err error) {
		var killed []*proxy
		for first := r.any().index; len(killed) < n; {
			p := r.proxies[(first+len(killed))%len(r.proxies)]
			r.kill(p)
			killed = append(killed, p)
		}
		at = time.Now()
		if !immediately && n < len(r.proxies) {
			r.avoid(killed...)
			err = r.recover(ctx, name, at, killedLimit)
		}
		for _, p := range killed {
			if err == nil && elsewhere {
				err = p.moveAway()
			}
			if err == nil {
				at, err = r.comeBack(ctx, p)
			}
		}
		return at, err
	}
}

// kill kills a proxy, whose sessions may end.
func (r *proof) kill(p *proxy) {
	r.journal.Event("%s is killed", p.Name)
	r.crowd.excuse(p.index, "the proxy was killed", false)
	p.kill()
}

// comeBack starts a proxy again.
func (r *proof) comeBack(ctx context.Context, p *proxy) (time.Time, error) {
	begin := time.Now()
	if err := p.start(ctx); err != nil {
		return begin, err
	}
	r.journal.Event("%s answers again after %v", p.Name, time.Since(begin).Round(time.Millisecond))
	r.crowd.pardon(p.index)
	r.spread()
	return time.Now(), nil
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
	if err := r.pause(ctx, fleet.Unseen+fleet.HeartbeatInterval, fleet.Unseen+4*time.Second); err != nil {
		return time.Time{}, err
	}
	other := r.proxies[(p.index+1)%len(r.proxies)]
	// It would fail if others had found a proof.
	if _, err := kit.Operate(ctx, r.options.Binary, "proxy", "forget", p.Name, "--yes", "--admin", "unix:"+other.Socket()); err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	r.journal.Event("%s is forgotten", p.Name)
	if err := r.recover(ctx, "forget", at, moveLimit); err != nil {
		return at, err
	}
	if err := p.moveAway(); err != nil {
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
	r.journal.Event("%s is stopped", p.Name)
	if err := p.freeze(); err != nil {
		return time.Time{}, err
	}
	if t := r.options.GrantTimeout; t > 0 && most >= t {
		r.watcher.excuse(p.source)
	}
	if err := r.pause(ctx, least, most); err != nil {
		return time.Time{}, err
	}
	r.journal.Event("%s continues", p.Name)
	return time.Now(), p.proceed()
}

// drain ends a proxy in order and starts it again. Sessions end by themselves; waiting clients are refused.
func drain(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	r.journal.Event("%s drains", p.Name)
	r.crowd.excuse(p.index, "the proxy drained", true)
	begin := time.Now()
	r.avoid(p)
	if err := p.End(drainTimeout + kit.StartTimeout); err != nil {
		return begin, err
	}
	at := time.Now()
	r.journal.Event("%s has ended after %v", p.Name, at.Sub(begin).Round(time.Millisecond))
	if err := r.recover(ctx, "drain", at, moveLimit); err != nil {
		return at, err
	}
	return r.comeBack(ctx, p)
}

// upgrade has another process take over from a proxy, while clients come, and waits until the old one has ended.
func upgrade(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	begin := time.Now()
	if _, err := p.Upgrade(ctx, cmp.Or(r.options.Upgraded, r.options.Binary), nil); err != nil {
		return begin, err
	}
	r.journal.Event("a new process has taken over from %s after %v", p.Name, time.Since(begin).Round(time.Millisecond))
	r.spread()
	err := p.takeReplaced().WaitForSuccess(drainTimeout + kit.StartTimeout)
	r.journal.Event("the old process of %s has ended after %v", p.Name, time.Since(begin).Round(time.Millisecond))
	return time.Now(), err
}

// upgradeKill has another process take over from a proxy, and kills the old one while it drains.
func upgradeKill(r *proof, ctx context.Context) (time.Time, error) {
	p := r.any()
	if _, err := p.Upgrade(ctx, cmp.Or(r.options.Upgraded, r.options.Binary), nil); err != nil {
		return time.Time{}, err
	}
	if err := r.pause(ctx, 0, 2*time.Second); err != nil {
		return time.Time{}, err
	}
	r.journal.Event("the old process of %s is killed", p.Name)
	r.crowd.excuse(p.index, "the old process was killed after an upgrade", false)
	p.takeReplaced().Kill()
	r.crowd.pardon(p.index)
	return time.Now(), nil
}
