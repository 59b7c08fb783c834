package explore

import (
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

var walks = flag.Int("walks", 4, "how many random walks the test takes of each kind")

// lockstep takes the same steps as a machine with holders and ledgers that are never made flat and whose numbers are never replaced, and
// compares what they are in the normal form. So nothing that the normal form drops can ever matter on these steps.
type lockstep struct {
	t    *testing.T
	o    *Options
	from state // the world of the machine
	to   state // what a step made of it
	at   *world
	done []state // by step
	// names are those of the steps so far.
	names []string
	m     *machine
}

// state is what is not flat of a world.
type state struct {
	proxies    [maxProxies]real
	ledgers    [maxLedgers]*fleet.Ledger
	identities [maxLedgers]string
	flights    []late
	databases  int
	epochs     int
}

type real struct {
	id     fleet.ID
	starts int
	holder *fleet.Holder // nil if it has ended
}

type late struct {
	report *fleet.Report
	answer *fleet.Answer
}

func (s *lockstep) begin() {
	s.to = s.from
	s.to.flights = slices.Clone(s.from.flights)
}

func (s *lockstep) spawn(i int) {
	p := &s.to.proxies[i]
	p.id = fleet.ID([]byte{'a' + byte(i), '0' + byte(p.starts)})
	p.starts++
	p.holder = fleet.NewHolder(fleet.HolderOptions{ID: p.id, Timeout: timeout})
}

// process returns the name of a process of the machine's world, in which IDs are given anew when nothing mentions a process.
func (s *lockstep) process(id uint8) fleet.ID {
	per := s.o.generations()
	position := int(id) / per
	p := &s.from.proxies[position]
	ago := int(s.at.proxies[position].generation) - int(id)%per
	return fleet.ID([]byte{'a' + byte(position), '0' + byte(p.starts-1-ago)})
}

// commit lets a report arrive.
func (s *lockstep) commit(r *fleet.Report) *fleet.Answer {
	was := s.to.ledgers[current]
	l := was.Clone()
	s.to.ledgers[current] = l
	s.to.epochs++
	a := l.Exchange(r, s.to.identities[current], fleet.Epoch(fmt.Sprint("e", s.to.epochs)))
	if !a.Stale {
		s.keep(was)
	}
	return a
}

func (s *lockstep) keep(was *fleet.Ledger) {
	for i := maxLedgers - 1; i > commits; i-- {
		s.to.ledgers[i] = s.to.ledgers[i-1]
	}
	s.to.ledgers[commits] = was
}

func (s *lockstep) exchange(i int, c choice, waits bool, timedOut ids, what outcome) {
	s.begin()
	p := &s.to.proxies[i]
	p.holder = p.holder.Clone()
	at := &s.at.proxies[i]
	for id := range c.proven.all() {
		p.holder.Died(s.process(id))
	}
	now := fleet.Instant(0)
	if at.expired {
		now = fleet.Instant(timeout)
	}
	asked := now
	if waits {
		asked = max(asked, fleet.Instant(fleet.Lease))
	}
	members := p.holder.State().Members
	p.holder.Use(server, usage(s.o.Cap, c.used, c.demand))
	r := p.holder.Report(asked)
	r.Settle = r.Settle && waits
	for id := range timedOut.all() {
		name := s.process(id)
		for _, k := range members {
			if k.ID == name {
				r.Dead = append(r.Dead, fleet.Death{ID: name, Heartbeats: k.Heartbeats})
			}
		}
	}
	var a *fleet.Answer
	if what == answered || what == answerLost || what == answerDelayed {
		a = s.commit(r)
	}
	if what == answered {
		p.holder.Answered(r, a, 0, 0)
		return
	}
	p.holder.Failed(r, now)
	if what == requestDelayed || what == answerDelayed {
		s.to.flights = append(s.to.flights, late{r, a})
	}
}

func (s *lockstep) arrive(flight int) {
	s.begin()
	f := s.to.flights[flight]
	s.to.flights = slices.Delete(s.to.flights, flight, flight+1)
	if f.answer == nil {
		s.commit(f.report)
		return
	}
	for i := range s.to.proxies {
		if p := &s.to.proxies[i]; p.holder != nil && p.id == f.report.ID {
			p.holder = p.holder.Clone()
			p.holder.Answered(f.report, f.answer, 0, 0)
		}
	}
}

func (s *lockstep) expire(i int, used uint8) {
	s.begin()
	p := &s.to.proxies[i]
	p.holder = p.holder.Clone()
	p.holder.Use(server, usage(s.o.Cap, used, 0))
	p.holder.Expire(fleet.Instant(timeout))
}

func (s *lockstep) forget(id uint8) {
	s.begin()
	was := s.to.ledgers[current]
	l := was.Clone()
	s.to.epochs++
	l.Forget(s.process(id), s.to.identities[current], fleet.Epoch(fmt.Sprint("e", s.to.epochs)))
	s.to.ledgers[current] = l
	s.keep(was)
}

func (s *lockstep) database(lost int) {
	s.begin()
	s.to.ledgers[old], s.to.identities[old] = s.to.ledgers[current], s.to.identities[current]
	if lost > 0 {
		s.to.ledgers[current] = s.to.ledgers[commits+lost-1]
	}
	s.to.databases++
	s.to.identities[current] = fmt.Sprint(s.to.databases)
	clear(s.to.ledgers[commits:])
}

func (s *lockstep) back() {
	s.begin()
	s.to.ledgers[current], s.to.identities[current] = s.to.ledgers[old], s.to.identities[old]
	clear(s.to.ledgers[old:])
}

func (s *lockstep) crash(i int) {
	s.begin()
	s.to.proxies[i].holder = nil
}

func (s *lockstep) restart(i int) {
	s.begin()
	s.spawn(i)
}

// compare compares with a world that is not in its normal form yet.
func (s *lockstep) compare(w *world) {
	s.done = append(s.done, s.to)
	want, got := *w, s.flat(w)
	for _, w := range []*world{&want, &got} {
		w.normalise(s.o)
		w.nameEpochs()
	}
	if got != want {
		s.t.Fatalf("after %q the machine has\n%+v\nand real holders and ledgers have\n%+v", append(s.names, s.m.name), want, got)
	}
}

// flat makes a world of the real holders and ledgers. What they do not have is that of another.
func (s *lockstep) flat(w *world) world {
	to := *w
	n := newNames(s.o, []int{0, 1, 2}[:s.o.Proxies])
	// In the machine's world, processes have IDs by how long ago others took their places.
	id := func(name fleet.ID) (fleet.ID, bool) {
		position := int(name[0] - 'a')
		generation := int(w.proxies[position].generation) - (s.to.proxies[position].starts - 1 - int(name[1]-'0'))
		return fleet.ID([]byte{name[0], '0' + byte(generation)}), generation >= 0
	}
	epochs := map[fleet.Epoch]uint8{}
	read := func(e fleet.Epoch, v int64) reader {
		r := reader{known: e != ""}
		if !r.known {
			return r
		}
		if epochs[e] == 0 {
			epochs[e] = uint8(len(epochs) + 1)
		}
		r.epoch = epochs[e]
		for i, l := range s.to.ledgers {
			if !to.ledgers[i].exists || l == nil {
				continue
			}
			past := slices.IndexFunc(l.Past, func(p fleet.PastEpoch) bool { return p.Epoch == e })
			a := l.Accounts[server]
			switch {
			case e == l.Epoch && v > l.Version:
				r.relation[i] = beyond
			case e == l.Epoch && a != nil && a.Version > v:
				r.relation[i] = behind
			case e == l.Epoch:
				r.relation[i] = within
			case past >= 0 && v > l.Past[past].Version:
				r.relation[i] = pastBeyond
			case past >= 0:
				r.relation[i] = pastWithin
			}
		}
		return r
	}
	// seen reports whether a process has made no more exchanges than a reader that knows an epoch has heard of.
	seen := func(e fleet.Epoch, name fleet.ID, heartbeats uint64) bool {
		for i, l := range s.to.ledgers[:commits] {
			if l != nil && l.Epoch == e && l.Identity == s.to.identities[i] && l.Members[name] != nil {
				return l.Members[name].Heartbeats == heartbeats
			}
		}
		return false
	}
	for i := range s.o.Proxies {
		p := &to.proxies[i]
		if p.dead != (s.to.proxies[i].holder == nil) {
			s.t.Fatal("a process lives here and not there")
		}
		if p.dead {
			continue
		}
		state := s.to.proxies[i].holder.State()
		p.at = read(state.Epoch, state.Version)
		h := state
		h.Sequence, h.Lost, h.Dead, h.Members = 0, nil, nil, nil
		for _, name := range state.Lost {
			if name, there := id(name); there {
				h.Lost = append(h.Lost, name)
			}
		}
		for _, name := range state.Dead {
			if name, there := id(name); there {
				h.Dead = append(h.Dead, name)
			}
		}
		fresh := ids(0)
		for _, k := range state.Members {
			if name, there := id(k.ID); there {
				h.Members = append(h.Members, fleet.Known{ID: name})
				if seen(state.Epoch, k.ID, k.Heartbeats) {
					fresh |= one(n.id(name))
				}
			}
		}
		h.Servers = map[string]fleet.ServerState{}
		for name, at := range state.Servers {
			at.Account = s.account(at.Account, id)
			h.Servers[name] = at
		}
		p.holder = n.flatHolder(fleet.RestoreHolder(fleet.HolderOptions{}, &h), s.o.id(i, p), nil)
		p.holder.fresh = fresh
	}
	for i := range to.ledgers {
		if to.ledgers[i].exists {
			l := s.to.ledgers[i].Clone()
			if l.Identity = otherIdentity; s.to.ledgers[i].Identity == s.to.identities[i] {
				l.Identity = identity
			}
			members := map[fleet.ID]*fleet.Member{}
			for name, m := range l.Members {
				if name, there := id(name); there {
					members[name] = m
				}
			}
			l.Members = members
			var departed []fleet.Departed
			for _, d := range l.Departed {
				if name, there := id(d.ID); there {
					departed = append(departed, fleet.Departed{ID: name, Sequence: d.Sequence, Past: d.Past})
				}
			}
			l.Departed = departed
			if a := s.account(l.Accounts[server], id); a != nil {
				l.Accounts[server] = a
			}
			to.ledgers[i] = n.flatLedger(l)
		}
		if i >= commits && to.ledgers[i].exists {
			l, c := s.to.ledgers[current], s.to.ledgers[i]
			to.lag[i] = lagEpoch
			if l.Epoch == c.Epoch {
				to.lag[i] = lagNothing
				if l.Version > c.Version {
					to.lag[i] = lagVersion
				}
			}
		}
	}
	for i, f := range s.to.flights {
		at := &to.flights[i]
		if !at.exists || at.late != (f.answer != nil) {
			s.t.Fatal("something else is under way")
		}
		at.at = read(f.report.Epoch, f.report.Version)
		if f.answer != nil {
			at.at = read(f.answer.Epoch, f.answer.Version)
			at.report.sequence = uint8(f.report.Sequence)
			continue // holders ignore it
		}
		r := *f.report
		r.ID, _ = id(r.ID)
		r.Others, r.Dead = nil, nil
		fresh := ids(0)
		for _, m := range f.report.Others {
			if name, there := id(m.ID); there {
				r.Others = append(r.Others, fleet.Member{ID: name})
			}
		}
		for _, d := range f.report.Dead {
			if name, there := id(d.ID); there {
				r.Dead = append(r.Dead, fleet.Death{ID: name, Proven: d.Proven})
				if !d.Proven && seen(f.report.Epoch, d.ID, d.Heartbeats) {
					fresh |= one(n.id(name))
				}
			}
		}
		at.report = n.flatReport(&r)
		at.report.fresh = fresh
	}
	return to
}

// account returns a copy of an account with other IDs.
func (s *lockstep) account(a *fleet.Account, id func(fleet.ID) (fleet.ID, bool)) *fleet.Account {
	if a == nil {
		return nil
	}
	to := &fleet.Account{Server: a.Server, Version: a.Version}
	for _, g := range a.Grants {
		if name, there := id(g.Proxy); there {
			to.Grants = append(to.Grants, fleet.Grant{Proxy: name, Places: g.Places, Claim: g.Claim})
		}
	}
	return to
}

// TestNothingDroppedMatters walks at random, and compares each step with what real holders and ledgers do that remember everything.
func TestNothingDroppedMatters(t *testing.T) {
	all := Faults{Total: 3, Losses: 1, Delays: 1, Answers: 1, Crashes: 1, Restarts: 1, Cuts: 1, Timeouts: 1, Forgets: 1, Databases: 1, Lost: 2}
	again := all
	again.Databases, again.Timeouts, again.Cuts = 2, 2, 2
	quiet := Faults{Losses: 2}
	for i, o := range []Options{
		{Proxies: 2, Cap: 1, Faults: all},
		{Proxies: 2, Cap: 3, Faults: all},
		{Proxies: 3, Cap: 2, Faults: all},
		{Proxies: 2, Cap: 2, Faults: again},
		{Proxies: 3, Cap: 3, Faults: quiet},
	} {
		o.Ordered = true // real processes keep their IDs
		steps := 0
		for walk := range *walks {
			random := rand.New(rand.NewPCG(uint64(i), uint64(walk)))
			m := newMachine(&o, [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()})
			m.named = true
			s := &lockstep{t: t, o: &o, m: m}
			w := start(&o)
			s.to.ledgers[current] = &fleet.Ledger{Identity: "0", Members: map[fleet.ID]*fleet.Member{}, Accounts: map[string]*fleet.Account{}}
			s.to.identities[current] = "0"
			for position := range o.Proxies {
				s.spawn(position)
			}
			s.from = s.to
			m.beside = s
			for range 40 {
				var worlds []world
				var names []string
				s.at, s.done = w, nil
				m.found = func(w *world, problem string) {
					if problem != "" {
						t.Fatal(problem)
					}
					worlds, names = append(worlds, *w), append(names, m.name)
				}
				m.step(w)
				if len(worlds) == 0 {
					break
				}
				steps += len(worlds)
				next := random.IntN(len(worlds))
				w, s.from, s.names = &worlds[next], s.done[next], append(s.names, names[next])
			}
		}
		t.Logf("%d proxies, cap %d: %d steps compared", o.Proxies, o.Cap, steps)
	}
}
