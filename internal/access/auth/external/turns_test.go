package external

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
)

// A network that sends any number of clients leaves turns to the others, and networks that wait are served in turn.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns()
		flood, honest := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("198.51.100.1")
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		var mu sync.Mutex
		served := make(map[netip.Addr]int)
		enter := func(ctx context.Context, from netip.Addr) {
			waiting.Go(func() {
				if all.take(ctx, from) {
					mu.Lock()
					served[from]++
					mu.Unlock()
				}
			})
		}
		for range 10 * maxParallel {
			enter(ctx, flood)
		}
		synctest.Wait()
		if served[flood] != fewer {
			t.Fatalf("one network has %d turns; want %d", served[flood], fewer)
		}
		for range maxParallel - fewer {
			enter(t.Context(), honest)
		}
		synctest.Wait()
		if served[honest] != maxParallel-fewer {
			t.Fatalf("another one has %d turns; want %d", served[honest], maxParallel-fewer)
		}
		enter(t.Context(), honest)
		synctest.Wait()
		all.give(flood)
		all.give(flood)
		synctest.Wait()
		if served[honest] != maxParallel-fewer+1 || served[flood] != fewer+1 {
			t.Errorf("after two turns were given back: %v", served)
		}
		cancel()
		waiting.Wait()
		for range served[flood] - 2 {
			all.give(flood)
		}
		for range served[honest] {
			all.give(honest)
		}
		if all.free != maxParallel || len(all.inUse)+len(all.waiting)+len(all.order) != 0 {
			t.Errorf("afterwards: %+v", all)
		}
	})
}

// A client that waits for a turn without success is turned away, also where failures of the server let clients in, and that is not counted as a failure of the server.
func TestWaitForTurnIsNoFailure(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, func(o *Options) { o.Allow = true }, func(w http.ResponseWriter, req *http.Request) {
		<-hold
		answers200(w, req)
	})
	var clients sync.WaitGroup
	for i := range fewer {
		clients.Go(func() {
			if _, err := r.Authenticate(context.Background(), attempt(t, fmt.Sprint("k", i))); err != nil {
				t.Error(err)
			}
		})
	}
	for int(r.asked.Load()) < fewer {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 2 * tolerated {
		var denied *auth.Denied
		if _, err := r.Authenticate(ctx, attempt(t, "late")); !errors.As(err, &denied) || denied.Status != http.StatusServiceUnavailable {
			t.Fatalf("got %v", err)
		}
	}
	close(hold)
	clients.Wait()
	if who, err := r.Authenticate(context.Background(), attempt(t, "k1")); err != nil || who.Tenant != "acme" || r.circuit.failed > 0 {
		t.Errorf("afterwards: %+v, %v, %d failures", who, err, r.circuit.failed)
	}
}

// A client that gives nothing is turned away without a question, unless the server is to hear of it.
func TestAnonymous(t *testing.T) {
	for _, ask := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.AskAnonymous, o.Allow = ask, true }, answers200)
		who, err := r.Authenticate(context.Background(), attempt(t, ""))
		var denied *auth.Denied
		switch {
		case ask && (err != nil || who.Tenant != "acme"):
			t.Errorf("with the setting: %+v, %v", who, err)
		case !ask && (!errors.As(err, &denied) || denied.Status != http.StatusUnauthorized || !denied.Missing || r.asked.Load() != 0):
			t.Errorf("without the setting: %+v, %v, asked %d times", who, err, r.asked.Load())
		}
	}
}

// A header that names at most a scheme gives nothing either.
func TestEmptyCredential(t *testing.T) {
	for _, value := range []string{"", " \t", "Bearer", "bearer ", "Basic", "Token", "Digest"} {
		r := newRig(t, func(*Options) {}, answers200)
		r.o.AskAnonymous = false
		a := attempt(t, "")
		a.Request.Header["Authorization"] = []string{value}
		var denied *auth.Denied
		if _, err := r.Authenticate(context.Background(), a); !errors.As(err, &denied) || denied.Status != http.StatusUnauthorized || r.asked.Load() != 0 {
			t.Errorf("%q: %v, asked %d times", value, err, r.asked.Load())
		}
		a = attempt(t, "")
		a.Request.Header["Authorization"] = []string{value, "Basic bWU6cGFzcw=="}
		if _, err := r.Authenticate(context.Background(), a); err != nil || r.asked.Load() != 1 {
			t.Errorf("%q and another scheme: %v, asked %d times", value, err, r.asked.Load())
		}
	}
}

// The network with the fewest turns gets the next one, or the one whose last turn is the longest ago, also if many networks wait for longer.
func TestFewestTurnsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns()
		network := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }
		for i := range maxParallel {
			all.take(t.Context(), network(i%20))
		}
		var waiting sync.WaitGroup
		for i := range 20 {
			waiting.Go(func() { all.take(t.Context(), network(i)) })
		}
		synctest.Wait()
		got := false
		waiting.Go(func() { got = all.take(t.Context(), network(200)) })
		synctest.Wait()
		all.give(network(19))
		synctest.Wait()
		if !got {
			t.Error("a network without a turn waits behind others that have some")
		}
		for i := range 20 {
			all.give(network(i))
		}
		waiting.Wait()
	})
}

// A network that asks now and then waits for no other that asks all the time, though none has more turns than it at a time.
func TestRareNetworksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTurns()
		network := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}) }
		var waiting sync.WaitGroup
		for i := range 3 * maxParallel {
			waiting.Go(func() {
				for range 20 {
					all.take(t.Context(), network(i))
					time.Sleep(100 * time.Millisecond)
					all.give(network(i))
				}
			})
		}
		time.Sleep(time.Second)
		for i := range 10 {
			begun := time.Now()
			all.take(t.Context(), network(1000+i))
			if took := time.Since(begun); took > 100*time.Millisecond {
				t.Errorf("a network that had no turn so far waited %v", took)
			}
			all.give(network(1000 + i))
			time.Sleep(50 * time.Millisecond)
		}
		waiting.Wait()
		for i := range 3 * remembered {
			all.take(t.Context(), network(i))
			all.give(network(i))
		}
		if n := len(all.last); n > 2*remembered {
			t.Errorf("the last turns of %d networks are remembered", n)
		}
	})
}
