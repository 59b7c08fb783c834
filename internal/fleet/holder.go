package fleet

import (
	"maps"
	"math/bits"
	"slices"
	"time"
)

// soonest is the least time between two exchanges that [Holder.Due] asks for.
const soonest = 100 * time.Millisecond

// Usage is how a proxy's pools use one server at this moment.
type Usage struct {
	Cap  int // as in a [Claim]; 0 if the server is no longer in the configuration
	Used int // connections that count against the cap: dialing, idle, leased, resetting and retiring
	// Needs, Waiting, Wants, Waited and Open are those of a [Claim].
	Needs, Waiting, Wants, Waited, Open int
}

// HolderOptions are what a holder is made with.
type HolderOptions struct {
	ID    ID
	Floor int     // of each claim
	Share float64 // of each claim
	// Timeout is after how long the places of a proxy that is not seen are taken from it; 0 for never.
	Timeout time.Duration
	LeftOut Guards // for the exploration; a proxy never sets it
	// Without is how many places of each server the proxy may use before its first answer. They may be others', too.
	Without int
}

// Holder is one proxy's side of the protocol: what it may use of each server. It is owned by one goroutine, which repeats:
//
//	usage is read from the pools, which have the limits of the last round by now
//	h.Use(server, usage) for each server
//	r := h.Report(now); the agent fills r.About
//	the limits of all servers go to the pools, since Report may have lowered some
//	a, err := store.Exchange(ctx, r); h.Answered(r, a, asked, now) or h.Failed(r, now)
//	the limits of all servers go to the pools
//
// The pools must never have more connections than the limit that they have, or than they had when the limit was lowered below that.
type Holder struct {
	o            HolderOptions
	sequence     uint64
	epoch        Epoch // empty before the first answer
	version      int64
	needsFull    bool // the next report has to be full
	frozen       bool
	settled      bool
	watchedSince Instant // since when the epoch is watched
	askedAt      Instant // when the last report was sent that was answered
	pending      uint64  // the sequence number of the report that is under way; 0 if none is
	failed       bool    // the last report had no answer
	drains       bool
	leaves       bool
	lostMembers  []Member // those that are to be named to a ledger that has lost them
	charged      map[string]int
	// What no proxy needs to know immediately is minor news. defersMinor: none may be reported now; reportedMinor: some was; minorAt is when it may be next.
	defersMinor, reportedMinor bool
	minorAt                    Instant

	servers map[string]*holding
	members map[ID]*observed
	dead    map[ID]bool // proven
	// suspects are the proxies for which no places are kept.
	suspects  map[ID]bool
	suspected uint64 // goes up when suspects change
	scratch   []Grant
}

// holding is what a holder has at one server.
type holding struct {
	usage    Usage
	current  bool // Use has been called since the last report
	holds    int  // the most that the pools may have, as of the last Use
	granted  int  // the ledger has at least this, whichever reports arrive
	limit    int  // of the pools, without what is borrowed; at most granted without what is offered and lent
	offered  int  // to another process, once the connections are closed; part of granted
	lent     int  // to another process; part of granted
	borrowed int  // of another process, which is charged with it
	reported Claim
	dirty    bool // the ledger may not have what was told
	account  *Account
	short    bool    // a proxy needs places there
	outlook  outlook // as of the last look
}

// observed is what a holder sees of another proxy.
type observed struct {
	Member
	unseen time.Duration // how long it has been watched without an exchange
	hint   time.Duration // the same by the store's clock, which may be wrong
}

// NewHolder returns a holder that holds nothing.
func NewHolder(o HolderOptions) *Holder {
	return &Holder{o: o, needsFull: true, servers: make(map[string]*holding), members: make(map[ID]*observed), dead: make(map[ID]bool)}
}

// Use says how the pools use a server at this moment. It is called for each server of the configuration before each report, and for
// each that is no longer in it until nothing is used there. The usage must have been read after the last limits went to the pools.
func (h *Holder) Use(server string, u Usage) {
	s := h.servers[server]
	if s == nil {
		s = &holding{dirty: true}
		h.servers[server] = s
	}
	if h.epoch == "" && !h.drains { // the cap may be another
		s.granted = max(s.granted, min(h.o.Without, u.Cap))
		s.limit = max(s.limit, min(h.o.Without, u.Cap))
	}
	h.use(s, u)
}

// Assume says, before the first answer, how many places of each server the proxy may use until then, instead of
// [HolderOptions.Without]. They may be others', too. More of them count from the next call of Use.
func (h *Holder) Assume(places int) {
	h.o.Without = places
	for _, s := range h.servers {
		s.granted, s.limit = min(s.granted, places), min(s.limit, places)
	}
}

func (h *Holder) use(s *holding, u Usage) {
	s.usage, s.current = u, true
	s.holds = max(s.limit+s.borrowed+s.offered, u.Used) + s.lent
	if h.o.LeftOut.has(GuardUsed) {
		s.holds = s.limit
	}
}

// Drain says that the proxy takes no more clients: it gives back all places but those that it still wants for its sessions, and for the clients
// that it has accepted.
func (h *Holder) Drain() { h.drains = true }

// Leave says that the proxy ends. The first report after this for which all pools are empty removes it from the ledger.
func (h *Holder) Leave() {
	h.drains, h.leaves = true, true
	for _, s := range h.servers {
		s.limit, s.borrowed = 0, 0
	}
}

// Report returns the next report, and lowers limits where the ledger is to get places back.
func (h *Holder) Report(now Instant) *Report {
	defer h.beginMinor(now)()
	h.sequence++
	h.pending = h.sequence
	r := &Report{ID: h.o.ID, Sequence: h.sequence, Epoch: h.epoch, Version: h.version, Full: h.needsFull, Claims: make(map[string]Claim)}
	empty := true
	for server, s := range h.servers {
		if !s.current {
			// It is gone from the configuration, and nothing is used there. What was its limit until now counts for the last time.
			h.use(s, Usage{})
		}
		s.current = false
		empty = empty && s.holds == 0
		c := h.claim(s)
		if h.needsFull || h.mustReport(s, c) {
			if !h.needsFull || c != (Claim{}) {
				r.Claims[server] = c
			}
			if !h.o.LeftOut.has(GuardGranted) {
				s.granted = min(s.granted, c.Holds-s.borrowed) // what is borrowed is not its own place yet
			}
		}
		h.updateLimit(s, now)
	}
	r.Leaves = h.leaves && empty
	if !h.needsFull {
		r.Settle = !h.settled && h.watchedSince+Instant(Lease) <= now
	} else {
		r.Others = h.lostMembers
	}
	for _, id := range slices.Sorted(maps.Keys(h.members)) {
		m := h.members[id]
		switch {
		case h.dead[id]:
			r.Dead = append(r.Dead, Death{ID: id, Proven: true, Heartbeats: m.Heartbeats})
		case h.o.Timeout > 0 && m.unseen >= h.o.Timeout:
			r.Dead = append(r.Dead, Death{ID: id, Heartbeats: m.Heartbeats})
		}
		if m.isSuspected() {
			r.Unseen = append(r.Unseen, id)
		}
	}
	return r
}

// claim returns what the proxy says about a server.
func (h *Holder) claim(s *holding) Claim {
	u := s.usage
	c := Claim{Cap: u.Cap, Holds: s.holds, Needs: u.Needs, Waiting: u.Waiting, Wants: max(u.Wants, u.Needs), Waited: coarse(u.Waited), Open: u.Open}
	if h.drains {
		c.Cap = 0
	}
	if c == (Claim{}) {
		return c
	}
	if h.drains {
		c.Cap = -u.Cap
	} else if c.Cap > 0 {
		c.Floor = h.o.Floor
	}
	c.Share = h.o.Share
	return c
}

// defersMinorAt reports whether no minor news may be reported at that moment.
func (h *Holder) defersMinorAt(now Instant) bool {
	return now < h.minorAt && len(h.members) > smallFleet
}

// beginMinor finds out whether minor news may be reported now. In a large fleet, all together report it about five times a second.
// The caller must call what it returns when it has reported it.
func (h *Holder) beginMinor(now Instant) (done func()) {
	h.defersMinor, h.reportedMinor = h.defersMinorAt(now), false
	return func() {
		if h.reportedMinor {
			h.minorAt = now + 2*Instant(HeartbeatInterval)*Instant(len(h.members))/smallFleet
		}
	}
}

// mustReport reports whether a claim belongs into the next report: others or this proxy need it to be known. Small changes that matter to no proxy do not.
func (h *Holder) mustReport(s *holding, c Claim) bool {
	t := s.reported
	switch {
	case s.dirty, s.borrowed > 0, c.Holds < s.granted, c.Cap != t.Cap, c.Floor != t.Floor, c.Share != t.Share, c.Open != t.Open, c.Needs > s.granted && t.Needs <= s.granted:
		return true
	case h.defersMinor:
		return false
	}
	report := h.isWorthReporting(s, c)
	h.reportedMinor = h.reportedMinor || report
	return report
}

// isWorthReporting reports whether a claim differs enough from what was reported that it is worth reporting, but not immediately.
func (h *Holder) isWorthReporting(s *holding, c Claim) bool {
	t := s.reported
	switch {
	case c.Needs > s.granted:
		return differs(c.Needs, t.Needs) || differs(c.Wants, t.Wants) || c.Waited != t.Waited
	case t.Needs > s.granted:
		return true
	case c.Wants > s.granted && (t.Wants <= s.granted || differs(c.Wants, t.Wants)), c.Wants <= s.granted && t.Wants > s.granted:
		return true
	}
	// Each proxy shows what the whole fleet needs (statistics, autoscaling), so it must be known roughly, if not to the last place. Of many
	// proxies, some need more than they have reported, and others less.
	fraction := 4
	if len(h.members) > smallFleet {
		fraction = 2
	}
	if len(h.members) > 0 && ((c.Waiting == 0) != (t.Waiting == 0) || fraction*max(c.Needs-t.Needs, t.Needs-c.Needs) > max(s.granted, fraction)) {
		return true
	}
	return s.short && (differs(c.Needs, t.Needs) || differs(c.Wants, t.Wants))
}

// coarse rounds a time down to a power of two, so that a client that waits causes a write after 1, 2, 4, 8 ... seconds, not each second.
func coarse(seconds int) int {
	if seconds <= 0 {
		return 0
	}
	return 1 << (bits.Len(uint(seconds)) - 1)
}

// differs reports whether two numbers differ by more than an eighth.
func differs(a, b int) bool {
	d := a - b
	return 8*max(d, -d) > b
}

// updateLimit sets a limit to what is fair, within what is granted.
func (h *Holder) updateLimit(s *holding, now Instant) {
	s.short = false
	limit := min(s.limit, s.granted-s.offered-s.lent)
	if s.account != nil && !h.frozen && !h.needsFull {
		if l := h.outlook(s); l.own >= 0 {
			keep, minor := l.keeps(h.defersMinor, func() *Account { return h.view(s, l.claim) }, h.suspects)
			h.reportedMinor = h.reportedMinor || minor && keep < s.granted
			s.short = l.needy || minor && l.wanting && len(h.members) <= smallFleet
			limit = min(s.granted, keep) - s.offered - s.lent
		}
	}
	if h.drains || s.usage.Cap == 0 && h.epoch != "" {
		limit = min(limit, max(s.usage.Wants, s.usage.Needs))
	}
	if at, ok := h.Expired(); ok && at <= now && !h.o.LeftOut.has(GuardTimeout) {
		limit = min(limit, s.usage.Used)
	}
	if h.leaves {
		limit = 0
	}
	s.limit = max(0, limit)
}

// outlook returns what follows from a server's account with the proxy's latest needs.
func (h *Holder) outlook(s *holding) *outlook {
	l, c := &s.outlook, h.claim(s)
	if l.account == s.account && l.granted == s.granted && l.claim == c && l.suspects == h.suspected {
		return l
	}
	view := h.view(s, c)
	*l = outlook{
		account: s.account, granted: s.granted, claim: c, suspects: h.suspected,
		needy: view.needy(h.suspects), isOver: view.Granted() > view.Cap(), isLow: view.isLow(), own: view.index(h.o.ID), keep: s.granted,
	}
	return l
}

// view returns a server's account with the proxy's latest needs. It is good until the next call.
func (h *Holder) view(s *holding, c Claim) *Account {
	view := &Account{Grants: append(h.scratch[:0], s.account.Grants...)}
	view.set(h.o.ID, s.granted, c)
	h.scratch = view.Grants
	return view
}

// Answered takes an answer in. asked is when the report was sent: what the answer says holds from then on.
func (h *Holder) Answered(r *Report, a *Answer, asked, now Instant) {
	if r.Sequence != h.pending && !h.o.LeftOut.has(GuardAnswered) {
		return
	}
	defer h.beginMinor(now)()
	if a.Stale {
		h.Failed(r, now)
		return
	}
	h.pending, h.failed = 0, false
	if a.Lost {
		h.remember()
	}
	if a.Epoch != h.epoch {
		h.frozen = h.epoch != ""
		h.epoch, h.watchedSince = a.Epoch, now
		clear(h.members)
	}
	h.observe(a.Members, asked)
	// The version is that of the epoch at hand also if the next report is to be full: if the epoch is lost again before that arrives, it says which
	// members the holder has seen in it.
	h.askedAt, h.settled, h.version = asked, a.Settled, a.Version
	if a.Again {
		h.needsFull, h.frozen = true, true
		for _, s := range h.servers {
			if a.Forgotten && !h.o.LeftOut.has(GuardForgot) {
				s.limit = min(s.limit, s.usage.Used)
			}
			h.updateLimit(s, now)
		}
		return
	}

	thawed := h.frozen && !a.Frozen
	h.needsFull, h.frozen = false, a.Frozen
	if r.Full {
		h.lostMembers = nil
	}
	accounts := make(map[string]*Account, len(a.Accounts))
	for i := range a.Accounts {
		accounts[a.Accounts[i].Server] = &a.Accounts[i]
	}
	for server, s := range h.servers {
		account := accounts[server]
		c, named := r.Claims[server]
		if r.Full && !named {
			c, named = Claim{}, s.reported != (Claim{}) || s.usage == (Usage{})
		}
		if named {
			s.reported, s.dirty = c, false
			h.settleLoan(server, s)
		}
		if account != nil || r.Full || named {
			s.account, s.granted = account, account.places(h.o.ID)
		}
		if s.reported == (Claim{}) && s.granted == 0 && s.usage == (Usage{}) && s.offered == 0 && s.lent == 0 && s.borrowed == 0 {
			delete(h.servers, server)
			continue
		}
		s.dirty = s.dirty || thawed
		h.updateLimit(s, now)
	}
}

// Failed says that a report may or may not have arrived.
func (h *Holder) Failed(r *Report, now Instant) {
	if r.Sequence != h.pending {
		return
	}
	h.pending, h.failed = 0, true
	for server, s := range h.servers {
		if _, named := r.Claims[server]; named || r.Full {
			s.dirty = true
		}
		h.updateLimit(s, now)
	}
}

// remember keeps the other proxies that the holder knows, to name them to the ledger.
func (h *Holder) remember() {
	known := make(map[ID]bool)
	for i := range h.lostMembers {
		known[h.lostMembers[i].ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(h.members)) {
		if !known[id] && !h.dead[id] {
			h.lostMembers = append(h.lostMembers, h.members[id].Member)
		}
	}
}

// Limit returns how many connections the proxy may have to the server.
func (h *Holder) Limit(server string) int {
	if s := h.servers[server]; s != nil {
		return s.limit + s.borrowed
	}
	return 0
}

// Limits returns the limits of all servers.
func (h *Holder) Limits() map[string]int {
	limits := make(map[string]int, len(h.servers))
	for server, s := range h.servers {
		limits[server] = s.limit + s.borrowed
	}
	return limits
}

// Frozen reports whether the ledger grants nothing, as far as the holder knows.
func (h *Holder) Frozen() bool { return h.frozen }

// Due reports whether the next exchange is to be made immediately, rather than with the next heartbeat: places can be given back that others wait
// for, or clients wait for places. It is false for a tenth of a second after an exchange, and after a failed one until the next succeeds.
func (h *Holder) Due(now Instant) bool {
	if h.pending != 0 || h.failed || now < h.askedAt+Instant(soonest) {
		return false
	}
	if h.needsFull {
		return true
	}
	for _, s := range h.servers {
		c := h.claim(s)
		// What is due must be reported, too: otherwise exchanges that report nothing would follow each other.
		t := s.reported
		needsMore := c.Needs > s.granted && (s.dirty || t.Needs <= s.granted || !h.defersMinorAt(now) && c.Needs > t.Needs && differs(c.Needs, t.Needs))
		if s.short && c.Holds < s.granted || needsMore {
			return true
		}
	}
	return false
}

// Expired returns when, without an answer by then, others may take this proxy's places, so that no connection may be dialed after it;
// ok is false if they never do.
func (h *Holder) Expired() (at Instant, ok bool) {
	if h.o.Timeout <= 0 || h.epoch == "" {
		return 0, false
	}
	// Clocks that do not jump still run at different speeds.
	return h.askedAt + Instant(h.o.Timeout-h.o.Timeout/200), true
}

// Expire lowers the limits if [Holder.Expired] has passed.
func (h *Holder) Expire(now Instant) {
	if at, ok := h.Expired(); ok && at <= now {
		for _, s := range h.servers {
			h.updateLimit(s, now)
		}
	}
}

const (
	// HeartbeatInterval is how often each proxy makes an exchange.
	HeartbeatInterval = time.Second
	// SlowHeartbeatInterval is how often it does in a fleet of more than crowd proxies; see [Holder.HeartbeatInterval].
	SlowHeartbeatInterval = 2 * HeartbeatInterval
	// Unseen is after how long without an exchange a proxy is suspected of being dead: proof is looked for.
	Unseen = 3 * time.Second
	// margin is how much later than its heartbeat is due a proxy may make an exchange without being late.
	margin = 300 * time.Millisecond
)

// crowd is from how many proxies on their heartbeats cost the database more than all that they report.
const crowd = 50

// HeartbeatInterval returns how long after an exchange the next one is due if there is nothing to report before. notified is what [Store.Notifies]
// returns: a proxy that is not notified when others need places has to look for it once a second, so that places move within two.
func (h *Holder) HeartbeatInterval(notified bool) time.Duration {
	if notified && len(h.members) >= crowd && !h.frozen && !h.needsFull && h.settled {
		return SlowHeartbeatInterval
	}
	return HeartbeatInterval
}

// Late returns how long after its last exchange a proxy is late, in a fleet of that many. The difference to [Unseen] leaves time to look again
// before it is suspected.
func Late(members int) time.Duration {
	if members > crowd {
		return SlowHeartbeatInterval + margin
	}
	return HeartbeatInterval + margin
}

// Suspect is a proxy that has made no exchange for some time, as this one has observed it.
type Suspect struct {
	Member Member
	Unseen time.Duration
}

// Suspects returns the proxies that have not been seen for longer than [Unseen], by ID. Time in which this proxy got no answers does not
// count: it cannot have seen any.
func (h *Holder) Suspects() []Suspect {
	var all []Suspect
	for _, id := range slices.Sorted(maps.Keys(h.members)) {
		if m := h.members[id]; m.isSuspected() {
			all = append(all, Suspect{m.Member, max(m.unseen, m.hint)})
		}
	}
	return all
}

// isSuspected reports whether the proxy is suspected. The store's clock tells it sooner of one that was dead before it was observed, but may have
// jumped: one that lives makes an exchange within a heartbeat interval, in a crowd within two. There, one is suspected for a moment if the clock jumps,
// which does no harm.
func (o *observed) isSuspected() bool {
	return o.unseen >= Unseen || o.hint >= Unseen && o.unseen >= HeartbeatInterval
}

// Died says that a proxy is proven dead. The next report says so to the ledger.
func (h *Holder) Died(id ID) { h.dead[id] = true }

// Lives takes back what Died has said: the proxy has made an exchange since. Otherwise each report would have the ledger remove it again.
func (h *Holder) Lives(id ID) { delete(h.dead, id) }

// observe notes which other proxies have made an exchange since the last answer. asked is when this one was asked for.
func (h *Holder) observe(members []Member, asked Instant) {
	defer h.updateSuspects()
	if members == nil { // all have been seen lately
		for _, m := range h.members {
			m.unseen, m.hint = 0, 0
		}
		return
	}
	// A pause without answers, in which no proxy was observed, counts as two heartbeat intervals at most.
	passed := min(time.Duration(asked-h.askedAt), 2*HeartbeatInterval)
	var seen time.Time
	there := make(map[ID]bool, len(members))
	for i := range members {
		there[members[i].ID] = true
		if members[i].ID == h.o.ID {
			seen = members[i].Seen
		}
	}
	maps.DeleteFunc(h.members, func(id ID, _ *observed) bool { return !there[id] })
	for i := range members {
		m := &members[i]
		if m.ID == h.o.ID {
			continue
		}
		o := h.members[m.ID]
		if o == nil {
			h.members[m.ID] = &observed{Member: *m}
			continue
		}
		o.hint = 0
		if o.Heartbeats != m.Heartbeats {
			o.unseen = 0
		} else {
			o.unseen += passed
			if !seen.IsZero() && !m.Seen.IsZero() {
				o.hint = max(seen.Sub(m.Seen), 0)
			}
		}
		o.Member = *m
	}
}

// updateSuspects works out which proxies are suspected.
func (h *Holder) updateSuspects() {
	before := h.suspects
	h.suspects = nil
	for id, m := range h.members {
		if m.isSuspected() {
			if h.suspects == nil {
				h.suspects = make(map[ID]bool)
			}
			h.suspects[id] = true
		}
	}
	if !maps.Equal(before, h.suspects) {
		h.suspected++
	}
}
