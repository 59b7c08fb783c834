package loop

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// scheduler takes the place of the runtime's, and notes what GOMAXPROCS is set to.
type scheduler struct {
	limit float64
	told  []int // 0 for following the limit
}

func (s *scheduler) budget(gomaxprocs, godebug string) *processorBudget {
	b := newProcessorBudget(gomaxprocs, godebug, func() float64 { return s.limit })
	b.set = func(n int) { s.told = append(s.told, n) }
	b.follow = func() { s.told = append(s.told, 0) }
	return b
}

func (s *scheduler) expect(t *testing.T, want ...int) {
	t.Helper()
	if !slices.Equal(s.told, want) {
		t.Errorf("GOMAXPROCS is set to %v; want %v", s.told, want)
	}
	s.told = nil
}

// There are as many Ps as the limit of processors, rounded up, and the loops say, also when these change.
func TestProcessorsFollowLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler{limit: 4}
		b := s.budget("", "")
		b.refresh(time.Now())
		s.expect(t) // the runtime follows the limit
		b.add(1)
		s.expect(t, 5)
		b.add(1)
		s.expect(t, 6)
		for _, c := range []struct {
			limit float64
			told  []int
			count int
		}{{2, []int{4}, 2}, {0.5, []int{3}, 1}, {0.25, nil, 1}, {1.5, []int{4}, 2}, {2, nil, 2}, {8, []int{10}, 8}} {
			s.limit = c.limit
			b.refresh(time.Now()) // too soon
			s.expect(t)
			time.Sleep(refreshInterval)
			b.refresh(time.Now())
			s.expect(t, c.told...)
			if n := b.count(); n != c.count {
				t.Errorf("limit %g: %d processors; want %d", c.limit, n, c.count)
			}
		}
		b.add(-2)
		s.expect(t, 0)
		b.add(1)
		s.expect(t, 9)
	})
}

func TestProcessorsOfEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler{limit: 8}
		b := s.budget("3", "")
		b.add(1)
		s.limit = 2
		time.Sleep(refreshInterval)
		b.refresh(time.Now())
		b.add(-1)
		s.expect(t, 4, 3)
		b = s.budget("", "gctrace=0,updatemaxprocs=0")
		b.add(1)
		s.limit = 1
		time.Sleep(refreshInterval)
		b.refresh(time.Now())
		s.expect(t, 3)
		if b := s.budget("", "containermaxprocs=0"); b.limit() < 1 || b.limit() != float64(int(b.limit())) {
			t.Errorf("without the container's limit there are %g processors", b.limit())
		}
		for _, text := range []string{"", "x", "0", "-1"} {
			if b := s.budget(text, ""); b.fixed != 0 {
				t.Errorf("GOMAXPROCS=%s is read as %d", text, b.fixed)
			}
		}
	})
}

// As many loops may be awake as there are processors, also when that changes. Loops that were never needed do not run.
func TestLoopsFollowLimit(t *testing.T) {
	s := scheduler{limit: 0.5}
	b := s.budget("", "")
	g, err := NewGroup(Options{budget: b, Interval: time.Hour, IOURing: IOURing(*ioURing)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	most := func(limit float64) int {
		s.limit = limit
		b.mu.Lock()
		b.refreshed = time.Time{}
		b.mu.Unlock()
		return g.highest()
	}
	if n := most(0.5); n != 1 || g.started.Load() != 1 {
		t.Errorf("with half a processor there may be %d loops awake, and %d run", n, g.started.Load())
	}
	if n := most(1000); n != len(g.loops) {
		t.Errorf("with many processors there may be %d loops awake of %d", n, len(g.loops))
	}
	if len(g.loops) < 2 {
		t.Skip("there is only one processor, so only one loop")
	}
	if g.loops[1].Post(func() {}) || g.loops[1].Call(func() {}) {
		t.Error("a function can be posted to a loop that does not run yet")
	}
	g.act(decision{verdict: wakeOne})
	if !g.loops[1].Call(func() {}) || g.awake.Load() != 2 || len(must(g.Stats())) != 2 {
		t.Error("the loop that is woken does not run")
	}
	governor := governor{lowest: 1, highest: most(1)}
	if d := governor.decide([]float64{1, 1}); d.verdict != parkOne {
		t.Errorf("with fewer processors than loops awake: %+v", d)
	}
	g.act(decision{verdict: parkOne})
	if g.awake.Load() != 1 {
		t.Error("the loop is still awake")
	}
}

func must(loops []Stats, _ uint64) []Stats { return loops }

func TestWait(t *testing.T) {
	for _, w := range Waits() {
		raw, err := Wait(w).raw()
		switch {
		case err != nil && (w != string(WaitRaw) || canWaitRaw && preemptible):
			t.Errorf("%s: %v", w, err)
		case err == nil && raw != (w != string(WaitBlock) && canWaitRaw && preemptible):
			t.Errorf("%s: raw is %t", w, raw)
		}
	}
	if _, err := NewGroup(Options{Wait: "spin"}); err == nil || !strings.Contains(err.Error(), `unknown way to wait "spin": use one of auto, raw, block`) {
		t.Errorf("spin: %v", err)
	}
	defer func(before bool) { preemptible = before }(preemptible)
	preemptible = false
	if raw, err := WaitAuto.raw(); raw || err != nil {
		t.Errorf("auto without the scheduler's signals: %t, %v", raw, err)
	}
	if _, err := WaitRaw.raw(); err == nil {
		t.Error("raw is allowed without the scheduler's signals")
	}
}

// Loops that block need no more Ps, and the runtime keeps following the limit.
func TestBlockingNeedsNoProcessor(t *testing.T) {
	s := scheduler{limit: 2}
	g, err := NewGroup(Options{budget: s.budget("", ""), Wait: WaitBlock, Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	near, far := wstest.Pair(t)
	add(t, g.Pick(), near, &script{received: func(c *Conn, b []byte) int { c.Write(b); return len(b) }}, nil)
	for range 5 {
		if _, err := far.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(far, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	g.Close()
	s.expect(t)
}
