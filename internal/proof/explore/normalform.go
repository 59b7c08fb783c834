package explore

// normalise brings a world into its normal form, but for the order of its proxies and the names of its epochs. Each part drops or renames
// something on which no step, and nothing that is checked, can still depend, or its comment says that it only adds steps.
func (w *world) normalise(o *Options) {
	w.dropFaults(o)
	for i := range w.proxies {
		w.proxies[i].normalise()
	}
	w.dropKnowledge(o)
	w.dropProcesses(o)
	w.rankReports(o)
	w.dropHeartbeats(o)
}

// dropFaults forgets which faults there have been, as far as that no longer decides anything: worlds in which the same can still happen are the same.
func (w *world) dropFaults(o *Options) {
	f := &w.left
	kinds := uint8(0)
	for _, n := range [...]*uint8{&f.delays, &f.answers, &f.crashes, &f.cuts, &f.timeouts, &f.forgets, &f.databases} {
		*n = min(*n, f.total)
		kinds += *n
	}
	f.total = min(f.total, kinds)
	if f.databases == 0 { // neither commits nor an old database can come back
		f.lost = 0
		w.drop(old)
	}
	for i := int(f.lost); i < maxCommits; i++ {
		w.drop(commits + i)
	}
	dead := f.crashes
	for i := range o.Proxies {
		if w.proxies[i].dead {
			dead++
		}
	}
	f.restarts = min(f.restarts, dead)
}

// drop forgets a ledger.
func (w *world) drop(i int) {
	if w.ledgers[i].exists {
		w.ledgers[i], w.lag[i] = ledger{}, 0
	}
	w.readers(func(r *reader) { r.relation[i] = unknown })
}

func (p *proxy) normalise() {
	if p.dead {
		*p = proxy{dead: true, generation: p.generation}
		return
	}
	if p.used <= p.holder.limit { // within the limit, connections come and go at any time
		p.used = 0
	}
	if h := &p.holder; h.needsFull { // a whole report replaces the rest
		h.reported, h.dirty, h.short, h.account, h.view = grant{}, false, false, false, grants{}
		p.at.forgetAccount()
	}
}

// forgetAccount says that no account depends on what the reader has seen of it.
func (r *reader) forgetAccount() {
	for i, relation := range r.relation {
		if relation == behind {
			r.relation[i] = within
		}
	}
}

// dropKnowledge forgets which processes have heard of each other where no epoch has to be settled: only that depends on it.
func (w *world) dropKnowledge(o *Options) {
	living, needed := ids(0), w.left.databases > 0 || !w.ledgers[current].settled || !w.ledgers[current].own
	for i := range o.Proxies {
		if p := &w.proxies[i]; needed && !p.dead {
			living |= one(o.id(i, p))
		}
	}
	for i := range o.Proxies {
		w.proxies[i].knows &= living
		w.proxies[i].knew &= living
	}
}

// dropProcesses forgets processes that are gone and that nothing mentions, and gives their IDs to the next ones at their positions.
func (w *world) dropProcesses(o *Options) {
	var present, reporting, named ids // named: those that a ledger may hear of
	for i := range o.Proxies {
		p := &w.proxies[i]
		id := o.id(i, p)
		present |= one(id)
		if !p.dead {
			reporting |= one(id)
		}
		named |= p.holder.members | p.holder.lost
	}
	for i := range w.flights {
		if f := &w.flights[i]; f.exists {
			named |= f.report.others
			reporting |= one(f.report.id)
		}
	}
	for i := range w.ledgers {
		named |= w.ledgers[i].members
	}
	mentioned := present | reporting | named
	for i := range w.ledgers {
		l := &w.ledgers[i]
		l.departed &= reporting | named&^l.members // a member that reports nothing more departs again
		l.past &= l.departed
		mentioned |= l.departed
	}
	for i := range w.ledgers {
		l := &w.ledgers[i]
		for id := range (^l.departed).all() {
			l.parted[id] = 0
		}
	}
	views := ids(0)
	for i := range o.Proxies {
		w.proxies[i].holder.dead &= mentioned // none of the others can be heard of again
		views |= w.proxies[i].holder.view.there
	}
	for i := range w.flights {
		if f := &w.flights[i]; f.exists {
			// Those that are no members of any ledger cannot be removed.
			f.report.proven &= mentioned
			f.report.timedOut &= mentioned
			f.report.fresh &= mentioned
			views |= f.answer.members | f.answer.grants.there
		}
	}
	mentioned |= views
	per := o.generations()
	if per == 1 {
		return
	}
	var to [maxIDs]uint8
	same := true
	for position := range o.Proxies {
		next := position * per
		for id := position * per; id < (position+1)*per; id++ {
			if to[id] = uint8(id); !mentioned.has(uint8(id)) {
				continue
			}
			same = same && next == id
			to[id] = uint8(next)
			next++
		}
	}
	if same {
		return
	}
	for i := range o.Proxies {
		p := &w.proxies[i]
		p.generation = to[o.id(i, p)] - uint8(i*per)
	}
	newRenaming(mentioned, to).world(w)
}

// rankReports replaces sequence numbers by how they compare with those of the reports that are under way: the ledger compares them with nothing
// else, and each new report has a higher one.
func (w *world) rankReports(o *Options) {
	flying := ids(0)
	for i := range w.flights {
		if f := &w.flights[i]; f.exists {
			flying |= one(f.report.id)
		}
	}
	// Ranks are worked out from what the numbers were.
	var was [maxFlights]uint8
	for i := range w.flights {
		was[i] = w.flights[i].report.sequence
	}
	rank := func(id, n uint8) (earlier uint8) {
		if !flying.has(id) {
			return 0
		}
		for i := range w.flights {
			if f := &w.flights[i]; f.exists && f.report.id == id && was[i] <= n {
				earlier++
			}
		}
		return earlier
	}
	for i := range w.flights {
		if f := &w.flights[i]; f.exists {
			f.report.sequence = rank(f.report.id, was[i])
			if f.report.full {
				f.at.forgetAccount()
			}
		}
	}
	for i := range o.Proxies {
		p := &w.proxies[i]
		if p.holder.sequence = 0; !p.dead {
			p.holder.sequence = rank(o.id(i, p), 255) // a holder's number is that of its last report
		}
	}
	for i := range w.ledgers {
		l := &w.ledgers[i]
		if !l.exists {
			continue
		}
		if flying == 0 {
			l.sequence, l.parted = [maxIDs]uint8{}, [maxIDs]uint8{}
			continue
		}
		for id := range uint8(maxIDs) {
			l.sequence[id], l.parted[id] = rank(id, l.sequence[id]), rank(id, l.parted[id])
		}
	}
}

// dropHeartbeats forgets who has made an exchange since another's last answer, where no grant time-out can still pass, or where no ledger that
// continues is of the answer's epoch: reports of other epochs take no proxy for dead, and a database that is another begins a new one.
func (w *world) dropHeartbeats(o *Options) {
	expired := ids(0)
	for i := range o.Proxies {
		if p := &w.proxies[i]; p.expired {
			expired |= one(o.id(i, p))
		}
	}
	if w.left.timeouts > 0 {
		expired = ^ids(0)
	}
	matters := func(r *reader) bool {
		return here(r.relation[current]) && w.ledgers[current].own || here(r.relation[old]) && w.ledgers[old].own
	}
	for i := range o.Proxies {
		p := &w.proxies[i]
		p.holder.fresh &= expired & p.holder.members
		if !matters(&p.at) {
			p.holder.fresh = 0
		}
	}
	for i := range w.flights {
		if f := &w.flights[i]; f.exists && !matters(&f.at) {
			f.report.fresh = 0
		}
	}
}

// nameEpochs numbers the epochs in the order of those who know them. One that all ledgers know, or will by way of those, needs no name: how it
// compares with each of them says everything.
func (w *world) nameEpochs() {
	var names [256]uint8
	next := uint8(1)
	w.readers(func(r *reader) {
		if !r.known {
			*r = reader{}
			return
		}
		stranger := false
		for i := range w.ledgers {
			stranger = stranger || w.ledgers[i].exists && r.relation[i] == unknown
		}
		if !stranger {
			r.epoch = 0
			return
		}
		if r.epoch == 0 {
			return // its name was dropped before
		}
		if names[r.epoch] == 0 {
			names[r.epoch] = next
			next++
		}
		r.epoch = names[r.epoch]
	})
}
