package explore

import (
	"fmt"
	"slices"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// step is something that can happen in a world.
type step struct {
	name string // if names are wanted
	to   *world
}

// steps returns all that can happen in a world.
func (w *world) steps(o *Options) []step {
	var all []step
	add := func(to *world, format string, args ...any) {
		to.settleFaults()
		to.settleAccounts(o)
		s := step{to: to}
		if o.named {
			s.name = fmt.Sprintf(format, args...)
		}
		all = append(all, s)
	}
	for i, p := range w.procs {
		if p.dead {
			if w.left.Restarts > 0 {
				c, _ := w.next(i)
				c.left.Restarts--
				c.procs[i] = c.spawn(i)
				add(c, "%s starts in the place of %s", c.procs[i].id, p.id)
			}
			continue
		}
		w.exchanges(o, i, add)
		w.faults(o, i, add)
	}
	for i := range w.flight {
		c, _ := w.next(0)
		r := c.flight[i].report
		if late := c.flight[i].answer; late != nil {
			c.flight = slices.Delete(c.flight, i, i+1)
			if j := slices.IndexFunc(c.procs, func(p *process) bool { return p.id == r.ID && !p.dead }); j >= 0 {
				var p *process
				c, p = c.next(j)
				most := p.may()
				p.own().holder.Answered(r, late, 0, 0)
				p.limit = p.holder.Limit(server)
				p.rest(most)
			}
			add(c, "the answer to report %d of %s arrives", r.Sequence, r.ID)
			continue
		}
		c.flight = slices.Delete(c.flight, i, i+1)
		c.exchange(o, r)
		add(c, "report %d of %s arrives", r.Sequence, r.ID)
	}
	if w.left.Total > 0 && w.left.Databases > 0 {
		for lost := range 1 + min(len(w.commits), w.left.Lost) {
			c, _ := w.next(0)
			c.left.Total--
			c.left.Databases--
			c.databases++
			c.identity = c.databases
			c.old, c.oldIdentity = w.ledger, w.identity
			if lost > 0 {
				c.ledger = w.commits[len(w.commits)-lost]
			}
			c.commits = nil
			add(c, "the database is another, without the last %d commits", lost)
		}
		if w.old != nil && w.allMovedOn() {
			c, _ := w.next(0)
			c.left.Total--
			c.left.Databases--
			c.left.Restarts = 0
			c.ledger, c.old = c.old, c.ledger
			c.identity, c.oldIdentity = c.oldIdentity, c.identity
			c.commits = nil
			add(c, "the old database is back")
		}
	}
	if w.left.Total > 0 && w.left.Forgets > 0 {
		for i, p := range w.procs {
			if w.ledger.Members[p.id] == nil {
				continue
			}
			c, q := w.next(i)
			c.left.Total--
			c.left.Forgets--
			c.ledger = w.ledger.Clone()
			c.ledger.Forget(p.id)
			q.declared = !p.dead
			add(c, "an operator forgets %s", p.id)
		}
	}
	return all
}

// allMovedOn reports whether all living processes have heard of an epoch that the old database never had. If it came back to serve others,
// nothing could tell them: that is why a failover must fence the old database off.
func (w *world) allMovedOn() bool {
	return !slices.ContainsFunc(w.procs, func(p *process) bool {
		if p.dead {
			return false
		}
		e := p.known().Epoch
		return e == "" || e == w.old.Epoch || slices.ContainsFunc(w.old.Past, func(past fleet.PastEpoch) bool { return past.Epoch == e })
	})
}

// choices are what a process may do by itself before an exchange: open and close connections within its limit, and need places or not.
// Nothing else depends on the moment at which it does so, and [process.may] is what others have to reckon with until then. How many
// connections it has within its limit matters only to one that will hear that it was forgotten.
func (w *world) choices(o *Options, p *process) (all []choice) {
	used := []int{0}
	if p.used > p.limit || slices.ContainsFunc(w.ledger.Departed, func(d fleet.Departed) bool { return d.ID == p.id }) {
		for n := 1; n <= p.may(); n++ {
			used = append(used, n)
		}
	}
	for _, n := range used {
		all = append(all, choice{n, 0}, choice{n, o.Cap})
	}
	return all
}

// choice is how many connections a process has, and how many places it needs.
type choice struct{ used, demand int }

// exchanges adds the exchanges of a process.
func (w *world) exchanges(o *Options, i int, add func(*world, string, ...any)) {
	id, s := w.procs[i].id, w.procs[i].known()
	for _, q := range w.procs {
		if _, known := s.Find(q.id); known && q.dead && !slices.Contains(s.Dead, q.id) {
			c, p := w.next(i)
			p.own().holder.Died(q.id)
			add(c, "%s proves that %s is dead", id, q.id)
		}
	}
	settles, cuts := false, []int(nil)
	if !s.Settled && s.Epoch == w.ledger.Epoch && w.ledger.Identity == fmt.Sprint(w.identity) {
		settles, cuts = w.maySettle(i)
	}
	for _, choice := range w.choices(o, w.procs[i]) {
		most := max(w.procs[i].limit, choice.used) // until it has lower limits, it may open connections
		begin := func(settle bool) (*world, *process, *fleet.Report) {
			c, p := w.next(i)
			p.cut = false
			p.own().used, p.demand = choice.used, choice.demand
			return c, p, p.report(o.Cap, settle)
		}
		say := func(c *world, format string, args ...any) {
			c.procs[i].rest(most)
			add(c, "%s has %d connections and needs %d: "+format, append([]any{id, choice.used, choice.demand}, args...)...)
		}
		c, p, r := begin(false)
		c.answered(p, r, c.exchange(o, r))
		say(c, "an exchange")

		if settles {
			c, p, r = begin(true)
			for _, j := range cuts {
				c.cutOff(j)
			}
			c.answered(p, r, c.exchange(o, r))
			say(c, "an exchange after a lease time")
		}
		if w.left.Losses > 0 {
			c, p, r = begin(false)
			p.failed(r)
			c.left.Losses--
			say(c, "a request is lost")

			c, p, r = begin(false)
			c.exchange(o, r)
			p.failed(r)
			c.left.Losses--
			say(c, "an answer is lost")
		}
		if w.left.Total > 0 && w.left.Delays > 0 {
			c, p, r = begin(false)
			p.failed(r)
			c.flight = append(c.flight, delayed{report: r})
			c.left.Total--
			c.left.Delays--
			say(c, "report %d is delayed", r.Sequence)

			c, p, r = begin(false)
			late := c.exchange(o, r)
			p.failed(r)
			c.flight = append(c.flight, delayed{r, late})
			c.left.Total--
			c.left.Delays--
			say(c, "the answer to report %d is delayed", r.Sequence)
		}
		for _, q := range w.procs {
			beats, known := s.Find(q.id)
			if !known || q.id == id || !q.expired && !(q.dead && w.left.Total > 0 && w.left.Timeouts > 0) {
				continue
			}
			c, p, r = begin(false)
			r.Dead = append(r.Dead, fleet.Death{ID: q.id, Beats: beats})
			c.answered(p, r, c.exchange(o, r))
			if q.dead {
				c.left.Total--
				c.left.Timeouts--
			}
			say(c, "the time-out of %s has passed", q.id)
			if w.left.Total > 0 && w.left.Delays > 0 && q.expired {
				c, p, r = begin(false)
				r.Dead = append(r.Dead, fleet.Death{ID: q.id, Beats: beats})
				p.failed(r)
				c.flight = append(c.flight, delayed{report: r})
				c.left.Total--
				c.left.Delays--
				say(c, "report %d, that the time-out of %s has passed, is delayed", r.Sequence, q.id)
			}
		}
	}
}

// faults adds what can go wrong with a process.
func (w *world) faults(o *Options, i int, add func(*world, string, ...any)) {
	id, p := w.procs[i].id, w.procs[i]
	cuts := 1
	if p.cut {
		cuts = 0
	}
	if !p.expired && w.left.Total > cuts && w.left.Cuts >= cuts && w.left.Timeouts > 0 && p.known().Epoch != "" {
		for used := range p.may() + 1 {
			c, q := w.next(i)
			if !p.cut {
				q = c.cutOff(i)
			}
			q.own().expired = true
			q.used = used
			q.holder.Use(server, fleet.Usage{Cap: o.Cap, Used: q.used})
			q.holder.Expire(q.now())
			q.limit = q.holder.Limit(server)
			if q.limit > used {
				c.wrong = fmt.Sprintf("%s may use %d places after its time-out, and uses %d", id, q.limit, used)
			}
			q.rest(used)
			c.left.Total--
			c.left.Timeouts--
			add(c, "the time-out of %s passes, which has %d connections", id, used)
		}
	}
	if w.left.Total == 0 {
		return
	}
	if w.left.Crashes > 0 {
		c, q := w.next(i)
		*q = process{id: p.id, birth: p.birth, dead: true}
		c.left.Total--
		c.left.Crashes--
		add(c, "%s crashes", id)
	}
}

// cutOff says that a process has been cut off from the database since its last exchange. That is not a step by itself: until something depends on it,
// a process that is cut off is one that makes no exchange, which every process may do at any time. The cut ends with its next exchange.
func (w *world) cutOff(i int) *process {
	p := *w.procs[i]
	p.cut = true
	w.procs[i] = &p
	w.left.Total--
	w.left.Cuts--
	return &p
}
