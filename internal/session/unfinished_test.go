package session

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/frame"
	"github.com/wsbouncer/wsbouncer/internal/origin"
	"github.com/wsbouncer/wsbouncer/internal/wstest"
)

// lobby is a set of unfinished handshakes, with a client that the test plays for each.
type lobby struct {
	t     *testing.T
	log   *capture
	set   unfinished
	limit int
}

func newLobby(t *testing.T, limit int) *lobby {
	l := &lobby{t: t, log: &capture{lines: make(chan logged, 64)}, limit: limit}
	l.set.init(&storms{log: slog.New(l.log)})
	t.Cleanup(l.set.storms.close)
	return l
}

// enter adds a handshake from that address, "" for one that is not known.
func (l *lobby) enter(from string) *opening {
	l.t.Helper()
	client, server := net.Pipe()
	l.t.Cleanup(func() { _ = client.Close() })
	address := netip.Addr{}
	if from != "" {
		address = netip.MustParseAddr(from)
	}
	return l.set.enter(l.t.Context(), server, time.Now(), address, l.limit)
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
		if waited := time.Since(begun); waited < minPatience-9*time.Millisecond || waited > maxPatience {
			t.Errorf("a client waited %v until there was room", waited)
		}
		expectDropped(t, all, 1)
		if all[1].work(true) {
			t.Error("a dropped handshake goes on")
		}
		all[2].leave(true)
		all = append(all, l.enter("192.0.2.101")) // at once
		expectDropped(t, all, 1)
		all[0].work(false)
		time.Sleep(maxPatience)
		all = append(all, l.enter("192.0.2.102"))
		expectDropped(t, all, 0, 1)
		if now, dropped := l.set.counts(); now != 8 || dropped["oldest"] != 2 || dropped["address"] != 0 {
			t.Errorf("%d unfinished, dropped %v", now, dropped)
		}
	})
}

// An address that has more than a quarter of all loses its own oldest, and others nothing.
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
			for i := range 108 {
				hostile = append(hostile, l.enter(crowd(i)))
				time.Sleep(maxPatience)
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
			if len(l.set.crowds)+len(l.set.large)+l.set.all.Len() != 0 {
				t.Errorf("left over: %d crowds, %d large ones, %d handshakes", len(l.set.crowds), len(l.set.large), l.set.all.Len())
			}
		}
	})
}

// Clients behind a load balancer are one crowd each, as soon as their PROXY header has come.
func TestCrowdBehindLoadBalancer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 8)
		var all []*opening
		for i := range 8 {
			o := l.enter("")
			o.comeFrom(netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", max(i, 4))), l.limit) // five from one
			all = append(all, o)
		}
		time.Sleep(maxPatience)
		all = append(all, l.enter(""), l.enter(""))
		expectDropped(t, all, 0, 1)
		if _, dropped := l.set.counts(); dropped["address"] != 2 {
			t.Errorf("dropped %v", dropped)
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
				if o.stepAside("stt", l.limit) {
					may++
				} else {
					o.leave(false)
				}
			}
			return may
		}
		if n := aside("192.0.2.1", 20); n != 12 {
			t.Errorf("%d of one network wait; want three quarters of the 16 of a service", n)
		}
		if n := aside("192.0.2.2", 20); n != 4 {
			t.Errorf("%d of another one wait; want the last quarter", n)
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
		aside := func(service string, want bool) *opening {
			t.Helper()
			o := l.enter("192.0.2.1")
			o.work(true)
			if got := o.stepAside(service, l.limit); got != want {
				t.Errorf("a client of %s steps aside: %v", service, got)
			}
			return o
		}
		all := []*opening{aside("slow", true), aside("slow", true), aside("slow", false), aside("other", true), aside("other", true), aside("third", false)}
		if !all[0].stepAside("slow", l.limit) { // for another method
			t.Error("a client that has stepped aside waits for a place")
		}
		for range 2 {
			all = append(all, l.enter("192.0.2.2")) // at once: otherwise the test hangs, as the proxy works on all that are there
		}
		if now, _ := l.set.counts(); now != 4 {
			t.Errorf("%d handshakes are unfinished", now)
		}
		time.Sleep(maxPatience)
		all[0].comeBack(l.limit)
		all[0].comeBack(l.limit) // has no effect
		if now, _ := l.set.counts(); now != 5 {
			t.Errorf("%d handshakes are unfinished", now)
		}
		all[0].leave(true)
		if usual := l.set.usual; usual > usualAtStart {
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

// A crowd of honest clients on a slow machine loses nobody: handshakes may take longer if all do.
func TestPatienceFollowsHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 8)
		var waiting []*opening
		for range 100 { // each takes 400 ms, since eight clients share 50 ms each
			if len(waiting) == 8 {
				waiting[0].leave(true)
				waiting = waiting[1:]
			}
			waiting = append(waiting, l.enter(""))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		if got := l.set.patience(); got < 3*400*time.Millisecond || got > maxPatience {
			t.Errorf("a handshake may take %v", got)
		}
		if _, dropped := l.set.counts(); dropped["oldest"] != 0 {
			t.Errorf("dropped %v", dropped)
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
				time.Sleep(maxPatience)
			}
			time.Sleep(2 * stormCalm)
		}
		want := []string{"too many unfinished handshakes: dropping the oldest", "no handshakes are dropped any more"}
		for range 2 {
			for _, message := range want {
				if line := <-l.log.lines; line.message != message {
					t.Errorf("got the line %q; want %q", line.message, message)
				}
			}
		}
		if len(l.log.lines) > 0 {
			t.Errorf("further line %q", (<-l.log.lines).message)
		}
	})
}

// Who waits for room gives up when the server ends.
func TestEnterEndsWithServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 1)
		l.enter("").work(true) // it is never dropped
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		if o := l.set.enter(ctx, server, time.Now(), netip.Addr{}, 1); o != nil {
			t.Error("there was no room")
		}
	})
}

// Thousands of clients that never end their request take a bounded number of goroutines and descriptors, and sessions begin meanwhile.
func TestSlowHandshakes(t *testing.T) {
	const limit, slow = 50, 300
	r := newRig(t, setup{profile: "echo", script: &wstest.Server{Serve: wstest.Echo}, options: func(o *Options) {
		o.Limits.MaxHandshakes, o.Limits.HandshakeTimeout = limit, time.Hour
	}})
	r.ready(1)
	before := runtime.NumGoroutine()
	honest := r.join() // one that is in its session loses nothing
	honest.Send(frame.Text, "hello")
	honest.Expect(frame.Text, "hello")
	var attackers []net.Conn
	defer func() {
		for _, nc := range attackers {
			_ = nc.Close()
		}
	}()
	for i := range slow {
		nc, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		attackers = append(attackers, nc)
		if i%2 == 0 { // the others say nothing
			_, _ = nc.Write([]byte("GET /v1/test HTTP/1.1\r\nHost: x\r\nX-Slow: "))
		}
	}
	wstest.Eventually(t, "the oldest are dropped", func() bool {
		s := r.server.Stats()
		if s.Handshakes > limit {
			t.Fatalf("%d handshakes are unfinished", s.Handshakes)
		}
		return s.Dropped["address"] == slow-limit
	})
	if n := runtime.NumGoroutine(); n > before+limit+20 {
		t.Errorf("%d goroutines; there were %d", n, before)
	}
	for i, nc := range attackers { // the oldest have gone, and the latest have not
		_ = nc.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := nc.Read(make([]byte, 1))
		if timeout, ok := err.(net.Error); (ok && timeout.Timeout()) != (i >= slow-limit) {
			t.Fatalf("attacker %d: %v", i, err)
		}
	}
	honest.Send(frame.Text, "still there")
	honest.Expect(frame.Text, "still there")
	honest.CloseNormally()
	honest = r.join()
	honest.CloseNormally()
}

// Clients that were refused and do not go away count among the unfinished handshakes.
func TestRefusedClientsThatStay(t *testing.T) {
	t.Parallel()
	const limit = 8
	r := newRig(t, setup{options: func(o *Options) { o.Limits.MaxHandshakes = limit }})
	r.ready(1)
	for range 3 * limit {
		nc, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_, _ = nc.Write([]byte("GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"))
		if n := r.server.Stats().Handshakes; n > limit {
			t.Fatalf("%d handshakes are unfinished", n)
		}
	}
	wstest.Eventually(t, "all are answered", func() bool { return r.server.Stats().Refused[http.StatusNotFound] == 3*limit })
}

// The handshakes of trusted load balancers' clients belong to no address until it is known.
func TestCrowdOf(t *testing.T) {
	r := newRig(t, setup{options: func(o *Options) {
		policy, err := origin.NewPolicy([]string{"127.0.0.1"}, origin.XForwardedFor, origin.ProxyOff)
		if err != nil {
			t.Fatal(err)
		}
		o.Origin = policy
	}})
	nc, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := r.server.crowdOf(nc); got.IsValid() {
		t.Errorf("a load balancer counts as %v", got)
	}
	r.server.SetOrigin(nil)
	if got := r.server.crowdOf(nc); got.String() != "127.0.0.1" {
		t.Errorf("a client counts as %v", got)
	}
}

// A flood of handshakes that never come to their end makes the proxy impatient, and handshakes that do make it patient again.
func TestPatienceFollowsFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 8)
		if got := l.set.patience(); got != calmPatience {
			t.Errorf("at first a handshake may take %v", got)
		}
		var flood []*opening
		for i := range 8 + 4*outcomes {
			flood = append(flood, l.enter(fmt.Sprintf("192.0.2.%d", i%200)))
		}
		if got := l.set.patience(); got >= 2*minPatience {
			t.Errorf("in a flood a handshake may take %v", got)
		}
		for _, o := range flood {
			o.leave(false)
		}
		for range 4 * outcomes {
			l.enter("").leave(true)
		}
		if got := l.set.patience(); got < calmPatience*9/10 {
			t.Errorf("after the flood a handshake may take %v", got)
		}
	})
}
