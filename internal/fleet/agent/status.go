package agent

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
)

// Mode is what a proxy's part in a fleet is, as the admin API names it.
type Mode string

// The modes.
const (
	Waiting  Mode = "waiting" // there was no answer yet, and nothing may be dialed, or what grant-without-database says
	Alone    Mode = "alone"   // there is no other proxy in the ledger
	Shared   Mode = "fleet"   // the caps are shared with other proxies
	Unshared Mode = "whole"   // the ledger cannot be used, or is not reached by one that was alone: the proxy uses the whole caps
)

// Status is a proxy's part in its fleet at one moment. It is not changed.
type Status struct {
	Mode   Mode
	Since  time.Time // of the mode
	Ledger string    // without a password
	Self   fleet.ID
	// Problem says why the ledger cannot be used, and Lost since when; empty and zero if it can. Advice says what to do.
	Problem, Advice string
	Lost            time.Time
	// Frozen: no places are granted or taken back, since the proxies Missing have not yet said what they hold.
	Frozen      bool
	FrozenSince time.Time
	Missing     []string
	// Members are all proxies, this one included, by name. Unseen is how long each has not been seen, as this proxy has observed it.
	Members []fleet.Member
	Unseen  map[fleet.ID]time.Duration
	// Clash has the IDs of other proxies with this one's name.
	Clash    []fleet.ID
	Accounts []fleet.Account // of all servers, by server
	// Limits are how many connections this proxy may have to each server; nil for the whole caps.
	Limits map[string]int
	Took   time.Duration // by the last exchange
}

// Status returns the latest status.
func (a *Agent) Status() *Status { return a.status.Load() }

// Members returns all proxies that the ledger knows, by name.
func (a *Agent) Members() []fleet.Member { return a.status.Load().Members }

// Line says in one line what the fleet does; empty if there is nothing to say.
func (s *Status) Line() string {
	switch {
	case s.Mode == Unshared:
		return "caps are not shared: " + s.Problem
	case s.Mode == Waiting && s.Problem != "":
		return "no places yet: " + s.Problem
	case s.Mode == Waiting:
		return "no places yet"
	case s.Problem != "":
		return "the ledger is lost: " + s.Problem
	case s.Frozen && len(s.Missing) > 0:
		return "no places are granted until these proxies have said what they hold: " + strings.Join(s.Missing, ", ")
	case s.Frozen:
		return "no places are granted until all proxies have had time to say what they hold"
	case len(s.Clash) > 0:
		return "another proxy has the same name"
	}
	return ""
}

// publish puts a new status in force.
func (a *Agent) publish() {
	v, before := &a.view, a.status.Load()
	s := &Status{
		Mode: a.mode(), Since: before.Since, Ledger: a.o.Ledger, Self: a.o.Holder.ID,
		Problem: v.problem, Lost: v.lost, Frozen: v.frozen, FrozenSince: v.frozenSince, Missing: v.missing,
		Members: slices.Clone(v.members), Unseen: make(map[fleet.ID]time.Duration, len(v.members)), Clash: v.clash,
		Limits: maps.Clone(a.limits), Took: v.took,
	}
	if a.failures < 2 && a.answered && !a.unshared { // one lost exchange is no news
		s.Problem, s.Lost = "", time.Time{}
	}
	if s.Problem != "" {
		s.Advice = v.advice
	}
	if a.assumesAlone {
		s.Problem = "this proxy was alone, and the ledger is not reached; " + joinedMeanwhile + " (" + v.problem + ")"
	}
	if s.Mode != before.Mode {
		s.Since = time.Now()
	}
	at := a.o.Now()
	for i := range s.Members {
		m := &s.Members[i]
		if seen, ok := v.seen[m.ID]; ok && m.ID != s.Self {
			s.Unseen[m.ID] = time.Duration(at - seen.at)
		}
	}
	for _, server := range slices.Sorted(maps.Keys(v.accounts)) {
		s.Accounts = append(s.Accounts, v.accounts[server])
	}
	a.status.Store(s)
	if a.o.Learned != nil {
		a.o.Learned(s)
	}
}

func (a *Agent) mode() Mode {
	switch {
	case a.unshared, a.assumesAlone:
		return Unshared
	case !a.answered:
		return Waiting
	case len(a.view.members) > 1:
		return Shared
	}
	return Alone
}

// view is what an agent knows of its fleet, and what it has logged of it. It is owned by the agent's goroutine.
type view struct {
	members  []fleet.Member
	seen     map[fleet.ID]sighting
	accounts map[string]fleet.Account
	took     time.Duration // by the last exchange

	epoch       fleet.Epoch
	frozen      bool
	frozenSince time.Time
	missing     []string // names
	clash       []fleet.ID

	lost            time.Time     // zero while the ledger answers
	back            fleet.Instant // when the ledger answered again
	problem, advice string        // why it does not
	loggedProblem   string        // the reason that was logged last; empty for none

	resting        bool           // no other proxy is there, and there is nothing to report, nor to give back
	reportedCaps   map[string]int // that the ledger knows
	reportedState  fleet.State
	reportedConfig string

	suspects   map[fleet.ID]time.Time // since when they are suspected
	dead       map[fleet.ID]bool      // those that this proxy has proven dead
	provenAt   map[fleet.ID]uint64    // how many exchanges they had made then
	assumed    map[fleet.ID]bool      // those whose places were taken although nothing is proven
	overdrawn  map[string]bool        // servers with more places granted than the cap
	clashSince map[fleet.ID]fleet.Instant
}

// sighting is when a proxy's heartbeats were seen to move.
type sighting struct {
	heartbeats uint64
	at         fleet.Instant
}

func (v *view) init() {
	v.seen, v.accounts, v.reportedCaps = make(map[fleet.ID]sighting), make(map[string]fleet.Account), make(map[string]int)
	v.suspects, v.dead, v.assumed = make(map[fleet.ID]time.Time), make(map[fleet.ID]bool), make(map[fleet.ID]bool)
	v.provenAt = make(map[fleet.ID]uint64)
	v.overdrawn, v.clashSince = make(map[string]bool), make(map[fleet.ID]fleet.Instant)
}

// learn takes an answer in and logs what is new.
func (a *Agent) learn(r *fleet.Report, answer *fleet.Answer, at fleet.Instant, first bool) {
	v := &a.view
	if answer.Stale {
		return
	}
	a.found(at, first)
	a.logAssumed(r)
	if r.Full {
		v.accounts = make(map[string]fleet.Account, len(answer.Accounts))
	}
	for _, account := range answer.Accounts {
		if account.IsEmpty() {
			delete(v.accounts, account.Server)
		} else {
			v.accounts[account.Server] = account
		}
	}
	v.reportedCaps = make(map[string]int, len(a.usage))
	for server, u := range a.usage {
		v.reportedCaps[server] = u.Cap
	}
	v.reportedState, v.reportedConfig = r.About.State, r.About.Config
	before := v.members
	if answer.Members != nil {
		v.members = answer.Members
	}
	for i := range v.members {
		m := &v.members[i]
		if s, ok := v.seen[m.ID]; !ok || s.heartbeats != m.Heartbeats || answer.Members == nil || m.ID == a.o.Holder.ID {
			v.seen[m.ID] = sighting{m.Heartbeats, at}
		}
		if made, proven := v.provenAt[m.ID]; proven && m.Heartbeats > made { // a firewall has spoken for it, or its last exchange was on its way
			delete(v.provenAt, m.ID)
			delete(v.dead, m.ID)
			a.holder.Lives(m.ID)
		}
	}
	maps.DeleteFunc(v.seen, func(id fleet.ID, _ sighting) bool { return v.member(id) == nil })
	a.logMembers(before, first, answer)
	a.logSuspects(at)
	a.logFrozen(answer)
	a.logOverdrawn()
	a.logClash(at)
	v.resting = len(v.overdrawn) == 0 && a.isAlone() && !answer.Frozen && answer.Settled && !answer.Again && !a.holder.Due(at+fleet.Instant(gap)) && a.hasAll()
	suspects := make(map[fleet.ID]bool, len(v.suspects))
	for id := range v.suspects {
		suspects[id] = true
	}
	a.proofs.look(job{self: a.o.Holder.ID, members: slices.Clone(v.members), suspects: suspects})
}

// member returns a member; nil if it is not in the ledger.
func (v *view) member(id fleet.ID) *fleet.Member {
	if i := slices.IndexFunc(v.members, func(m fleet.Member) bool { return m.ID == id }); i >= 0 {
		return &v.members[i]
	}
	return nil
}

// places returns how many places a proxy has, of all servers.
func (v *view) places(id fleet.ID) (n int) {
	for _, account := range v.accounts {
		for _, g := range account.Grants {
			if g.Proxy == id {
				n += g.Places
			}
		}
	}
	return n
}

func (a *Agent) isAlone() bool {
	return len(a.view.members) == 1 && a.view.members[0].ID == a.o.Holder.ID
}

// hasOthers reports whether another proxy is there. Processes with the same state directory, such as the one before this, are found by their
// locks in it.
func (a *Agent) hasOthers(instance string) bool {
	return slices.ContainsFunc(a.view.members, func(m fleet.Member) bool {
		return m.ID != a.o.Holder.ID && (instance == "" || m.Instance != instance)
	})
}

// hasAll reports whether the proxy has all places of all its servers.
func (a *Agent) hasAll() bool {
	for server, u := range a.usage {
		if a.holder.Limit(server) < u.Cap {
			return false
		}
	}
	return true
}

// found says that the ledger answers; first: for the first time.
func (a *Agent) found(at fleet.Instant, first bool) {
	v := &a.view
	if !v.lost.IsZero() {
		v.back = at
	}
	if v.loggedProblem != "" && !first {
		a.o.Log.Info("the ledger is back", "ledger", a.o.Ledger, "after", time.Since(v.lost).Round(time.Millisecond))
	}
	v.loggedProblem, v.lost, v.problem, v.advice = "", time.Time{}, "", ""
}

// logMembers tells which proxies came and went.
func (a *Agent) logMembers(before []fleet.Member, first bool, answer *fleet.Answer) {
	v := &a.view
	if answer.Forgotten {
		a.o.Log.Error("this proxy was taken for dead: other proxies may have its places, so it dials no server until the ledger has recorded what it uses")
	}
	was := make(map[fleet.ID]*fleet.Member, len(before))
	for i := range before {
		was[before[i].ID] = &before[i]
	}
	own := v.member(a.o.Holder.ID)
	var names []string
	for i := range v.members {
		m := &v.members[i]
		if m.ID == a.o.Holder.ID {
			continue
		}
		names = append(names, m.Name)
		if b := was[m.ID]; b == nil {
			if !first {
				a.o.Log.Info("a proxy has joined the fleet", about(m)...)
			}
			a.logForeign(own, m)
		} else if b.State != m.State && m.State == fleet.Draining {
			a.o.Log.Info("a proxy of the fleet drains", about(m)...)
		}
	}
	slices.Sort(names)
	switch {
	case first && len(names) == 0 && a.o.Local: // the usual: most proxies are alone on their host
		a.o.Log.Debug("joined the fleet: no other proxy is there", "ledger", a.o.Ledger, "id", string(a.o.Holder.ID))
	case first && len(names) == 0:
		a.o.Log.Info("joined the fleet: no other proxy is there", "ledger", a.o.Ledger, "id", string(a.o.Holder.ID))
	case first:
		a.o.Log.Info("joined the fleet", "ledger", a.o.Ledger, "id", string(a.o.Holder.ID), "others", names)
	case len(before) > 1 && len(names) == 0 && own != nil:
		defer a.o.Log.Info("alone in the fleet: this proxy may use all places")
	}
	for id, m := range was {
		if v.member(id) != nil || id == a.o.Holder.ID {
			continue
		}
		switch _, suspected := v.suspects[id]; {
		case v.dead[id], v.assumed[id]: // it was logged
		case suspected:
			a.o.Log.Warn("a proxy that was not seen is removed: another proxy has proven that it is dead, its grant time-out has passed, or an operator has said so", about(m)...)
		default:
			a.o.Log.Info("a proxy is gone from the fleet: it has left, or another one has proven that it has ended", about(m)...)
		}
		delete(v.dead, id)
		delete(v.assumed, id)
		delete(v.clashSince, id)
		delete(v.suspects, id)
	}
}

// logForeign tells that a proxy is of another version or schema.
func (a *Agent) logForeign(own, m *fleet.Member) {
	switch {
	case own == nil:
	case own.Schema != m.Schema:
		a.o.Log.Warn("a proxy of the fleet knows another schema of the database: upgrade the older one", append(about(m), "schema", m.Schema, "own_schema", own.Schema)...)
	case own.Version != m.Version:
		a.o.Log.Info("a proxy of the fleet has another version", append(about(m), "version", m.Version, "own_version", own.Version)...)
	}
}

// about returns what log lines say of a proxy.
func about(m *fleet.Member) []any {
	attributes := []any{"proxy", m.Name, "id", string(m.ID)}
	if m.Address != "" {
		attributes = append(attributes, "address", m.Address)
	}
	return attributes
}

// logSuspects tells which proxies are no longer seen, or are seen again.
func (a *Agent) logSuspects(at fleet.Instant) {
	v := &a.view
	if v.back > 0 && at-v.back < fleet.Instant(fleet.Unseen+fleet.HeartbeatInterval) { // the others could not be seen, and may need longer to be back
		return
	}
	now := make(map[fleet.ID]bool)
	for _, s := range a.holder.Suspects() {
		if a.o.Local && at-v.seen[s.Member.ID].at < fleet.Instant(fleet.Unseen) { // it made no exchange while it was alone
			continue
		}
		now[s.Member.ID] = true
		if _, known := v.suspects[s.Member.ID]; !known {
			v.suspects[s.Member.ID] = time.Now().Add(-s.Unseen)
			a.o.Log.Warn("a proxy is not seen: its places stay its own until it is proven dead", append(about(&s.Member), "for", s.Unseen.Round(time.Millisecond), "places", v.places(s.Member.ID))...)
		}
	}
	for id, since := range v.suspects {
		m := v.member(id)
		if now[id] || m == nil {
			continue
		}
		delete(v.suspects, id)
		delete(v.dead, id)
		a.o.Log.Info("a proxy is seen again", append(about(m), "after", time.Since(since).Round(time.Millisecond))...)
	}
}

// logAssumed tells whose places a report takes although nothing is proven.
func (a *Agent) logAssumed(r *fleet.Report) {
	v := &a.view
	for _, d := range r.Dead {
		if m := v.member(d.ID); !d.Proven && !v.dead[d.ID] && !v.assumed[d.ID] && m != nil {
			v.assumed[d.ID] = true
			a.o.Log.Warn("a proxy is assumed to be dead, since grant-timeout has passed: if it runs, servers may get more connections than their caps", append(about(m), "places", v.places(d.ID))...)
		}
	}
}

// died takes in that a proxy is proven dead.
func (a *Agent) died(d death) {
	v := &a.view
	m := v.member(d.member.ID)
	if m == nil || m.Heartbeats != d.member.Heartbeats {
		return // others have reported it, or it has made an exchange since the proof began
	}
	v.dead[m.ID], v.provenAt[m.ID] = true, m.Heartbeats
	a.holder.Died(m.ID)
	a.o.Log.Warn("a proxy is dead: its places are free", append(about(&d.member), "proof", d.how, "places", v.places(d.member.ID))...)
}

// logFrozen tells that the ledger grants nothing, or again.
func (a *Agent) logFrozen(answer *fleet.Answer) {
	v := &a.view
	v.missing = nil
	for _, id := range answer.Missing {
		name := string(id)
		if m := v.member(id); m != nil {
			name = m.Name
		}
		v.missing = append(v.missing, name)
	}
	slices.Sort(v.missing)
	epoch := v.epoch
	v.epoch = answer.Epoch
	if v.frozen == answer.Frozen {
		return
	}
	v.frozen = answer.Frozen
	if answer.Forgotten { // that was logged
		return
	}
	if v.frozen {
		v.frozenSince = time.Now()
		why := "a proxy that was taken for dead is back"
		if answer.Epoch != epoch {
			why = "the database was restarted or replaced, or its ledger was emptied"
		}
		a.o.Log.Warn("no places are granted until all proxies have said what they hold", "reason", why, "waits_for", v.missing)
		return
	}
	if v.frozenSince.IsZero() {
		return
	}
	a.o.Log.Info("places are granted again", "after", time.Since(v.frozenSince).Round(time.Millisecond))
	v.frozenSince = time.Time{}
}

// logOverdrawn tells that more places of a server are granted than its cap, and when that ends.
func (a *Agent) logOverdrawn() {
	v := &a.view
	for _, server := range slices.Sorted(maps.Keys(v.accounts)) {
		account := v.accounts[server]
		granted, limit := account.Granted(), account.Cap()
		if limit == 0 { // those that are left no longer have the server
			continue
		}
		if over := granted > limit; over != v.overdrawn[server] {
			if v.overdrawn[server] = over; over {
				a.o.Log.Warn("more places are granted than the cap: none are granted until sessions have ended", "server", secret.URL(server), "granted", granted, "cap", limit,
					"reason", "the cap was lowered, or a proxy is back that was taken for dead or that served without the ledger")
			} else {
				a.o.Log.Info("grants are back within the cap", "server", secret.URL(server), "granted", granted, "cap", limit)
			}
		}
	}
	maps.DeleteFunc(v.overdrawn, func(server string, is bool) bool {
		_, ok := v.accounts[server]
		return !ok || !is
	})
}

// clashAfter is for how long two proxies that serve must have one name before it is logged: the predecessor of a proxy has its name, too.
const clashAfter = fleet.Instant(2 * fleet.Unseen)

// logClash tells that another proxy has this one's name.
func (a *Agent) logClash(at fleet.Instant) {
	v := &a.view
	own := v.member(a.o.Holder.ID)
	v.clash = nil
	if own == nil {
		return
	}
	for i := range v.members {
		m := &v.members[i]
		_, suspected := v.suspects[m.ID]
		if m.ID == own.ID || m.Name != own.Name || suspected || m.State != fleet.Serving || own.State != fleet.Serving {
			delete(v.clashSince, m.ID)
			continue
		}
		since, known := v.clashSince[m.ID]
		if !known {
			v.clashSince[m.ID] = at
			continue
		}
		if at-since < clashAfter {
			continue
		}
		v.clash = append(v.clash, m.ID)
		if since >= 0 {
			a.o.Log.Warn("another proxy has the same name: both serve, and commands need its id; give each its own proxy-name", about(m)...)
			v.clashSince[m.ID] = -clashAfter // logged
		}
	}
}
