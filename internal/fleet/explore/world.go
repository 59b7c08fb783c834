// Package explore explores the protocol of package fleet exhaustively for a few proxies and one server: every interleaving of exchanges,
// connections, losses, crashes and failovers, with the real ledger and the real holders. It is called by a test and by its command.
package explore

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

const (
	server = "s"
	// timeout is the holders' grant time-out. Time does not pass by itself; an action makes it pass.
	timeout = time.Hour
)

// Faults are how often each kind of fault may happen in one run of a world.
type Faults struct {
	Total     int // of all kinds together, apart from losses and restarts
	Losses    int // a request or an answer is lost
	Delays    int // a report arrives after later ones
	Crashes   int
	Restarts  int // a new process in the place of one that crashed
	Cuts      int // a proxy cannot reach the database for a lease time or longer
	Timeouts  int // a grant time-out passes
	Forgets   int // an operator declares a proxy dead, whether it is or not
	Databases int // the database restarts, or fails over
	Lost      int // how many of the last commits a failover can lose
}

// process is a proxy. It is immutable once it belongs to a world.
type process struct {
	id     fleet.ID
	dead   bool
	holder *fleet.Holder
	state  *fleet.HolderState // of the holder, once it was asked for
	limit  int                // that the pools have
	used   int                // connections
	demand int                // places that its clients need
	cut    bool
	// expired: its grant time-out has passed without an answer.
	expired bool
	// declared: it was declared dead although it lives, so what it has is beyond the cap.
	declared bool
	knows    uint // bits of other processes that it has seen in an answer
	birth    uint // its bit
}

// known returns what the holder of a living process knows.
func (p *process) known() *fleet.HolderState {
	if p.state == nil {
		s := p.holder.State()
		p.state = &s
	}
	return p.state
}

// may is how many connections a living process may have.
func (p *process) may() int {
	if p.dead {
		return 0
	}
	return max(p.limit, p.used)
}

// delayed is a report that arrives later, or one whose answer does.
type delayed struct {
	report *fleet.Report
	answer *fleet.Answer
}

// world is a state of everything. It is immutable once it has been reached.
type world struct {
	ledger   *fleet.Ledger
	commits  []*fleet.Ledger // what the ledger was before the last commits, the latest last
	identity int             // of the database
	// old is the ledger of the database before the last failover, which may come back.
	old         *fleet.Ledger
	oldIdentity int
	databases   int
	wrong       string // what was found while the world was reached
	epochs      int
	births      int
	procs       []*process
	flight      []delayed
	left        Faults
	// excess is by how many places the processes may be beyond the cap, because one of them was declared dead and came back.
	excess int
}

func start(o *Options) *world {
	w := &world{ledger: &fleet.Ledger{Identity: "0", Members: map[fleet.ID]*fleet.Member{}, Accounts: map[string]*fleet.Account{}}, left: o.Faults}
	for i := range o.Proxies {
		w.procs = append(w.procs, w.spawn(i))
	}
	return w
}

func (w *world) spawn(slot int) *process {
	id := fleet.ID(fmt.Sprintf("%c%d", 'a'+slot, w.births))
	p := &process{id: id, birth: 1 << w.births, holder: fleet.NewHolder(fleet.HolderOptions{ID: id, Timeout: timeout})}
	w.births++
	return p
}

// ledgers are the ledger and those that may take its place.
func (w *world) ledgers() iter.Seq[*fleet.Ledger] {
	return func(yield func(*fleet.Ledger) bool) {
		if !yield(w.ledger) {
			return
		}
		for _, l := range w.commits {
			if !yield(l) {
				return
			}
		}
		if w.old != nil {
			yield(w.old)
		}
	}
}

// settleFaults forgets which faults there have been, as far as that decides nothing any more: worlds in which the same can still happen are the same.
func (w *world) settleFaults() {
	f := &w.left
	kinds := 0
	for _, n := range []*int{&f.Delays, &f.Crashes, &f.Cuts, &f.Timeouts, &f.Forgets, &f.Databases} {
		*n = min(*n, f.Total)
		kinds += *n
	}
	f.Total = min(f.Total, kinds)
	if f.Databases == 0 {
		f.Lost, w.commits, w.old = 0, nil, nil
	}
	dead := f.Crashes
	for _, p := range w.procs {
		if p.dead {
			dead++
		}
	}
	f.Restarts = min(f.Restarts, dead)
}

// next returns a copy of the world, whose process i may be changed.
func (w *world) next(i int) (*world, *process) {
	c := *w
	c.procs = slices.Clone(w.procs)
	c.flight = slices.Clone(w.flight)
	p := *w.procs[i]
	c.procs[i] = &p
	return &c, &p
}

// own gives a process a copy of its holder.
func (p *process) own() *process {
	p.holder, p.state = p.holder.Clone(), nil
	return p
}

// rest says that the process had at most so many connections while its limit may have been lowered, and forgets how many there are within
// the limit and what they are needed for: that may change at any time.
func (p *process) rest(most int) {
	p.demand, p.used = 0, most
	if p.used <= p.limit {
		p.used = 0
	}
}

// now is the time that a process's clock shows.
func (p *process) now() fleet.Instant {
	if p.expired {
		return fleet.Instant(timeout)
	}
	return 0
}

// report lets a process make its next report.
func (p *process) report(cap int, settle bool) *fleet.Report {
	p.holder.Use(server, fleet.Usage{Cap: cap, Used: p.used, Needs: p.demand, Wants: p.demand})
	now := p.now()
	if settle {
		now = max(now, fleet.Instant(fleet.Lease))
	}
	r := p.holder.Report(now)
	p.limit = p.holder.Limit(server)
	return r
}

// exchange lets a report arrive.
func (w *world) exchange(o *Options, r *fleet.Report) *fleet.Answer {
	was := w.ledger
	w.ledger = was.Clone()
	w.epochs++
	a := w.ledger.Exchange(r, fmt.Sprint(w.identity), fleet.Epoch(fmt.Sprint("e", w.epochs)))
	if keep := w.left.Lost; keep > 0 && w.left.Databases > 0 && w.left.Total > 0 {
		w.commits = append(slices.Clone(w.commits), was)
		w.commits = w.commits[max(0, len(w.commits)-keep):]
	} else {
		w.commits = nil
	}
	for i, q := range w.procs {
		if q.expired && was.Members[q.id] != nil && w.ledger.Members[q.id] == nil {
			c := *q
			c.declared = true
			w.procs[i] = &c
		}
	}
	return a
}

// settleAccounts counts by how much the cap is exceeded since a process that was declared dead has come back. It only goes down, as places
// are given back.
func (w *world) settleAccounts(o *Options) {
	if w.excess == 0 && !slices.ContainsFunc(w.procs, func(p *process) bool { return p.declared }) {
		return
	}
	for i, p := range w.procs {
		m := w.ledger.Members[p.id]
		if p.declared && m != nil && m.Epoch == w.ledger.Epoch {
			c := *p
			c.declared = false
			w.procs[i] = &c
			w.excess = max(w.excess, w.charged()-o.Cap)
		}
	}
	w.excess = min(w.excess, max(0, w.charged()-o.Cap))
}

// charged is how many places are granted or may be used, apart from those of processes that were declared dead.
func (w *world) charged() int {
	sum := 0
	granted := map[fleet.ID]int{}
	if a := w.ledger.Accounts[server]; a != nil {
		for i := range a.Grants {
			granted[a.Grants[i].Proxy] = a.Grants[i].Places
		}
	}
	for _, p := range w.procs {
		if !p.declared {
			sum += max(p.may(), granted[p.id])
		}
		delete(granted, p.id)
	}
	for _, n := range granted {
		sum += n
	}
	return sum
}

// may is how many connections there may be, apart from those of processes that were declared dead.
func (w *world) may() int {
	n := 0
	for _, p := range w.procs {
		if !p.declared {
			n += p.may()
		}
	}
	return n
}

// answered lets a process have an answer.
func (w *world) answered(p *process, r *fleet.Report, a *fleet.Answer) {
	p.holder.Answered(r, a, 0, 0)
	p.expired = false
	p.limit = p.holder.Limit(server)
	if a.Forgotten && p.limit > p.used {
		w.wrong = fmt.Sprintf("%s may use %d places after it was forgotten, and uses %d", p.id, p.limit, p.used)
	}
	for _, q := range w.procs {
		if q.id != p.id && slices.ContainsFunc(a.Members, func(m fleet.Member) bool { return m.ID == q.id }) {
			p.knows |= q.birth
		}
	}
}

// failed tells a process that its report had no answer.
func (p *process) failed(r *fleet.Report) {
	p.holder.Failed(r, p.now())
	p.limit = p.holder.Limit(server)
}

// maySettle reports whether a lease time can have passed since the epoch began, as process i says. Within one, each living process that can
// reach the database has made an exchange. Those that have not were cut off; cuts are the ones of them for which that is not known yet. One that
// was, and that the ledger does not know, is assumed to be known to one that was not.
func (w *world) maySettle(i int) (may bool, cuts []int) {
	joined := func(p *process) bool {
		m := w.ledger.Members[p.id]
		return p.known().Epoch == w.ledger.Epoch && !p.known().Whole && m != nil && m.Epoch == w.ledger.Epoch
	}
	for j, p := range w.procs {
		if p.dead || p.known().Epoch == "" || !p.cut && joined(p) {
			continue
		}
		if j == i {
			return false, nil
		}
		if !p.cut {
			cuts = append(cuts, j)
		}
		if w.ledger.Members[p.id] == nil && p.may() > 0 && !p.declared && !slices.ContainsFunc(w.procs, func(q *process) bool {
			return q.id != p.id && !q.dead && !q.cut && joined(q) && q.knows&p.birth != 0
		}) {
			return false, nil
		}
	}
	return len(cuts) <= min(w.left.Total, w.left.Cuts), cuts
}

// check returns what is wrong in a world; empty if nothing is.
func (w *world) check(o *Options) string {
	if w.wrong != "" {
		return w.wrong
	}
	if n := w.may(); n > o.Cap+w.excess {
		return fmt.Sprintf("there may be %d connections to a server with %d places", n, o.Cap+w.excess)
	}
	if w.ledger.Identity != fmt.Sprint(w.identity) {
		return "" // nobody has asked the new database yet
	}
	a := w.ledger.Accounts[server]
	for _, p := range w.procs {
		m := w.ledger.Members[p.id]
		if p.dead || p.declared || m == nil || m.Epoch != w.ledger.Epoch || p.known().Epoch != w.ledger.Epoch || p.known().Whole {
			continue
		}
		granted := 0
		for i := range a.Grants {
			if a.Grants[i].Proxy == p.id {
				granted = a.Grants[i].Places
			}
		}
		if p.may() > granted {
			return fmt.Sprintf("%s may have %d connections, and the ledger has %d places for it", p.id, p.may(), granted)
		}
	}
	return ""
}
