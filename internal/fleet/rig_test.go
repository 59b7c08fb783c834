package fleet

import (
	"fmt"
	"testing"
)

// rig is a ledger with holders whose pools a test plays.
type rig struct {
	t        *testing.T
	ledger   *Ledger
	identity int
	epochs   int
	now      Instant
	proxies  map[ID]*played
}

// played is a holder and what its pools do.
type played struct {
	r     *rig
	h     *Holder
	usage map[string]Usage
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, ledger: &Ledger{Members: map[ID]*Member{}, Accounts: map[string]*Account{}}, proxies: map[ID]*played{}}
}

func (r *rig) join(o HolderOptions) *played {
	p := &played{r: r, h: NewHolder(o), usage: map[string]Usage{}}
	r.proxies[o.ID] = p
	return p
}

func (r *rig) exchange(report *Report) *Answer {
	identity, fresh := r.keeper()
	return r.ledger.Exchange(report, identity, fresh)
}

// forget lets an operator forget a proxy.
func (r *rig) forget(id ID) bool {
	identity, fresh := r.keeper()
	return r.ledger.Forget(id, identity, fresh)
}

// keeper returns the identity of the process that keeps the ledger, and an epoch that has never been.
func (r *rig) keeper() (identity string, fresh Epoch) {
	r.epochs++
	return fmt.Sprint("process ", r.identity), Epoch(fmt.Sprint("epoch ", r.epochs))
}

// report returns the proxy's next report.
func (p *played) report() *Report {
	for server, u := range p.usage {
		p.h.Use(server, u)
	}
	return p.h.Report(p.r.now)
}

// exchange makes an exchange.
func (p *played) exchange() *Answer {
	report := p.report()
	a := p.r.exchange(report)
	p.h.Answered(report, a, p.r.now, p.r.now)
	return a
}

// needs says that the proxy uses and needs places of server s.
func (p *played) needs(used, needs, wants int) *played {
	p.usage["s"] = Usage{Cap: p.usage["s"].Cap, Used: used, Needs: needs, Wants: wants}
	return p
}

func (p *played) cap(n int) *played {
	u := p.usage["s"]
	u.Cap = n
	p.usage["s"] = u
	return p
}

// expect checks the limits of server s, by the proxies' names in the order of the arguments, and that the ledger covers them.
func (r *rig) expect(what string, limits map[ID]int) {
	r.t.Helper()
	for id, want := range limits {
		if got := r.proxies[id].h.Limit("s"); got != want {
			r.t.Errorf("%s: the limit of %s is %d, not %d: %+v", what, id, got, want, r.ledger.Accounts["s"])
		}
	}
}
