package fleet_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
)

// TestDeathOfAnotherEpoch: a report that a grant time-out has passed arrives after a failover, which has lost heartbeats. By now the proxy has made
// as many exchanges as the report says, so its heartbeats alone do not tell that it was seen.
func TestDeathOfAnotherEpoch(t *testing.T) {
	l := &fleet.Ledger{Members: map[fleet.ID]*fleet.Member{}, Accounts: map[string]*fleet.Account{}}
	say := func(id fleet.ID, sequence uint64, epoch fleet.Epoch, identity string, fresh fleet.Epoch, dead ...fleet.Death) {
		l.Exchange(&fleet.Report{ID: id, Sequence: sequence, Epoch: epoch, Full: true, Dead: dead}, identity, fresh)
	}
	say("a", 1, "", "first", "before")
	say("b", 1, "", "first", "before")
	standby := l.Clone()
	say("b", 2, "before", "first", "")
	heartbeats := l.Members["b"].Heartbeats

	l = standby
	say("b", 3, "before", "second", "after")
	if l.Members["b"].Heartbeats != heartbeats {
		t.Fatalf("b made %d exchanges, not %d", l.Members["b"].Heartbeats, heartbeats)
	}
	say("a", 2, "before", "second", "", fleet.Death{ID: "b", Heartbeats: heartbeats})
	if l.Members["b"] == nil {
		t.Error("b was taken for dead, which has just been seen")
	}
	say("a", 3, "after", "second", "", fleet.Death{ID: "b", Heartbeats: heartbeats})
	if l.Members["b"] != nil {
		t.Error("b was not taken for dead after its time-out in this epoch")
	}
}

// TestBeatsNeverComeBack: a proxy that an operator has forgotten comes back. Who has not heard of that, and says that its grant time-out has passed
// since the heartbeats that it knows, must not take it for dead.
func TestBeatsNeverComeBack(t *testing.T) {
	l := &fleet.Ledger{Members: map[fleet.ID]*fleet.Member{}, Accounts: map[string]*fleet.Account{}}
	say := func(id fleet.ID, sequence uint64, dead ...fleet.Death) {
		l.Exchange(&fleet.Report{ID: id, Sequence: sequence, Epoch: l.Epoch, Full: true, Dead: dead}, "", "only")
	}
	say("a", 1)
	say("b", 1)
	heartbeats := l.Members["b"].Heartbeats
	l.Forget("b", "", "another")
	say("b", 2)
	say("a", 2, fleet.Death{ID: "b", Heartbeats: heartbeats})
	if l.Members["b"] == nil {
		t.Error("b was taken for dead, which has come back")
	}
}

// TestFirstReportOfOneThatIsWaitedFor: a failover loses that a proxy has joined, and another proxy names it. The first report of the lost one has been
// under way all the time and arrives after the lease time: it says nothing about what that proxy holds by now.
func TestFirstReportOfOneThatIsWaitedFor(t *testing.T) {
	l := &fleet.Ledger{Members: map[fleet.ID]*fleet.Member{}, Accounts: map[string]*fleet.Account{}}
	needs := map[string]fleet.Claim{"s": {Cap: 1, Needs: 1, Wants: 1}}
	first := &fleet.Report{ID: "lost", Sequence: 1, Full: true, Claims: needs}
	a := l.Exchange(&fleet.Report{ID: "b", Sequence: 1, Full: true}, "second", "epoch")
	l.Settled = false // as after a failover
	b := &fleet.Report{ID: "b", Sequence: 2, Epoch: a.Epoch, Full: true, Others: []fleet.Member{{ID: "lost"}}}
	l.Members["b"].Epoch = ""
	l.Exchange(b, "second", "")
	a = l.Exchange(&fleet.Report{ID: "b", Sequence: 3, Epoch: a.Epoch, Version: a.Version, Settle: true}, "second", "")
	if !a.Settled || len(a.Missing) != 1 {
		t.Fatalf("settled: %v, waited for: %v", a.Settled, a.Missing)
	}
	if a = l.Exchange(first, "second", ""); !a.Again || len(a.Missing) != 1 {
		t.Errorf("asked again: %v, waited for: %v", a.Again, a.Missing)
	}
}

// TestLostWhileAskedAgain: a proxy that the ledger asks for a full report has seen another one join in the new epoch. A second failover forgets that
// before the full report arrives, so the proxy must be asked whom it knew.
func TestLostWhileAskedAgain(t *testing.T) {
	l := &fleet.Ledger{Members: map[fleet.ID]*fleet.Member{}, Accounts: map[string]*fleet.Account{}}
	identity, epochs := "first", 0
	exchange := func(h *fleet.Holder) *fleet.Answer {
		h.Use("s", fleet.Usage{Cap: 1})
		r := h.Report(0)
		epochs++
		a := l.Exchange(r, identity, fleet.Epoch(strings.Repeat("e", epochs)))
		h.Answered(r, a, 0, 0)
		return a
	}
	a, b, lost := fleet.NewHolder(fleet.HolderOptions{ID: "a"}), fleet.NewHolder(fleet.HolderOptions{ID: "b"}), fleet.NewHolder(fleet.HolderOptions{ID: "lost"})
	exchange(a)
	exchange(b)

	identity = "second"
	exchange(b)
	standby := l.Clone()
	exchange(lost)
	if answer := exchange(a); !answer.Again {
		t.Fatal("the ledger does not ask again")
	}

	l, identity = standby, "third"
	if answer := exchange(a); !answer.Lost {
		t.Error("a is not asked whom it knew")
	}
	if others := a.Report(0).Others; !slices.ContainsFunc(others, func(m fleet.Member) bool { return m.ID == "lost" }) {
		t.Errorf("a names %v", others)
	}
}

// TestWithinCapAgain: more places are granted than a cap that was lowered. All proxies must hear when that is over: otherwise one that heard only that it
// was so keeps fewer places than are fair, and says that too many are granted, until something else changes.
func TestWithinCapAgain(t *testing.T) {
	l := &fleet.Ledger{Members: map[fleet.ID]*fleet.Member{}, Accounts: map[string]*fleet.Account{}}
	sequence := uint64(0)
	version := map[fleet.ID]int64{}
	say := func(id fleet.ID, c fleet.Claim) (granted int, heard bool) {
		t.Helper()
		sequence++
		c.Wants, c.Share = c.Cap, 1
		r := &fleet.Report{ID: id, Sequence: sequence, Epoch: l.Epoch, Version: version[id], Full: version[id] == 0, Claims: map[string]fleet.Claim{"s": c}}
		if c.Cap == 0 { // there is nothing to say
			r.Claims = nil
		}
		if version[id] == 0 {
			r.Epoch = ""
		}
		a := l.Exchange(r, "", "only")
		version[id] = a.Version
		for i := range a.Accounts {
			return a.Accounts[i].Granted(), true
		}
		return 0, false
	}
	for _, id := range []fleet.ID{"a", "b"} {
		say(id, fleet.Claim{Cap: 8, Holds: 0})
	}
	say("a", fleet.Claim{Cap: 8, Holds: 3})
	say("b", fleet.Claim{Cap: 8, Holds: 3})
	say("a", fleet.Claim{Cap: 4, Holds: 3})
	if granted, _ := say("a", fleet.Claim{Cap: 4, Holds: 2}); granted != 5 {
		t.Fatalf("%d places are granted, want 5 of 4", granted)
	}
	say("b", fleet.Claim{Cap: 4, Holds: 2})
	if granted, heard := say("a", fleet.Claim{}); !heard || granted != 4 {
		t.Errorf("a proxy has heard of it: %v, of %d places", heard, granted)
	}
}
