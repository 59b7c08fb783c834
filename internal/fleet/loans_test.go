package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// lender is a process in a model of lending: a holder, with pools, that makes one exchange at a time.
type lender struct {
	id       fleet.ID
	instance string
	dead     bool
	h        *fleet.Holder
	limit    int // that the pools know
	used     int
	needs    int
	report   *fleet.Report // whose answer it waits for; nil for none
	asked    fleet.Instant
	lent     int    // places that were handed over, and that the other does not know to be charged with
	inbox    []loan // what the other process has said, in order
	broken   bool   // the other process has ended, and has nothing more to say
}

// loan is a message between the two processes.
type loan struct{ lent, charged int }

// loans is a world with two processes of one host that lend each other places, and a third one elsewhere that wants them all.
type loans struct {
	ledger  fleet.Ledger
	epoch   int
	now     fleet.Instant
	all     []*lender
	late    []*fleet.Report // whose senders gave up
	exposed string          // what is wrong; empty for nothing
}

const (
	gpu     = "gpu"
	loanCap = 6
)

func newLoans() *loans {
	w := &loans{ledger: fleet.Ledger{Members: make(map[fleet.ID]*fleet.Member), Accounts: make(map[string]*fleet.Account)}}
	for i, instance := range []string{"host", "host", "elsewhere"} {
		id := fleet.ID(fmt.Sprintf("%016d", i+1))
		w.all = append(w.all, &lender{id: id, instance: instance, h: fleet.NewHolder(fleet.HolderOptions{ID: id, Share: 1})})
	}
	for range 4 { // each gets what it needs
		for i, p := range w.all {
			p.needs = 2
			w.ask(i)
			w.answer(i)
			p.used = min(p.needs, p.limit)
		}
	}
	return w
}

// tell gives the limits to the pools.
func (w *loans) tell(p *lender) { p.limit = p.h.Limit(gpu) }

func (w *loans) use(p *lender) {
	p.h.Use(gpu, fleet.Usage{Cap: loanCap, Used: p.used, Needs: p.needs, Wants: p.needs})
}

// ask has a process send a report.
func (w *loans) ask(i int) {
	p := w.all[i]
	if p.dead || p.report != nil {
		return
	}
	w.use(p)
	p.asked, p.report = w.now, p.h.Report(w.now)
	p.report.About = fleet.Member{Name: string(p.id), Instance: p.instance}
	w.tell(p)
}

// store has the ledger carry out a report.
func (w *loans) store(r *fleet.Report) *fleet.Answer {
	return w.ledger.Exchange(r, fmt.Sprint(w.epoch), fleet.Epoch(fmt.Sprint("epoch ", w.epoch)))
}

// answer has a report arrive, and its answer.
func (w *loans) answer(i int) {
	p := w.all[i]
	if p.dead || p.report == nil {
		return
	}
	a := w.store(p.report)
	p.h.Answered(p.report, a, p.asked, w.now)
	p.report = nil
	w.tell(p)
	if i < 2 {
		other := w.all[1-i]
		if charged := p.h.TakeCharged()[gpu]; charged > 0 && !other.dead {
			other.inbox = append(other.inbox, loan{charged: charged})
		}
		there := slices.ContainsFunc(a.Members, func(m fleet.Member) bool { return m.ID == other.id })
		if p.broken {
			p.h.Withdraw(gpu)
		}
		if p.broken && len(p.inbox) == 0 && !there && !a.Frozen && !a.Stale && !a.Again {
			p.h.Returned(gpu, p.lent)
			p.lent = 0
			w.tell(p)
		}
	}
}

// giveUp has a process give up an exchange. The report may still arrive, or be lost.
func (w *loans) giveUp(i int, arrives bool) {
	p := w.all[i]
	if p.dead || p.report == nil {
		return
	}
	p.h.Failed(p.report, w.now)
	if arrives {
		w.late = append(w.late, p.report)
	}
	p.report = nil
	w.tell(p)
}

// lend has one of the two lend places to the other, as far as their connections are closed.
func (w *loans) lend(i, n int) {
	p, other := w.all[i], w.all[1-i]
	if p.dead || p.report != nil || p.broken {
		return
	}
	w.use(p)
	switch n = min(n, p.h.Spare(gpu)); {
	case n > 0:
		p.h.Offer(gpu, n)
	case n == 0 && len(p.inbox) > 0: // or for any other reason
		p.h.Withdraw(gpu)
	}
	w.tell(p)
	w.use(p)
	if places := p.h.HandOver(gpu); places > 0 {
		p.lent += places
		if !other.dead {
			other.inbox = append(other.inbox, loan{lent: places})
		}
	}
}

// hear has one of the two hear what the other has said.
func (w *loans) hear(i int) {
	p := w.all[i]
	if p.dead || p.report != nil || len(p.inbox) == 0 {
		return
	}
	said := p.inbox[0]
	p.inbox = p.inbox[1:]
	if said.lent > 0 {
		p.h.Borrow(gpu, said.lent)
	}
	if said.charged > 0 {
		p.h.Charged(gpu, said.charged)
		p.lent -= said.charged
	}
	w.tell(p)
}

// kill ends a process. Its connections are gone; what it has said arrives.
func (w *loans) kill(i int) {
	p := w.all[i]
	p.dead, p.used = true, 0
	if i < 2 {
		w.all[1-i].broken = true
	}
}

// prove has a process find out that another is dead. One with the same state directory looks at locks, which borrowers hold, too.
func (w *loans) prove(by, of int) {
	p, dead := w.all[by], w.all[of]
	if p.dead || !dead.dead || p.report != nil {
		return
	}
	if p.instance == dead.instance && (len(p.inbox) > 0 || p.h.Borrowed() > 0) {
		return
	}
	p.h.Died(dead.id)
}

// check finds out whether there are more connections than the cap, or may be.
func (w *loans) check() {
	sum, text := 0, ""
	for _, p := range w.all {
		if !p.dead {
			sum += max(p.used, p.limit)
		}
		text += fmt.Sprintf(" %s: limit %d used %d dead %t;", p.id[15:], p.limit, p.used, p.dead)
	}
	if sum > loanCap && w.exposed == "" {
		w.exposed = fmt.Sprintf("%d places of %d:%s", sum, loanCap, text)
	}
}

// step does one of the things that can happen; n chooses, and m is how much of it.
func (w *loans) step(n, i, m int) {
	p := w.all[i]
	switch n {
	case 0:
		w.ask(i)
	case 1:
		w.answer(i)
	case 2:
		w.ask(i)
		w.answer(i)
	case 3:
		w.giveUp(i, m%2 == 0)
	case 4:
		if len(w.late) > 0 {
			w.store(w.late[0])
			w.late = w.late[1:]
		}
	case 5:
		if i < 2 {
			w.lend(i, m)
		}
	case 6:
		if i < 2 {
			w.hear(i)
		}
	case 7:
		if !p.dead { // clients come and go
			p.needs = m
		}
	case 12:
		if !p.dead { // connections open, also ahead of clients, and close
			if p.used = min(p.used, max(p.needs, p.limit)); m%2 == 0 {
				p.used = max(p.used, p.limit)
			} else if m%3 == 0 {
				p.used = min(p.used, p.needs)
			}
		}
	case 8:
		if m == 0 {
			w.kill(i)
		}
	case 9:
		w.prove(i, m%3)
	case 10:
		if m == 0 {
			w.epoch++ // the database restarts
		}
	case 13:
		if m == 0 {
			p.h.Drain()
		}
	case 11:
		w.now += fleet.Instant(time.Duration(m) * time.Second)
	}
	w.check()
}

// actions are what [loans.step] does, more often what is more telling.
var actions = []int{0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7, 12, 12, 12, 8, 9, 9, 10, 11, 13}

// TestLendingIsExact lends places in every way that chance finds, while reports are late or lost, the database restarts and processes are killed: there
// are never more connections than the cap.
func TestLendingIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		for world := range uint64(20) {
			w, dice := newLoans(), rand.New(rand.NewPCG(seed, world))
			for range 300 {
				w.step(actions[dice.IntN(len(actions))], dice.IntN(len(w.all)), dice.IntN(loanCap+1))
				if w.exposed != "" {
					t.Fatal(w.exposed)
				}
			}
		}
	})
}

// lent returns a world in which the second process has lent places to the first one, which uses them, and the ledger knows nothing of it.
func lent(t *testing.T, n int) *loans {
	t.Helper()
	w := newLoans()
	p, s := w.all[0], w.all[1]
	w.ask(0)
	w.giveUp(0, true) // says what it holds without the loan, and arrives late
	s.needs, s.used = 0, 0
	w.lend(1, n)
	w.hear(0)
	if p.limit+s.limit != 4 || s.limit != 2-n {
		t.Fatalf("limits are %d and %d after lending %d", p.limit, s.limit, n)
	}
	p.needs, p.used = p.limit, p.limit-1
	return w
}

// TestLentIsCharged has the lender killed before the ledger knows of the loan: a proxy elsewhere that proves it gets none of its places, until the borrower has said
// what it holds.
func TestLentIsCharged(t *testing.T) {
	for _, leftOut := range []fleet.Guards{0, fleet.Without(fleet.GuardLent)} {
		w := lent(t, 2)
		w.ledger.LeftOut = leftOut
		w.kill(1)
		w.store(w.late[0])
		w.prove(2, 1)
		w.all[2].needs = loanCap
		for range 3 {
			w.ask(2)
			w.answer(2)
			w.check()
		}
		if (w.exposed == "") != (leftOut == 0) {
			t.Errorf("left out: %b; found %q", leftOut, w.exposed)
		}
		if leftOut != 0 {
			continue
		}
		w.prove(0, 1) // it holds the lender's lock
		w.ask(0)
		w.answer(0)
		w.prove(0, 1)
		for range 3 {
			w.ask(0)
			w.answer(0)
			w.ask(2)
			w.answer(2)
			w.check()
		}
		if w.exposed != "" || w.all[2].limit != loanCap-w.all[0].used {
			t.Errorf("the third has %d places; %s", w.all[2].limit, w.exposed)
		}
	}
}

// TestLoanIsCharged moves a loan to the borrower's account when the ledger answers, and neither loses a place.
func TestLoanIsCharged(t *testing.T) {
	w := lent(t, 2)
	for range 3 {
		for i := range w.all {
			w.ask(i)
			w.answer(i)
			w.hear(0)
			w.hear(1)
			w.check()
		}
	}
	granted := w.ledger.Accounts[gpu].Granted()
	if w.exposed != "" || w.all[0].limit != 4 || w.all[1].h.Lent() != 0 || w.all[0].h.Borrowed() != 0 || granted > loanCap {
		t.Errorf("limits are %d and %d, granted %d, lent %d, borrowed %d; %s", w.all[0].limit, w.all[1].limit, granted, w.all[1].h.Lent(), w.all[0].h.Borrowed(), w.exposed)
	}
}

// TestBorrowerIsKilled gives the lender its places back when the ledger knows the borrower no more.
func TestBorrowerIsKilled(t *testing.T) {
	w := lent(t, 2)
	w.kill(0)
	w.prove(1, 0)
	for range 3 {
		w.all[1].needs = loanCap
		w.ask(1)
		w.answer(1)
		w.ask(2)
		w.answer(2)
		w.check()
	}
	if w.exposed != "" || w.all[1].h.Lent() != 0 || w.all[1].limit < 2 {
		t.Errorf("limit %d, lent %d; %s", w.all[1].limit, w.all[1].h.Lent(), w.exposed)
	}
}
