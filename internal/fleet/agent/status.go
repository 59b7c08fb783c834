package agent

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// Mode is what a proxy's part in a fleet is.
type Mode string

// The modes.
const (
	Waiting Mode = "waiting" // there was no answer yet, and nothing may be dialed, or what grant-without-database says
	Alone   Mode = "alone"   // there is no other proxy in the ledger
	Shares  Mode = "fleet"   // the caps are shared with other proxies
	Whole   Mode = "whole"   // the ledger cannot be used, or is not reached by one who was alone: the proxy uses the whole caps
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
	case s.Mode == Whole:
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
		Limits: maps.Clone(a.said), Took: v.took,
	}
	if a.failures < 2 && a.answered { // one lost exchange is no news
		s.Problem, s.Lost = "", time.Time{}
	}
	if s.Problem != "" {
		s.Advice = v.advice
	}
	if a.assumes {
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
	case a.whole, a.assumes:
		return Whole
	case !a.answered:
		return Waiting
	case len(a.view.members) > 1:
		return Shares
	}
	return Alone
}
