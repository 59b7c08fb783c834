//go:build linux

package fleetproof

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

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
	if err := r.pause(ctx, fleet.Unseen+fleet.HeartbeatInterval, fleet.Unseen+4*time.Second); err != nil {
		return time.Time{}, err
	}
	other := r.proxies[(p.index+1)%len(r.proxies)]
	command := exec.CommandContext(ctx, r.options.Binary, "proxy", "forget", p.name, "--yes", "--admin", "unix:"+other.socket())
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
