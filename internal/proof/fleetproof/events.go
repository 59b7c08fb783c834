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

// kind is a kind of events: steps, one after the other.
type kind struct {
	name string
	// limit is how long it may take, from the proof's time at that the steps have noted, until all places of all servers are in use.
	limit time.Duration
	steps []step
}

// step is a part of an event. It is about the proof's subjects, and notes in its time at since when all places can be used.
type step func(r *proof, ctx context.Context) error

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
	{"kill", killedLimit, []step{choose(1), kill, avoid, recovered(killedLimit), comeBack}},
	{"kill-restart", killedLimit, []step{choose(1), kill, comeBack}},
	{"kill-elsewhere", killedLimit, []step{choose(1), kill, moveAway, comeBack}},
	{"kill-two", killedLimit, []step{choose(2), kill, avoid, recovered(killedLimit), comeBack}},
	{"forget", moveLimit, []step{choose(1), kill, forgotten, recovered(moveLimit), moveAway, comeBack}},
	{"stop", killedLimit, []step{choose(1), freeze, stayFrozen, proceed}},
	{"drain", killedLimit, []step{choose(1), drain, recovered(moveLimit), comeBack}},
	{"upgrade", killedLimit, []step{choose(1), upgrade, spread, oldEnds}},
	{"upgrade-kill", killedLimit, []step{choose(1), upgrade, pause(0, 2*time.Second), killOld}},
	{"cut-reset", killedLimit, []step{choose(1), cut(kit.Refused), spread, pause(time.Second, 12*time.Second), mend}},
	{"cut-hang", killedLimit, []step{choose(1), cut(kit.Hanging), spread, pause(time.Second, 12*time.Second), mend}},
	{"cut-all-reset", killedLimit, []step{chooseAll, cut(kit.Refused), spread, pause(time.Second, 12*time.Second), mend}},
	{"cut-all-hang", killedLimit, []step{chooseAll, cut(kit.Hanging), spread, pause(time.Second, 12*time.Second), mend}},
	{"restart-fast", epochLimit, []step{spread, restart("fast")}},
	{"restart-immediate", epochLimit, []step{spread, restart("immediate")}},
	{"restart-sigkill", epochLimit, []step{spread, restart("sigkill")}},
	{"failover", epochLimit, []step{forgetful, spread, pause(500*time.Millisecond, 4*time.Second), promote}},
	// A new process of a proxy, of which the standby has never heard, is stopped while the standby takes over.
	{"failover-newcomer", epochLimit, append([]step{forgetful, choose(1), kill, comeBack, pause(time.Second, 4*time.Second)}, promoteWithout...)},
	// Clients move, and so places, to a proxy that is stopped while the standby takes over.
	{"failover-stopped", epochLimit, append([]step{forgetful, choose(1), gather, pause(2*time.Second, 4*time.Second)}, promoteWithout...)},
	{"kill-while-away", epochLimit, []step{
		chooseAll, cut(kit.Refused), pause(0, 2*time.Second), choose(1), kill, avoid, sometimes(comeBack), pause(time.Second, 5*time.Second), mend,
		ifDead(recovered(killedLimit)), ifDead(comeBack),
	}},
	{"raise-cap", moveLimit, []step{raiseCap}},
	{"lower-cap", sessionLimit, []step{lowerCap}},
	{"drain-backend", moveLimit, []step{drainBackend}},
	{"move-clients", moveLimit, []step{moveClients}},
	{"swap-clients", moveLimit, []step{swapClients}},
}

// act makes a step of something that cannot fail.
func act(do func(r *proof)) step {
	return func(r *proof, _ context.Context) error {
		do(r)
		return nil
	}
}

// each makes a step of what is done to each subject.
func each(do func(r *proof, ctx context.Context, p *proxy) error) step {
	return func(r *proof, ctx context.Context) error {
		for _, p := range r.subjects {
			if err := do(r, ctx, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// choose has the following steps be about n random proxies, and chooseAll about all.
func choose(n int) step {
	return act(func(r *proof) {
		first := r.any().index
		r.subjects = nil
		for i := range n {
			r.subjects = append(r.subjects, r.proxies[(first+i)%len(r.proxies)])
		}
	})
}

var chooseAll = act(func(r *proof) { r.subjects = r.proxies })

// pause waits for a random time.
func pause(least, most time.Duration) step {
	return func(r *proof, ctx context.Context) error { return r.pause(ctx, least, most) }
}

// sometimes takes a step half of the times, and ifDead if the subject does not run.
func sometimes(s step) step {
	return func(r *proof, ctx context.Context) error {
		if r.dice.IntN(2) == 0 {
			return s(r, ctx)
		}
		return nil
	}
}

func ifDead(s step) step {
	return func(r *proof, ctx context.Context) error {
		if r.subjects[0].Alive() {
			return nil
		}
		return s(r, ctx)
	}
}

// spread moves clients, and avoid moves those of the subjects to the others.
var (
	spread = act((*proof).spread)
	avoid  = act(func(r *proof) { r.avoid(r.subjects...) })
)

// recovered waits until all places are in use by the other proxies, if there are any.
func recovered(limit time.Duration) step {
	return func(r *proof, ctx context.Context) error {
		if len(r.subjects) == len(r.proxies) {
			return nil
		}
		return r.recover(ctx, r.event, r.at, limit)
	}
}

// kill kills the subjects, whose sessions may end.
var kill = act(func(r *proof) {
	for _, p := range r.subjects {
		r.journal.Event("%s is killed", p.Name)
		r.crowd.excuse(p.index, "the proxy was killed", false)
		p.kill()
	}
	r.at = time.Now()
})

// moveAway has the subjects come back elsewhere: with a new state directory, and at another address of the admin API.
var moveAway = each(func(_ *proof, _ context.Context, p *proxy) error { return p.moveAway() })

// comeBack starts the subjects again.
var comeBack = each(func(r *proof, ctx context.Context, p *proxy) error {
	begin := time.Now()
	if err := p.start(ctx); err != nil {
		return err
	}
	r.journal.Event("%s answers again after %v", p.Name, time.Since(begin).Round(time.Millisecond))
	r.crowd.pardon(p.index, time.Now())
	r.spread()
	r.at = time.Now()
	return nil
})

// forgotten has an operator say that the subject, which was killed, is dead. There is no proof of that: its address answers no more, but refuses
// nothing, as that of a host that is gone.
var forgotten = each(func(r *proof, ctx context.Context, p *proxy) error {
	silent, err := net.Listen("tcp", p.admin)
	if err != nil {
		return err
	}
	defer silent.Close()
	r.avoid(p)
	if err := r.pause(ctx, fleet.Unseen+fleet.HeartbeatInterval, fleet.Unseen+4*time.Second); err != nil {
		return err
	}
	other := r.proxies[(p.index+1)%len(r.proxies)]
	// It would fail if others had found a proof.
	if _, err := kit.Operate(ctx, r.options.Binary, "proxy", "forget", p.Name, "--yes", "--admin", "unix:"+other.Socket()); err != nil {
		return err
	}
	r.at = time.Now()
	r.journal.Event("%s is forgotten", p.Name)
	return nil
})

// freeze stops the subject, and proceed continues it.
var (
	freeze = each(func(r *proof, _ context.Context, p *proxy) error {
		r.journal.Event("%s is stopped", p.Name)
		return p.freeze()
	})
	proceed = each(func(r *proof, _ context.Context, p *proxy) error {
		r.journal.Event("%s continues", p.Name)
		r.at = time.Now()
		return p.proceed()
	})
)

// stayFrozen waits for longer than the lease time, so that the others suspect the subject. Its places stay its own.
var stayFrozen = each(func(r *proof, ctx context.Context, p *proxy) error {
	least, most := fleet.Lease+2*time.Second, 16*time.Second
	if r.options.Stop > 0 {
		least, most = r.options.Stop, r.options.Stop
	}
	if t := r.options.GrantTimeout; t > 0 && most >= t {
		r.watcher.excuse(p.source)
	}
	return r.pause(ctx, least, most)
})

// drain ends the subject in order. Sessions end by themselves; waiting clients are refused.
var drain = each(func(r *proof, _ context.Context, p *proxy) error {
	r.journal.Event("%s drains", p.Name)
	r.crowd.excuse(p.index, "the proxy drained", true)
	begin := time.Now()
	r.avoid(p)
	if err := p.End(drainTimeout + kit.StartTimeout); err != nil {
		return err
	}
	r.at = time.Now()
	r.journal.Event("%s has ended after %v", p.Name, r.at.Sub(begin).Round(time.Millisecond))
	return nil
})

// upgrade has another process take over from the subject.
var upgrade = each(func(r *proof, ctx context.Context, p *proxy) error {
	begin := time.Now()
	if _, err := p.Upgrade(ctx, cmp.Or(r.options.Upgraded, r.options.Binary), nil); err != nil {
		return err
	}
	p.replaced = time.Now()
	r.journal.Event("a new process has taken over from %s after %v", p.Name, time.Since(begin).Round(time.Millisecond))
	return nil
})

// oldEnds waits until the process that was replaced has ended, and killOld kills it while it drains.
var (
	oldEnds = each(func(r *proof, _ context.Context, p *proxy) error {
		begin := time.Now()
		err := p.takeReplaced().WaitForSuccess(drainTimeout + kit.StartTimeout)
		r.journal.Event("the old process of %s has ended after %v", p.Name, time.Since(begin).Round(time.Millisecond))
		r.at = time.Now()
		return err
	})
	killOld = each(func(r *proof, _ context.Context, p *proxy) error {
		r.journal.Event("the old process of %s is killed", p.Name)
		r.crowd.excuse(p.index, "the old process was killed after an upgrade", false)
		p.takeReplaced().Kill()
		r.crowd.pardon(p.index, p.replaced)
		r.at = time.Now()
		return nil
	})
)
