package meter

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// direct calls what would be called on a loop at once.
func direct(_ int, f func()) { f() }

// A backend's counters are found under its names, and the sum stays when the backend goes.
func TestTotalsNeverFall(t *testing.T) {
	r := NewRegistry(2)
	a, b := r.Backend("stt", "gpu-1"), r.Backend("stt", "gpu-2")
	a.Relayed(0).FramesFromClients = 3
	a.Relayed(1).FramesFromClients = 4
	b.Relayed(1).BytesFromBackends = 5
	a.SessionBegan()
	a.SessionEnded(Client, 1000, Normal)
	b.SessionEnded(Client, 1000, Normal)
	b.SessionEnded(Server, 1011, BackendFailed)
	a.Dial.Observe(time.Second)

	before := r.Snapshot(direct)
	if len(before.Backends) != 2 || before.Backends[0].Backend != "gpu-1" || before.Backends[1].Service != "stt" {
		t.Fatalf("backends: %+v", before.Backends)
	}
	if got, want := before.Backends[0].Relayed, (Relayed{FramesFromClients: 7}); got != want {
		t.Errorf("gpu-1 relayed %+v; want %+v", got, want)
	}
	want := []End{NewEnd(Client, 1000, Normal, 2), NewEnd(Server, 1011, BackendFailed, 1)}
	if !slices.Equal(before.Total.Ends, want) || before.Total.Failed() != 1 {
		t.Errorf("ends: %v, %d failed; want %v", before.Total.Ends, before.Total.Failed(), want)
	}

	if !a.Hold() { // a session, which outlives the backend
		t.Fatal("the counters are held and cannot be held")
	}
	a.Release()
	if again := r.Backend("stt", "gpu-1"); again != a {
		t.Error("a backend that comes back gets new counters while a session still uses the old ones")
	}
	a.Release()
	a.Release()
	if a.Hold() {
		t.Error("counters that were released can be held")
	}
	after := r.Snapshot(direct)
	if len(after.Backends) != 1 || after.Total.Relayed != before.Total.Relayed || after.Total.Begun != 1 ||
		!slices.Equal(after.Total.Ends, want) || after.Total.Dial.Counts != before.Total.Dial.Counts || after.Total.Dial.Count() != 1 {
		t.Errorf("after gpu-1 has gone: %+v; want the totals %+v", after, before.Total)
	}
	if again := r.Backend("stt", "gpu-1"); again == a {
		t.Error("counters that were given up are used again")
	}
}

// Backends come and go while sessions count and readers read: no total falls, and nothing is lost.
func TestRegistryWhileBackendsComeAndGo(t *testing.T) {
	const loops, rounds = 3, 300
	r := NewRegistry(loops)
	var locks [loops]sync.Mutex // stands for a loop, which does one thing at a time
	on := func(loop int, f func()) { locks[loop].Lock(); defer locks[loop].Unlock(); f() }
	var work, reading sync.WaitGroup
	for loop := range loops {
		work.Go(func() {
			for i := range rounds {
				b := r.Backend("s", []string{"a", "b"}[i%2])
				session := b.Hold()
				b.Release()
				if !session {
					t.Error("counters that are held cannot be held")
					return
				}
				on(loop, func() { b.Relayed(loop).FramesFromClients++ })
				b.SessionBegan()
				b.SessionEnded(Client, 1000, Normal)
				b.Wait.Observe(time.Millisecond)
				if rand.N(2) == 0 {
					time.Sleep(0) // let another one in
				}
				b.Release()
			}
		})
	}
	stop := make(chan struct{})
	reading.Go(func() {
		last := Totals{}
		for {
			now := r.Snapshot(on).Total
			if now.Relayed.FramesFromClients < last.Relayed.FramesFromClients || now.Begun < last.Begun || now.Wait.Count() < last.Wait.Count() {
				t.Errorf("a total has fallen: from %+v to %+v", last, now)
			}
			last = now
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	work.Wait()
	close(stop)
	reading.Wait()
	s := r.Snapshot(on)
	if n := s.Total; n.Relayed.FramesFromClients != loops*rounds || n.Begun != loops*rounds || n.Wait.Count() != loops*rounds {
		t.Errorf("counted %+v; want %d of each", n, loops*rounds)
	}
	if len(s.Backends) != 0 {
		t.Errorf("no backend is in use, and there are %+v", s.Backends)
	}
}

// Each kind of end is found again, codes that applications choose are counted together.
func TestEnds(t *testing.T) {
	for code, want := range map[uint16]string{1000: "1000", 1015: "1015", 3000: "3xxx", 3999: "3xxx", 4000: "4xxx", 4999: "4xxx", 999: "other", 1016: "other", 2999: "other", 5000: "other", 0: "other"} {
		if got := CodeName(code); got != want {
			t.Errorf("code %d is counted as %s; want %s", code, got, want)
		}
	}
	b := NewBackend(1)
	for code := range uint16(6000) {
		b.SessionEnded(Server, code, Application)
	}
	sum := uint64(0)
	for _, e := range b.ends() {
		sum += e.Sessions
	}
	if n := len(b.ends()); n != codes || sum != 6000 {
		t.Errorf("6000 codes make %d kinds of ends with %d sessions; want %d with all", n, sum, codes)
	}
}

// Each class has its own name, and each close frame a class.
func TestClasses(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Classes() {
		if name := c.String(); name == "" || seen[name] {
			t.Errorf("class %d has the name %q", c, name)
		} else {
			seen[name] = true
		}
	}
	if len(seen) != classes-1 {
		t.Errorf("%d classes have names; want %d", len(seen), classes-1)
	}
	for code, want := range map[uint16][2]Class{
		1000: {Normal, Normal}, 1001: {Normal, BackendLeft}, 1005: {Normal, Normal}, 1002: {ClientError, BackendFailed},
		1007: {ClientError, BackendFailed}, 1008: {ClientError, BackendRefused}, 1011: {ClientError, BackendFailed},
		1012: {ClientError, BackendLeft}, 1013: {ClientError, BackendFull}, 3000: {Application, Application}, 4999: {Application, Application},
	} {
		if got := [2]Class{ClosedByClient(code), ClosedByServer(code)}; got != want {
			t.Errorf("close code %d: %v; want %v", code, got, want)
		}
	}
}

// Counting allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	b := NewBackend(1)
	if n := testing.AllocsPerRun(100, func() {
		b.Hold()
		b.SessionBegan()
		b.FirstReply.Observe(time.Millisecond)
		b.SessionEnded(Server, 4000, Application)
		b.Release()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkSnapshot reads the counters of 100 backends, each of which has seen many ways to end.
func BenchmarkSnapshot(b *testing.B) {
	r := NewRegistry(2)
	for i := range 100 {
		m := r.Backend("stt", string(rune('a'+i%26))+string(rune('a'+i/26)))
		for _, c := range Classes() {
			m.SessionEnded(Client, 1000, c)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if s := r.Snapshot(direct); len(s.Backends) != 100 {
			b.Fatal(len(s.Backends))
		}
	}
}

// The time of a failover that failed survives sums, and a pending move that is refused is no failure.
func TestFailoverFailed(t *testing.T) {
	r := NewRegistry(1)
	a, b := r.Backend("stt", "a"), r.Backend("stt", "b")
	a.FailedOver(Drained, false)
	a.FailedOver(Lost, true)
	all := r.Snapshot(func(_ int, f func()) { f() })
	if !all.Total.FailoverFailed.IsZero() || all.Total.Failovers[Drained].NotMoved != 1 {
		t.Errorf("nothing failed: %+v", all.Total)
	}
	b.FailedOver(Lost, false)
	all = r.Snapshot(func(_ int, f func()) { f() })
	if all.Total.FailoverFailed.IsZero() || !all.Backends[0].FailoverFailed.IsZero() || !all.Backends[1].FailoverFailed.Equal(all.Total.FailoverFailed) {
		t.Errorf("b has failed: %+v", all)
	}
	b.Release()
	if gone := r.Snapshot(func(_ int, f func()) { f() }); gone.Total.FailoverFailed.IsZero() {
		t.Error("it is forgotten with the backend")
	}
}
