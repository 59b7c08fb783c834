package loop

import (
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

func TestOptionsDefaults(t *testing.T) {
	tests := []struct {
		name         string
		options      Options
		loops, awake int
	}{
		{"least and most", Options{Min: 2, Max: 3}, 3, 2},
		{"one to start with", Options{Max: 3}, 3, 1},
		{"no more than there are", Options{Min: 9, Max: 2}, 2, 2},
		{"negative", Options{Min: -1, Max: 1}, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g, err := NewGroup(test.options)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			stats, moved := g.Stats()
			awake := 0
			for i, s := range stats {
				if s.ID != i || s.ID != g.Loops()[i].ID() || s.Connections != 0 {
					t.Errorf("loop %d: %+v", i, s)
				}
				if s.Awake {
					awake++
				}
			}
			if len(stats) != test.loops || awake != test.awake || moved != 0 {
				t.Errorf("%d loops, %d awake, %d moved; want %d, %d, 0", len(stats), awake, moved, test.loops, test.awake)
			}
		})
	}
}

func TestPickTakesTheLeastLoadedAwake(t *testing.T) {
	g, err := NewGroup(Options{Min: 2, Max: 3, Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	loops := g.Loops()
	loops[0].load.Store(5)
	loops[1].load.Store(3)
	if got := g.Pick(); got != loops[1] {
		t.Errorf("picked loop %d; the third is not awake", got.ID())
	}
	loops[1].load.Store(6)
	if got := g.Pick(); got != loops[0] {
		t.Errorf("picked loop %d", got.ID())
	}
	g.awake.Store(3)
	if got := g.Pick(); got != loops[2] {
		t.Errorf("picked loop %d", got.ID())
	}
}

// descriptors returns how many descriptors the process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc/self/fd here")
	}
	return len(entries)
}

// Goroutines are counted by goleak in TestMain.
func TestCloseLeavesNothing(t *testing.T) {
	near, far := wstest.Pair(t) // from now on the runtime's own poller is open
	_, _ = near.Close(), far.Close()
	before := descriptors(t)
	for range 5 {
		g, err := NewGroup(Options{Min: 3, Max: 3, Interval: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		var fars []net.Conn
		for range 10 {
			near, far := wstest.Pair(t)
			c := add(t, g.Pick(), near, &script{}, nil)
			on(t, c, func() { c.Write(make([]byte, 16<<20)) }) // some of it is still kept at the end
			fars = append(fars, far)
		}
		g.Close()
		for _, far := range fars {
			_ = far.Close()
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, there were %d before", after, before)
	}
}

func TestSocketThatIsNotGivenToALoop(t *testing.T) {
	near, far := wstest.Pair(t)
	socket, err := Detach(near)
	if err != nil {
		t.Fatal(err)
	}
	socket.Close()
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
}

func TestDetachRefusesWhatHasNoDescriptor(t *testing.T) {
	if portable {
		t.Skip("the portable driver takes any connection")
	}
	a, b := net.Pipe()
	defer b.Close()
	if _, err := Detach(a); err == nil {
		t.Error("no error")
	}
	if _, err := b.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	near, _ := wstest.Pair(t)
	_ = near.Close()
	if _, err := Detach(near); err == nil {
		t.Error("no error for a closed connection")
	}
}

// session is a handler that a group can move.
type session struct {
	script
	conn  *Conn
	moves chan *Loop
	lost  *atomic.Int64
}

func (s *session) MoveTo(to *Loop) {
	if !Move(to, func() { s.moves <- to }, s.conn) {
		s.lost.Add(1)
	}
}

// A loop that gives away its connections looks after its sockets between some of them and the next, and leaves out one that was closed meanwhile.
func TestMovingInTurns(t *testing.T) {
	const n = 2*movedPerTurn + 2
	g := group(t, 2)
	from, to := g.Loops()[0], g.Loops()[1]
	moves := make(chan *Loop, n)
	var lost atomic.Int64
	for range n {
		near, _ := wstest.Pair(t)
		socket, err := Detach(near)
		if err != nil {
			t.Fatal(err)
		}
		s := &session{moves: moves, lost: &lost}
		call(t, from, func() { s.conn = from.Add(socket, s, nil) })
	}
	left := make(chan int, 1)
	call(t, from, func() {
		g.shed(from, 1, to)
		from.Post(func() { // after the first turn
			left <- from.conns
			from.driver.each(func(c *Conn) {
				if from.conns == n-movedPerTurn {
					c.Close()
				}
			})
		})
	})
	if got := wstest.Receive(t, left, "a function that was posted meanwhile"); got != n-movedPerTurn {
		t.Errorf("%d connections are left after a turn; want %d", got, n-movedPerTurn)
	}
	for range n - 1 {
		wstest.Receive(t, moves, "connections to be moved")
	}
	wstest.Eventually(t, "them to be counted", func() bool { _, moved := g.Stats(); return moved >= n-1 })
	settle(t, from)
	if _, moved := g.Stats(); moved != n-1 || from.load.Load() != 0 || to.load.Load() != n-1 {
		t.Errorf("%d were moved; %d and %d connections are left; want %d, 0 and %d", moved, from.load.Load(), to.load.Load(), n-1, n-1)
	}
}

// When a loop is really busy, the group wakes another and moves a share of the connections there. When the loops are quiet again,
// the connections come back.
func TestGroupFollowsTheLoad(t *testing.T) {
	const n = 8
	g, err := NewGroup(Options{Max: 2, Interval: 4 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	first, second := g.Loops()[0], g.Loops()[1]
	moves := make(chan *Loop, 1000)
	var lost atomic.Int64
	for range n {
		near, _ := wstest.Pair(t)
		s := &session{moves: moves, lost: &lost}
		if l := g.Pick(); l != first {
			t.Fatal("the second loop is awake without load")
		}
		socket, err := Detach(near)
		if err != nil {
			t.Fatal(err)
		}
		call(t, first, func() { s.conn = first.Add(socket, s, nil) })
	}
	near, _ := wstest.Pair(t)
	bystander := add(t, first, near, &script{}, nil) // not a Mover, so it stays where it is

	var quiet atomic.Bool
	var work func()
	work = func() {
		for start := time.Now(); time.Since(start) < time.Millisecond; {
		}
		if !quiet.Load() {
			first.Post(work)
		}
	}
	first.Post(work)
	for range n / 2 {
		if to := wstest.Receive(t, moves, "connections to be moved to the second loop"); to != second {
			t.Fatalf("moved to loop %d", to.ID())
		}
	}
	wstest.Eventually(t, "half of them to be counted as moved", func() bool { // after the last one has been notified
		stats, moved := g.Stats()
		return stats[1].Awake && stats[1].Connections >= n/2 && moved >= n/2
	})
	quiet.Store(true)
	wstest.Eventually(t, "connections to be moved back", func() bool { // and the second loop may have slept and woken meanwhile
		stats, _ := g.Stats()
		return !stats[1].Awake && stats[1].Connections == 0
	})
	on(t, bystander, func() {
		if bystander.Loop() != first {
			t.Error("a connection whose handler is not a Mover was moved")
		}
	})
	settle(t, first)
	if g.Pick() != first {
		t.Error("the second loop is still awake")
	}
	if stats, _ := g.Stats(); stats[1].Connections != 0 || stats[0].Connections != n+1 {
		t.Errorf("%+v", stats)
	}
	if lost.Load() != 0 {
		t.Errorf("%d moves failed", lost.Load())
	}
}
