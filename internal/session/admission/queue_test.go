package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/sessiontest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// Clients wait in one queue for the connections of all backends: whichever comes free first is for the one that has waited
// longest.
func TestQueueIsServedInOrder(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Queue: 10, Script: &wstest.Server{Serve: wstest.Echo}, More: []*wstest.Server{{Serve: wstest.Echo}}})
	r.AllReady(1, r.Backends...)
	served := []*wstest.Peer{r.Join(), r.Connect(wstest.UpgradeRequest("/v1/test"))} // one by each backend
	served[1].ExpectUpgrade()
	order := []int{0, 0, 1, 0, 1, 1, 1} // which of the two sessions ends next
	var waiting []*wstest.Peer
	for range order {
		waiting = append(waiting, r.Queued())
	}
	if q := r.Group.Queue(); q.Waiting != len(order) || q.Limit != 10 || q.OldestSeconds <= 0 {
		t.Errorf("queue: %+v", q)
	}
	type expectation struct {
		position int64
		backend  string
		waited   time.Duration // at least
	}
	begun := time.Now()
	expected := make([]expectation, 2) // of the record of each session that is being served
	for i, p := range waiting {
		k := order[i]
		waited := time.Since(begun)
		served[k].CloseNormally()
		a := r.Record()
		if e := expected[k]; a["queue_position"].Int64() != e.position || a["waited"].Duration() < e.waited ||
			e.backend != "" && a["backend"].String() != e.backend {
			t.Errorf("record %v; want %+v", a, e)
		}
		p.ExpectUpgrade()
		p.Ask(fmt.Sprint("client ", i))
		served[k], expected[k] = p, expectation{int64(i + 1), a["backend"].String(), waited}
	}
	if expected[0].backend == expected[1].backend {
		t.Error("both sessions are on one backend")
	}
	q := r.Group.Queue()
	if n := uint64(len(order)); q.Waiting != 0 || q.Totals.Queued != n || q.Totals.Served != n || q.Totals.WaitedSeconds <= 0 {
		t.Errorf("queue: %+v", q)
	}
	for _, b := range r.Backends {
		if s := b.Stats().Totals; s.Dialed != 1 {
			t.Errorf("%d connections were dialed, want one", s.Dialed)
		}
	}
}

// A client waits for so long only, from when it was queued, and then gets an honest answer.
func TestQueueTimeout(t *testing.T) {
	const limit = 50 * time.Millisecond
	r := newRig(t, setup{
		Profile: "echo", Queue: 10, Script: &wstest.Server{Serve: wstest.Echo}, Service: func(s *route.Service) { s.QueueTimeout = limit },
	})
	holder := r.Join()
	for range 2 {
		begun := time.Now()
		sessiontest.ExpectUnavailable(t, r.Connect(wstest.UpgradeRequest("/v1/test")), "no connection came free in time")
		if took := time.Since(begun); took < limit {
			t.Errorf("given up after %v", took)
		}
	}
	if q := r.Group.Queue(); q.Waiting != 0 || q.Totals.Queued != 2 || q.Totals.TimedOut != 2 || q.Totals.Served != 0 {
		t.Errorf("queue: %+v", q)
	}
	if got := r.stats().Refused; len(got) != 1 || got[503] != 2 {
		t.Errorf("refused: %v", got)
	}
	holder.Ask("nothing happened")
	holder.CloseNormally()
	r.Join().CloseNormally()
	if s := r.Backend.Stats().Totals; s.Leased != 2 || s.Returned != 2 {
		t.Errorf("totals: %+v", s)
	}
}

// Without a place in the queue there is no waiting.
func TestQueueIsFull(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Queue: 2, Script: &wstest.Server{Serve: wstest.Echo}})
	holder := r.Join()
	first, second := r.Queued(), r.Queued()
	for range 3 {
		sessiontest.ExpectUnavailable(t, r.Connect(wstest.UpgradeRequest("/v1/test")), "all connections are in use and the queue is full")
	}
	if q := r.Group.Queue(); q.Waiting != 2 || q.Totals.Full != 3 || q.Totals.Queued != 2 {
		t.Errorf("queue: %+v", q)
	}
	for _, next := range []*wstest.Peer{first, second} {
		holder.CloseNormally()
		next.ExpectUpgrade()
		next.Ask("at last")
		holder = next
	}
}

// Those who wait when the proxy begins to drain are told so at once; sessions continue.
func TestDrainingTurnsWaitersAway(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Queue: 10, Script: &wstest.Server{Serve: wstest.Echo}})
	holder := r.Join()
	waiting := []*wstest.Peer{r.Queued(), r.Queued(), r.Queued()}
	r.Gate.StopAccepting()
	for _, p := range waiting {
		sessiontest.ExpectUnavailable(t, p, "shutting down")
	}
	if q := r.Group.Queue(); q.Waiting != 0 || q.Totals.TurnedAway != 3 {
		t.Errorf("queue: %+v", q)
	}
	holder.Ask("still here")
	holder.CloseNormally()
	r.Ready(1)
}

// Without warm connections each client's is dialed when it comes, within the cap, and those that a session left behind
// serve the next.
func TestDialingOnDemand(t *testing.T) {
	for profile, dialed := range map[string]uint64{"echo": 2, "one-shot": 5} {
		t.Run(profile, func(t *testing.T) {
			r := newRig(t, setup{
				Profile: profile, Cap: 2, Queue: 10, Script: &wstest.Server{Serve: wstest.Echo},
				Backend: func(o *backend.Options) { o.Settings.Warm = 0 },
			})
			if s := r.Backend.Stats(); s.Used() != 0 {
				t.Errorf("dialed without a client: %+v", s)
			}
			clients := []*wstest.Peer{r.Queued()}
			clients[0].ExpectUpgrade()
			clients[0].Ask("first")
			if s := r.Backend.Stats(); s.Leased != 1 || s.Used() != 1 {
				t.Errorf("for one client: %+v", s)
			}
			for i := range 4 {
				clients = append(clients, r.Queued())
				if i == 0 {
					clients[1].ExpectUpgrade()
				}
			}
			if s := r.Backend.Stats(); s.Leased != 2 || s.Used() != 2 {
				t.Errorf("beyond the cap: %+v", s)
			}
			for i, p := range clients {
				if i >= 2 {
					p.ExpectUpgrade()
				}
				p.Ask("hello")
				p.CloseNormally()
				if a := r.Record(); a["queue_position"].Int64() != []int64{1, 1, 1, 2, 3}[i] {
					t.Errorf("record %d: %v", i, a)
				}
			}
			if s := r.Backend.Stats().Totals; s.Dialed != dialed {
				t.Errorf("totals: %+v; want %d connections dialed", s, dialed)
			}
		})
	}
}

// Clients that wait hold no others up: neither those of other services nor those that are refused, however many they are.
func TestWaitingHoldsNoOtherUp(t *testing.T) {
	const many = 138 // more than twice as many as may begin their handshakes at a time
	r := newRig(t, setup{Profile: "echo", Queue: many, Script: &wstest.Server{Serve: wstest.Echo}, Other: &wstest.Server{Serve: wstest.Echo}})
	r.AllReady(1, r.Backends...)
	holder := r.Join()
	for range many {
		r.Queued()
	}
	other := r.Connect(wstest.UpgradeRequest("/v1/other"))
	other.ExpectUpgrade()
	other.Ask("another service")
	for request, status := range map[string]int{
		wstest.UpgradeRequest("/nowhere"): 404, "GET /v1/test HTTP/1.1\r\nHost: test\r\n\r\n": 426, wstest.UpgradeRequest("/v1/test"): 503,
		strings.Replace(wstest.UpgradeRequest("/v1/test"), "GET", "PUT", 1): 400,
	} {
		if _, response := r.Request(request); response.StatusCode != status {
			t.Errorf("got %s; want %d", response.Status, status)
		}
	}
	holder.Ask("the session continues")
	if q := r.Group.Queue(); q.Waiting != many {
		t.Errorf("queue: %+v", q)
	}
}
