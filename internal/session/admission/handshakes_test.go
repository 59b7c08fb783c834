package admission

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/testkit/logtest"
	"github.com/wsbouncer/wsbouncer/internal/wire/origin"
)

// lobby is a set of unfinished handshakes, with a client that the test plays for each.
type lobby struct {
	t    *testing.T
	log  *logtest.Capture
	set  unfinished
	room room
}

func newLobby(t *testing.T, places int) *lobby {
	l := &lobby{t: t, log: &logtest.Capture{Lines: make(chan logtest.Line, 64)}, room: room{places, lineFactor * places}}
	l.set.init(&storms{log: slog.New(l.log)})
	t.Cleanup(l.set.close)
	return l
}

// newcomer is a client that has come to a lobby.
type newcomer struct {
	*opening
	came   time.Time
	placed chan bool
}

// come adds a client from that address, "" for one that is not known.
func (l *lobby) come(from string) *newcomer {
	l.t.Helper()
	client, server := net.Pipe()
	l.t.Cleanup(func() { _ = client.Close() })
	address := netip.Addr{}
	if from != "" {
		address = netip.MustParseAddr(from)
	}
	v := &newcomer{came: time.Now(), placed: make(chan bool, 1)}
	l.set.enter(server, v.came, address, l.room, func(o *opening, placed bool) {
		v.opening = o
		v.placed <- placed
	})
	return v
}

// enter adds a client, and waits until it has a place.
func (l *lobby) enter(from string) *opening {
	l.t.Helper()
	v := l.come(from)
	if !<-v.placed {
		l.t.Error("a client was dropped in line")
	}
	return v.opening
}

// expectDropped checks which of the handshakes were dropped: their connections are closed, and those of the others are not.
func expectDropped(t *testing.T, all []*opening, dropped ...int) {
	t.Helper()
	for i, o := range all {
		want := slices.Contains(dropped, i)
		if o.dropped != want {
			t.Errorf("handshake %d is dropped: %v; want %v", i, o.dropped, want)
		}
		if closed := o.nc.SetDeadline(time.Time{}) != nil; closed != want {
			t.Errorf("the connection of handshake %d is closed: %v; want %v", i, closed, want)
		}
	}
}

// waiting returns how many clients wait in line, and how many turns are taken.
func (l *lobby) waiting() (inLine, turns int) {
	l.set.mu.Lock()
	defer l.set.mu.Unlock()
	return l.set.inLine, l.set.turns
}

// expectEmpty checks that nothing is left over when all have left.
func (l *lobby) expectEmpty() {
	l.t.Helper()
	if n := len(l.set.crowds) + l.set.all.Len() + l.set.inLine + l.set.turns; n != 0 {
		l.t.Errorf("left over: %d crowds, %d handshakes, %d in line, %d turns", len(l.set.crowds), l.set.all.Len(), l.set.inLine, l.set.turns)
	}
	for _, r := range l.set.ranked {
		if r.Len() != 0 {
			l.t.Errorf("left over in ranking %d: %d crowds", r.which, r.Len())
		}
	}
}

// The oldest handshake is dropped first, but none that is young, and none that the proxy works on.
func TestOldestHandshakeIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 8)
		var all []*opening
		for i := range 8 {
			all = append(all, l.enter(fmt.Sprintf("192.0.2.%d", i)))
			time.Sleep(time.Millisecond)
		}
		all[0].work(true)
		begun := time.Now()
		all = append(all, l.enter("192.0.2.100"))
		if waited := time.Since(begun); waited < minPatience-9*time.Millisecond || waited > calmPatience {
			t.Errorf("a client waited %v until there was room", waited)
		}
		expectDropped(t, all, 1)
		if all[1].work(true) {
			t.Error("a dropped handshake continues")
		}
		all[2].leave(true)
		all = append(all, l.enter("192.0.2.101")) // at once
		expectDropped(t, all, 1)
		all[0].work(false)
		time.Sleep(calmPatience)
		all = append(all, l.enter("192.0.2.102"))
		expectDropped(t, all, 0, 1)
		if now, dropped := l.set.counts(); now != 8 || dropped["oldest"] != 2 || dropped["address"] != 0 {
			t.Errorf("%d unfinished, dropped %v", now, dropped)
		}
	})
}

// A network has as many places as are free, and no more. Then it loses its own oldest, and others nothing.
func TestCrowdIsDroppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, crowd := range []func(i int) string{
			func(int) string { return "198.51.100.7" },
			func(i int) string { return fmt.Sprintf("2001:db8:1:2:%x::1", i+1) }, // one network
			func(int) string { return "::ffff:198.51.100.7" },
		} {
			l := newLobby(t, 16)
			var honest, hostile []*opening
			for i := range 8 {
				honest = append(honest, l.enter(fmt.Sprintf("192.0.2.%d", i)))
			}
			for i := range 104 {
				hostile = append(hostile, l.enter(crowd(i)))
				time.Sleep(calmPatience)
			}
			expectDropped(t, honest)
			gone := make([]int, 100)
			for i := range gone {
				gone[i] = i
			}
			expectDropped(t, hostile, gone...)
			if _, dropped := l.set.counts(); dropped["address"] != 100 || dropped["oldest"] != 0 {
				t.Errorf("dropped %v", dropped)
			}
			for _, o := range append(honest, hostile...) {
				o.leave(false)
			}
			l.expectEmpty()
		}
	})
}

// Clients behind a load balancer are one crowd each, as soon as their PROXY header has come. Those for which their network has no place
// wait in line then.
func TestCrowdBehindLoadBalancer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 8)
		var all []*opening
		var came atomic.Int32
		for range 6 {
			o := l.enter("")
			all = append(all, o)
			go func() {
				if o.comeFrom(netip.MustParseAddr("192.0.2.4")) {
					came.Add(1)
				}
			}()
			synctest.Wait()
		}
		if inLine, _ := l.waiting(); came.Load() != 4 || inLine != 2 {
			t.Errorf("%d from one address have a place, %d wait in line", came.Load(), inLine)
		}
		for range 4 { // clients from elsewhere find places
			v := l.come("")
			if !<-v.placed || time.Since(v.came) != 0 || !v.comeFrom(netip.MustParseAddr("192.0.2.5")) {
				t.Error("an address keeps out another")
			}
			v.leave(true)
		}
		time.Sleep(calmPatience)
		synctest.Wait()
		expectDropped(t, all, 0, 1)
		if n := came.Load(); n != 6 {
			t.Errorf("%d got a place in the end", n)
		}
		o := l.enter("")
		o.comeFrom(netip.Addr{}) // the header does not say
		all = append(all, o)
		for _, o := range all {
			o.work(true)
		}
		o = l.enter("")
		go o.comeFrom(netip.MustParseAddr("192.0.2.4"))
		synctest.Wait()
		l.set.close()
		synctest.Wait()
		if !o.dropped || o.comeFrom(netip.MustParseAddr("192.0.2.4")) {
			t.Error("a client waits in line of a set that is closed")
		}
		for _, o := range append(all, o) {
			o.leave(false)
		}
		l.expectEmpty()
	})
}

// flood lets clients of n networks come, rate a second in all, which never send anything. It returns a function that ends that.
func (l *lobby) flood(n int, rate int) (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			began := time.Now()
			l.come(fmt.Sprintf("198.51.%d.%d", i%n/250, i%n%250))
			if waited := time.Since(began); waited != 0 {
				l.t.Errorf("a client kept the proxy from accepting others for %v", waited)
			}
			time.Sleep(time.Second / time.Duration(rate))
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// honest lets clients come that take 20 ms for their handshake, and returns how long they waited in line for it at most.
func (l *lobby) honest(clients int, from string) (most time.Duration) {
	for range clients {
		v := l.come(from)
		switch placed := <-v.placed; {
		case !placed:
			l.t.Error("an honest client was dropped in line")
		case placed:
			most = max(most, time.Since(v.came))
			time.Sleep(20 * time.Millisecond)
			if !v.work(true) {
				l.t.Error("the handshake of an honest client was dropped")
			}
			v.leave(true)
		}
		time.Sleep(81 * time.Millisecond)
	}
	return most
}

// A few slow handshakes that come to their end do not make the proxy patient with a crowd that never does, and the crowd keeps out no
// client: not from other networks, and after a moment not even from its own.
func TestSlowHandshakesPrimeNothing(t *testing.T) {
	for _, c := range []struct{ places, networks, rate int }{
		{64, 1, 60}, {64, 1, 2000}, {64, 7, 400}, {1024, 1, 400}, {1024, 5, 4000}, {1024, 100, 4000},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLobby(t, c.places)
			for range 2 {
				for i := range c.networks {
					slow := l.enter(fmt.Sprintf("198.51.0.%d", i))
					time.AfterFunc(9300*time.Millisecond, func() { slow.leave(true) })
				}
				time.Sleep(10 * time.Second)
			}
			stop := l.flood(c.networks, c.rate)
			if most := l.honest(100, "192.0.2.1"); most > turnGrace {
				t.Errorf("%+v: honest clients waited up to %v", c, most)
			}
			if c.networks == 1 && c.rate < 1000 { // otherwise it has too few places for as many as come
				if most := l.honest(100, "198.51.0.0"); most > 100*time.Millisecond {
					t.Errorf("%+v: honest clients of a hostile network waited up to %v", c, most)
				}
			}
			stop()
		})
	}
}

// Accepting continues while the proxy works on all handshakes. A number of clients wait in line. Of the network that has most of them
// there, those go whose turn would be next.
func TestLineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 4)
		const dropped = 101 - 4*lineFactor
		var busy []*opening
		for i := range 4 {
			o := l.enter(fmt.Sprintf("192.0.2.%d", i))
			o.work(true)
			busy = append(busy, o)
		}
		var hostile []*newcomer
		for range 100 {
			hostile = append(hostile, l.come("198.51.100.7"))
		}
		honest := l.come("192.0.2.100")
		for i, v := range hostile {
			if gone := len(v.placed) == 1; gone != (i < dropped) {
				t.Errorf("client %d of a crowd was dropped: %v", i, gone)
			}
		}
		busy[0].leave(true) // a network with a place has to wait for one without
		busy[1].leave(true)
		if !<-honest.placed || time.Since(honest.came) != 0 {
			t.Error("an honest client did not get the place that came free")
		}
		expectDropped(t, append(busy, honest.opening))
		if _, all := l.set.counts(); all["address"] != dropped {
			t.Errorf("dropped %v", all)
		}
		l.set.close()
		if late := l.come("192.0.2.101"); <-late.placed {
			t.Error("a client got a place when the set was closed")
		}
		for _, o := range append(busy, honest.opening, hostile[dropped].opening) {
			o.leave(false)
		}
		l.expectEmpty()
	})
}

// If more come than may wait in line, the crowd with the longest line loses its oldest handshakes at once, however young they are.
func TestOverflowIsDroppedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 8)
		var all []*opening
		for range 4 {
			all = append(all, l.enter("198.51.100.7"))
		}
		for range l.room.line {
			l.come("198.51.100.7")
		}
		expectDropped(t, all)
		l.come("198.51.100.7")
		l.come("198.51.100.7")
		expectDropped(t, all, 0, 1)
		if got := l.set.learned.of(netip.MustParseAddr("198.51.100.7")); got.ending != 1 {
			t.Errorf("from handshakes that had no chance, the proxy has learned %+v", got)
		}
	})
}

// Thousands of clients that come at once begin in turns, those of small networks first.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 1024)
		var crowd []*newcomer
		for range 100 {
			crowd = append(crowd, l.come("198.51.100.7"))
		}
		if inLine, taken := l.waiting(); taken != turns || inLine != 100-turns {
			t.Errorf("%d have a turn, %d wait in line", taken, inLine)
		}
		other := l.come("192.0.2.1")
		<-crowd[0].placed
		crowd[0].leave(true)
		if inLine, _ := l.waiting(); len(other.placed) != 1 || inLine != 100-turns {
			t.Error("a crowd goes first")
		}
		time.Sleep(turnGrace) // by then all wait for their clients
		synctest.Wait()
		if inLine, _ := l.waiting(); inLine != 0 {
			t.Errorf("%d wait in line", inLine)
		}
	})
}

// Of the clients that wait for authentication, one network's leave places to others.
func TestAsideByNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 32)
		var all []*opening
		aside := func(from string, n int) (may int) {
			for range n {
				o := l.enter(from)
				o.work(true)
				all = append(all, o)
				if o.stepAside("stt", l.room.places) {
					may++
				} else {
					o.leave(false)
				}
			}
			return may
		}
		for i, want := range []int{6, 3, 2, 1, 1, 1, 1, 1, 0} {
			if n := aside(fmt.Sprintf("192.0.2.%d", i), 20); n != want {
				t.Errorf("%d of network %d wait; want %d: no more than are free of the 16 of a service, but for the last four", n, i, want)
			}
		}
		for _, o := range all {
			o.leave(false)
		}
		if len(l.set.crowded)+len(l.set.aside) != 0 {
			t.Errorf("afterwards: %v, %v", l.set.crowded, l.set.aside)
		}
	})
}

// A client that waits for authentication takes no place, and clients of one service take only some of those that may wait so.
func TestStepAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 4)
		last := 100
		aside := func(service string, want bool) *opening {
			t.Helper()
			last++
			o := l.enter(fmt.Sprintf("192.0.2.%d", last))
			o.work(true)
			if got := o.stepAside(service, l.room.places); got != want {
				t.Errorf("a client of %s steps aside: %v", service, got)
			}
			return o
		}
		all := []*opening{aside("slow", true), aside("slow", true), aside("slow", false), aside("other", true), aside("other", true), aside("third", false)}
		if !all[0].stepAside("slow", l.room.places) { // for another method
			t.Error("a client that has stepped aside waits for a place")
		}
		for i := range 2 {
			all = append(all, l.enter(fmt.Sprintf("192.0.2.%d", 2+i))) // at once: otherwise the test hangs, as the proxy works on all that are there
		}
		if now, _ := l.set.counts(); now != 4 {
			t.Errorf("%d handshakes are unfinished", now)
		}
		time.Sleep(calmPatience)
		all[0].comeBack()
		all[0].comeBack() // has no effect
		if now, _ := l.set.counts(); now != 5 {
			t.Errorf("%d handshakes are unfinished", now)
		}
		all[0].leave(true)
		if usual := l.set.learned.of(all[0].network()).waited; usual > usualAtStart {
			t.Errorf("the wait for authentication counts as a handshake's time: %v", usual)
		}
		aside("third", true) // there is room for one again: this one takes the place of the oldest that waits for its client
		expectDropped(t, all, 6)
		for _, o := range all {
			o.leave(false)
			o.leave(false)
		}
		if l.set.asides != 1 || len(l.set.aside) != 1 || l.set.all.Len() != 0 {
			t.Errorf("left over: %d aside, of %v, and %d handshakes", l.set.asides, l.set.aside, l.set.all.Len())
		}
	})
}

// A storm is logged twice: when it begins, and when it is over.
func TestStormIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 4)
		for range 2 {
			for range 104 {
				l.enter("198.51.100.7")
				time.Sleep(calmPatience)
			}
			time.Sleep(2 * stormCalm)
		}
		want := []string{"too many unfinished handshakes: dropping the oldest", "handshakes are no longer dropped"}
		for range 2 {
			for _, message := range want {
				if line := <-l.log.Lines; line.Message != message {
					t.Errorf("got the line %q; want %q", line.Message, message)
				}
			}
		}
		if len(l.log.Lines) > 0 {
			t.Errorf("further line %q", (<-l.log.Lines).Message)
		}
	})
}

// The handshakes of trusted load balancers' clients belong to no address until it is known.
func TestCrowdOf(t *testing.T) {
	policy, err := origin.NewPolicy([]string{"127.0.0.1"}, origin.XForwardedFor, origin.ProxyOff)
	if err != nil {
		t.Fatal(err)
	}
	g := New(record.Shared{Log: slog.New(slog.DiscardHandler)}, Options{Origin: policy}, nil)
	defer g.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	nc, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := g.crowdOf(nc); got.IsValid() {
		t.Errorf("a load balancer counts as %v", got)
	}
	g.SetOrigin(nil)
	if got := g.crowdOf(nc); got.String() != "127.0.0.1" {
		t.Errorf("a client counts as %v", got)
	}
}
