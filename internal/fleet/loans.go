package fleet

// Two processes of one host that follow each other lend each other places while the ledger grants none. What is lent stays charged to the lender
// until the ledger charges it to the borrower:
//
//	lender: Offer, the limits go to the pools, connections close, Use, HandOver  ->  borrower: Borrow
//	                                                                                an answer to a report that says what it holds
//	lender: Charged                                                             <-  TakeCharged
//
// So each place is the limit of at most one of them, and the ledger has at least as many places for both as they may use. A message that is lost, or a
// process that ends in between, leaves a place charged that neither uses, never one used that neither is charged with: the borrower keeps the lender from
// being proven dead by processes with the same state directory, and the ledger believes no others ([exchange.mayRemove]).

// Offer takes up to [Holder.Spare] places of a server from the limit.
func (h *Holder) Offer(server string, places int) {
	s := h.servers[server]
	s.limit -= places
	s.offered += places
}

// HandOver lends the places that were offered, if the pools have the limits since, and no more connections, as Use says. Otherwise it returns 0.
func (h *Holder) HandOver(server string) (places int) {
	s := h.servers[server]
	if s == nil || s.usage.Used > s.limit+s.borrowed {
		return 0
	}
	places, s.offered = s.offered, 0
	s.lent += places
	return places
}

// Withdraw takes back the places that were offered.
func (h *Holder) Withdraw(server string) {
	if s := h.servers[server]; s != nil {
		s.limit += s.offered
		s.offered = 0
	}
}

// Returned says that places that were lent are the proxy's own again: they were not used, or the process that had them has ended.
func (h *Holder) Returned(server string, places int) {
	if s := h.servers[server]; s != nil {
		places = min(places, s.lent)
		s.lent -= places
		s.limit += places
	}
}

// Charged says that the ledger charges places that were lent to the borrower. The next report gives them back.
func (h *Holder) Charged(server string, places int) {
	if s := h.servers[server]; s != nil {
		places = min(places, s.lent)
		s.lent -= places
		s.granted -= places
		s.dirty = true
	}
}

// Lent returns how many places are offered or lent, of all servers.
func (h *Holder) Lent() (places int) {
	for _, s := range h.servers {
		places += s.offered + s.lent
	}
	return places
}

// MayBorrow reports whether the proxy may use places of another's.
func (h *Holder) MayBorrow() bool { return h.epoch != "" && !h.leaves && h.o.Timeout == 0 }

// Borrow adds places that another process has lent to the limit. [Holder.MayBorrow] must be true.
func (h *Holder) Borrow(server string, places int) {
	s := h.servers[server]
	if s == nil {
		s = &holding{dirty: true}
		h.servers[server] = s
	}
	s.borrowed += places
}

// Borrowed returns how many places are borrowed of which the ledger does not know for sure, of all servers.
func (h *Holder) Borrowed() (places int) {
	for _, s := range h.servers {
		places += s.borrowed
	}
	return places
}

// TakeCharged returns by server how many places that were borrowed are the proxy's own since it was called last, by an answer of the ledger.
func (h *Holder) TakeCharged() map[string]int {
	charged := h.charged
	h.charged = nil
	return charged
}

// settleLoan notes that the ledger charges the proxy with what it borrowed, since it has answered a report that says so.
func (h *Holder) settleLoan(server string, s *holding) {
	if s.borrowed == 0 {
		return
	}
	if h.charged == nil {
		h.charged = make(map[string]int)
	}
	h.charged[server] += s.borrowed
	s.limit += s.borrowed
	s.borrowed = 0
}
