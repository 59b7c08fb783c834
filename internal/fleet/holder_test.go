package fleet

import (
	"fmt"
	"testing"
	"time"
)

func TestAlone(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(16).needs(0, 0, 4)
	a.exchange()
	r.expect("after the first exchange", map[ID]int{"a": 16})
	version := r.ledger.Version
	for i := range 10 {
		a.needs(4+i, i, 4+i)
		report := a.report()
		if !report.Quiet() {
			t.Errorf("with %d sessions, there is something to say: %+v", i, report)
		}
		r.exchange(report)
		a.h.Failed(report, r.now)
		a.exchange()
	}
	if r.ledger.Version != version {
		t.Errorf("the ledger changed while no other was there")
	}
}

func TestAnswersAndReportsThatAreLost(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(7).needs(0, 0, 5)
	b := r.join(HolderOptions{ID: "b"}).cap(7).needs(0, 0, 2)
	a.exchange()
	b.exchange()
	a.exchange() // its limit is 5 now

	late := a.report() // gives two places back, and is under way for long
	a.h.Failed(late, r.now)
	b.h.Leave()
	b.usage["s"] = Usage{}
	b.exchange()
	report := a.report()
	if report.Claims["s"].Holds != 5 {
		t.Fatalf("a holds %d, not 5", report.Claims["s"].Holds)
	}
	a.h.Answered(report, r.exchange(report), r.now, r.now)
	r.expect("b has left", map[ID]int{"a": 7})
	if answer := r.exchange(late); !answer.Stale {
		t.Error("a report was taken for a new one after a later one had arrived")
	}
	if got := r.ledger.Accounts["s"].places("a"); got != 7 {
		t.Errorf("a has %d places after its late report, not 7", got)
	}

	// An answer that is lost: the ledger has granted more than the holder knows.
	c := r.join(HolderOptions{ID: "c"}).cap(7).needs(0, 7, 7)
	report = c.report()
	r.exchange(report)
	c.h.Failed(report, r.now)
	a.exchange()
	a.exchange()
	report = c.report()
	r.exchange(report)
	c.h.Failed(report, r.now)
	if !c.report().Full {
		t.Error("the report of a proxy that has never had an answer is not full")
	}
	c.exchange()
	r.expect("c has got its answer", map[ID]int{"a": 0, "c": 7})
}

func TestForgottenComesBack(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(4).needs(3, 3, 3)
	b := r.join(HolderOptions{ID: "b"}).cap(4).needs(0, 4, 4)
	a.exchange()
	if !r.forget("a") || r.forget("a") {
		t.Fatal("a cannot be forgotten once")
	}
	b.exchange()
	b.needs(4, 4, 4)
	r.expect("a was forgotten", map[ID]int{"a": 4, "b": 4})
	if answer := a.exchange(); !answer.Forgotten || !answer.Again || !answer.Frozen {
		t.Fatalf("a was not told that it was forgotten: %+v", answer)
	}
	r.expect("a has heard of it", map[ID]int{"a": 3})
	a.exchange()
	if got := r.ledger.Accounts["s"].Granted(); got != 7 {
		t.Errorf("%d places are granted, not 7", got)
	}
	r.expect("both are too much", map[ID]int{"a": 2})
	b.exchange()
	r.expect("both are too much", map[ID]int{"b": 2})
	a.needs(2, 2, 2).exchange()
	b.needs(2, 2, 2).exchange()
	a.exchange()
	b.exchange()
	r.expect("both have enough", map[ID]int{"a": 2, "b": 2})
	if got := r.ledger.Accounts["s"].Granted(); got != 4 {
		t.Errorf("%d places are granted, not 4", got)
	}
}

func TestNewEpoch(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(4).needs(2, 2, 2)
	b := r.join(HolderOptions{ID: "b"}).cap(4).needs(0, 2, 2)
	a.exchange()
	b.exchange()
	a.exchange()
	a.exchange()
	b.exchange()
	b.needs(2, 2, 2)
	r.expect("before", map[ID]int{"a": 2, "b": 2})

	// The database restarts, and has lost b's grant.
	r.identity++
	r.ledger.Accounts["s"].set("b", 0, Claim{Cap: 4, Needs: 2})
	a.needs(2, 4, 4)
	answer := a.exchange()
	if !answer.Again || answer.Settled || len(answer.Missing) != 2 {
		t.Fatalf("a was not told of the new epoch: %+v", answer)
	}
	answer = a.exchange()
	if !answer.Frozen || len(answer.Missing) != 1 || answer.Missing[0] != "b" {
		t.Fatalf("the ledger does not wait for b: %+v", answer)
	}
	r.now += Instant(Lease)
	answer = a.exchange()
	if !answer.Frozen || !answer.Settled {
		t.Fatalf("the ledger does not wait for b: %+v", answer)
	}
	r.expect("without b", map[ID]int{"a": 2})
	b.exchange()
	answer = b.exchange()
	if answer.Frozen {
		t.Fatalf("the ledger waits for more than both: %+v", answer)
	}
	a.exchange()
	r.expect("after", map[ID]int{"a": 2, "b": 2})
	if got := r.ledger.Accounts["s"].Granted(); got != 4 {
		t.Errorf("%d places are granted, not 4", got)
	}
}

func TestLostMembersAreNamed(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(4).needs(0, 0, 1)
	a.exchange()
	lost := *r.ledger.Members["a"]
	version := r.ledger.Version
	b := r.join(HolderOptions{ID: "b"}).cap(4).needs(0, 1, 1)
	b.exchange()
	a.exchange()

	// A standby takes over that has never heard of b, which cannot reach it.
	r.identity++
	r.ledger = &Ledger{
		Identity: "process 0", Epoch: r.ledger.Epoch, Settled: true, Version: version, Members: map[ID]*Member{"a": &lost},
		Accounts: map[string]*Account{"s": {Server: "s", Version: version, Grants: []Grant{{"a", 4, Claim{Cap: 4, Holds: 0}}}}},
	}
	if answer := a.exchange(); !answer.Lost {
		t.Fatalf("a was not asked for those it knew: %+v", answer)
	}
	a.exchange()
	r.now += Instant(Lease)
	if answer := a.exchange(); !answer.Frozen || len(answer.Missing) != 1 || answer.Missing[0] != "b" {
		t.Errorf("the ledger does not wait for b: %+v", answer)
	}
}

// TestRestored puts the tables back to an earlier state, or empties them, under the same process and epoch. The ledger grants nothing
// before all have said what they hold.
func TestRestored(t *testing.T) {
	for _, test := range []struct {
		name    string
		restore func(now, earlier *Ledger) *Ledger
	}{
		{"an earlier state", func(_, earlier *Ledger) *Ledger { return earlier }},
		{"an earlier state, before b joined", func(_, earlier *Ledger) *Ledger {
			delete(earlier.Members, "b")
			earlier.Accounts["s"].set("b", 0, Claim{})
			return earlier
		}},
		{"none is known", func(now, _ *Ledger) *Ledger {
			now.Members, now.Accounts = map[ID]*Member{}, map[string]*Account{}
			return now
		}},
		{"nothing is left", func(*Ledger, *Ledger) *Ledger {
			return &Ledger{Identity: "lost", Members: map[ID]*Member{}, Accounts: map[string]*Account{}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			a := r.join(HolderOptions{ID: "a"}).cap(4).needs(0, 0, 0)
			b := r.join(HolderOptions{ID: "b"}).cap(4).needs(0, 0, 0)
			for range 3 {
				a.exchange()
				b.exchange()
			}
			earlier := r.ledger.Clone() // b has none of the places that it needs now
			b.needs(0, 4, 4)
			for range 3 {
				b.exchange()
				a.exchange()
			}
			b.needs(4, 4, 4).exchange()
			a.exchange()
			r.expect("before", map[ID]int{"a": 0, "b": 4})

			r.ledger = test.restore(r.ledger, earlier)
			epoch := a.h.epoch
			a.needs(0, 4, 4)
			if answer := a.exchange(); !answer.Again || !answer.Lost || answer.Epoch == epoch || answer.Settled {
				t.Fatalf("no epoch begins: %+v", answer)
			}
			a.exchange()
			r.now += Instant(Lease)
			if answer := a.exchange(); !answer.Frozen || len(answer.Missing) != 1 || answer.Missing[0] != "b" {
				t.Fatalf("the ledger does not wait for b: %+v", answer)
			}
			r.expect("without b", map[ID]int{"a": 0, "b": 4})
			b.exchange()
			if answer := b.exchange(); answer.Frozen {
				t.Fatalf("the ledger waits for more than both: %+v", answer)
			}
			a.exchange()
			r.expect("after", map[ID]int{"a": 0, "b": 2})
			b.needs(2, 2, 2).exchange()
			a.exchange()
			r.expect("b has given back", map[ID]int{"a": 2, "b": 2})
		})
	}
}

func TestTimeout(t *testing.T) {
	r := newRig(t)
	o := HolderOptions{ID: "a", Timeout: time.Minute}
	a := r.join(o).cap(4).needs(1, 1, 1)
	o.ID = "b"
	b := r.join(o).cap(4).needs(0, 4, 4)
	a.exchange()
	for range 3 {
		r.now += Instant(HeartbeatInterval)
		b.exchange()
	}
	if len(b.h.Suspects()) != 0 {
		t.Errorf("a is suspected after two heartbeats: %+v", b.h.Suspects())
	}
	r.now += Instant(HeartbeatInterval)
	b.exchange()
	if s := b.h.Suspects(); len(s) != 1 || s[0].Member.ID != "a" || s[0].Unseen != Unseen {
		t.Errorf("a is not suspected: %+v", s)
	}
	at, ok := a.h.Expired()
	if !ok || at > Instant(time.Minute) || at < Instant(59*time.Second) {
		t.Errorf("a's grants expire at %v", at)
	}
	for r.now < Instant(30*time.Second) {
		r.now += Instant(HeartbeatInterval)
		b.exchange()
	}
	r.now += Instant(time.Minute) // in which b had no answers either
	b.exchange()
	if r.ledger.Members["a"] == nil {
		t.Fatal("b counted time in which it saw none")
	}
	for range 40 {
		r.now += Instant(HeartbeatInterval)
		b.exchange()
	}
	if r.ledger.Members["a"] != nil {
		t.Fatal("a still has its places after its time-out")
	}
	a.h.Expire(r.now)
	r.expect("after the time-out", map[ID]int{"a": 1, "b": 4})
}

func TestTimeoutOfOneThatWasSeen(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(4)
	a.exchange()
	b := r.join(HolderOptions{ID: "b", Timeout: 2 * time.Second}).cap(4)
	for range 4 {
		r.now += Instant(HeartbeatInterval)
		b.exchange()
	}
	a2 := r.ledger.Members["a"]
	if a2 != nil {
		t.Fatal("a was not taken for dead")
	}
	a.exchange()
	a.exchange()
	b.exchange()
	for range 2 {
		r.now += Instant(HeartbeatInterval)
		b.exchange()
	}
	report := b.report()
	if len(report.Dead) != 1 {
		t.Fatalf("b does not take a for dead: %+v", report)
	}
	a.exchange()
	r.exchange(report)
	if r.ledger.Members["a"] == nil {
		t.Error("a was taken for dead after it had been seen")
	}
}

// A client that a proxy accepted before it began to drain may come to its queue when the others have all places.
func TestWaitWhileDraining(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(4)
	b := r.join(HolderOptions{ID: "b"}).cap(4).needs(0, 0, 4)
	a.exchange()
	b.exchange()
	a.h.Drain()
	a.exchange()
	a.exchange()
	b.exchange()
	r.expect("b has all places", map[ID]int{"a": 0, "b": 4})
	a.needs(0, 1, 1).exchange()
	b.exchange()
	b.exchange()
	a.exchange()
	r.expect("a client waits at a", map[ID]int{"a": 1, "b": 3})
	a.needs(1, 0, 0).exchange()
	a.needs(0, 0, 0).exchange()
	b.exchange()
	r.expect("its session has ended", map[ID]int{"a": 0, "b": 4})
}

// TestRoomWhileDraining: a proxy that drains keeps the room that it wants for the sessions of other servers, until another proxy needs it.
func TestRoomWhileDraining(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(8).needs(0, 0, 4)
	a.exchange()
	a.h.Drain()
	a.exchange()
	a.exchange()
	r.expect("it is alone, and drains", map[ID]int{"a": 4})
	b := r.join(HolderOptions{ID: "b"}).cap(8).needs(0, 6, 8)
	b.exchange()
	a.exchange()
	a.exchange()
	b.exchange()
	r.expect("clients of b need some of it", map[ID]int{"a": 2, "b": 6})
	a.needs(0, 2, 2).exchange()
	r.expect("sessions of another server continue there", map[ID]int{"a": 2, "b": 6})
	a.needs(0, 0, 0).exchange()
	r.expect("they have ended", map[ID]int{"a": 0})
}

// TestNeedsWhileAllDrain: sessions of proxies that all drain move to a server at which they kept no places. It takes what they need, within the cap
// that they know, and none of them keeps the cap of another from being raised.
func TestNeedsWhileAllDrain(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(8).needs(2, 2, 2)
	b := r.join(HolderOptions{ID: "b"}).cap(6).needs(0, 0, 2)
	for range 2 {
		a.exchange()
		b.exchange()
	}
	a.h.Drain()
	b.h.Drain()
	b.needs(0, 0, 0)
	for range 2 {
		a.exchange()
		b.exchange()
	}
	r.expect("both drain", map[ID]int{"a": 2, "b": 0})
	if account := r.ledger.Accounts["s"]; account.index("b") >= 0 {
		t.Errorf("b neither has nor needs places, and still has a claim: %+v", account)
	}
	b.needs(0, 1, 1).exchange()
	r.expect("a session of b moves there", map[ID]int{"a": 2, "b": 1})
	a.needs(2, 9, 9).exchange()
	r.expect("more sessions of a move there than b's cap has room for", map[ID]int{"a": 5, "b": 1})
	c := r.join(HolderOptions{ID: "c"}).cap(12).needs(0, 1, 1)
	c.exchange()
	a.exchange()
	r.expect("a proxy that does not drain knows the cap", map[ID]int{"a": 9, "b": 1, "c": 2})
}

func TestDrainAndLeave(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a", Floor: 2}).cap(8).needs(5, 3, 5)
	b := r.join(HolderOptions{ID: "b"}).cap(8)
	a.exchange()
	b.exchange()
	a.h.Drain()
	a.needs(5, 3, 3).exchange()
	r.expect("a drains", map[ID]int{"a": 3, "b": 0})
	a.needs(3, 3, 3).exchange()
	b.exchange()
	r.expect("a has closed what its sessions do not use", map[ID]int{"a": 3, "b": 5})
	a.h.Leave()
	if a.needs(1, 1, 1).report().Leaves {
		t.Error("a leaves with a connection")
	}
	a.needs(0, 0, 0).exchange()
	a.exchange()
	if r.ledger.Members["a"] != nil {
		t.Error("a has not left")
	}
	b.exchange()
	r.expect("a has left", map[ID]int{"b": 8})
	if answer := r.exchange(&Report{ID: "a", Sequence: 1, Full: true, Claims: map[string]Claim{"s": {Cap: 8, Holds: 8}}}); !answer.Stale {
		t.Error("a report that was under way for long has brought a back")
	}
}

func TestServerLeavesConfiguration(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(8).needs(2, 2, 2)
	a.exchange()
	a.cap(0).needs(2, 2, 2).exchange()
	r.expect("it is not in the configuration", map[ID]int{"a": 2})
	delete(a.usage, "s")
	a.exchange()
	a.exchange()
	r.expect("nothing is used", map[ID]int{"a": 0})
	if n := len(r.ledger.Accounts["s"].Grants); n != 0 {
		t.Errorf("there are %d grants", n)
	}
	if len(a.h.servers) != 0 {
		t.Error("the holder still has the server")
	}
}

func TestLeastCapCounts(t *testing.T) {
	r := newRig(t)
	a := r.join(HolderOptions{ID: "a"}).cap(8).needs(8, 8, 8)
	b := r.join(HolderOptions{ID: "b"}).cap(4).needs(0, 1, 1)
	a.exchange()
	b.exchange()
	a.exchange()
	r.expect("b knows of a lower cap", map[ID]int{"a": 3, "b": 0})
	a.needs(4, 4, 4).exchange()
	b.exchange()
	r.expect("a has four", map[ID]int{"a": 3, "b": 0})
	a.needs(3, 3, 3).exchange()
	b.exchange()
	r.expect("a has three", map[ID]int{"a": 3, "b": 1})
}

// TestBeat: in a crowd that is told of changes, proxies make half as many exchanges, unless an epoch has just begun.
func TestBeat(t *testing.T) {
	r := newRig(t)
	var all []*played
	round := func() {
		for _, p := range all {
			p.exchange()
		}
		r.now += Instant(HeartbeatInterval)
	}
	expect := func(what string, tells bool, want time.Duration) {
		t.Helper()
		if got := all[0].h.HeartbeatInterval(tells); got != want {
			t.Errorf("%s: %s; want %s", what, got, want)
		}
	}
	for i := range crowd {
		all = append(all, r.join(HolderOptions{ID: ID(fmt.Sprintf("%02d", i))}).cap(8).needs(0, 0, 0))
	}
	round()
	round()
	expect("few enough", true, HeartbeatInterval)
	all = append(all, r.join(HolderOptions{ID: "last"}).cap(8).needs(0, 0, 0))
	round()
	round()
	expect("a crowd", true, SlowHeartbeatInterval)
	expect("a crowd that is not told", false, HeartbeatInterval)
	r.identity++
	round()
	expect("the database is another", true, HeartbeatInterval)
	for range 10 {
		round()
	}
	expect("the epoch has settled", true, SlowHeartbeatInterval)
}

// TestLate: who is not late makes an exchange before it is suspected, and who is late can be looked at twice before it would be free too late.
func TestLate(t *testing.T) {
	for members, heartbeat := range map[int]time.Duration{2: HeartbeatInterval, crowd: HeartbeatInterval, crowd + 1: SlowHeartbeatInterval, 1000: SlowHeartbeatInterval} {
		if late := Late(members); late <= heartbeat || late >= Unseen || late+heartbeat >= 5*time.Second {
			t.Errorf("%d proxies: %s", members, late)
		}
	}
}

// A proxy that has made an exchange since the last look, or has had no time for one, is not suspected because the database's clock has jumped;
// one that has not, and that the database has not seen for long, is.
func TestClockOfTheDatabaseJumps(t *testing.T) {
	for _, test := range []struct {
		moved     bool
		after     time.Duration
		suspected bool
	}{{true, HeartbeatInterval, false}, {false, HeartbeatInterval / 10, false}, {false, HeartbeatInterval, true}} {
		h := NewHolder(HolderOptions{ID: "a"})
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		look := func(heartbeats uint64, own time.Duration, at Instant) {
			h.observe([]Member{{ID: "a", Seen: start.Add(own)}, {ID: "b", Heartbeats: heartbeats, Seen: start}}, at)
		}
		look(7, 0, Instant(time.Second))
		heartbeats := uint64(7)
		if test.moved {
			heartbeats++
		}
		h.askedAt = Instant(time.Second)
		look(heartbeats, 10*time.Minute, Instant(time.Second+test.after))
		if got := len(h.Suspects()) > 0; got != test.suspected {
			t.Errorf("%+v: suspected: %v", test, got)
		}
	}
}
