package relay

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/session/record"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// described returns the session or waiting client whose client this is.
func (r *rig) described(p *wstest.Peer) (d Description) {
	r.T.Helper()
	wstest.Eventually(r.T, "the session is listed", func() bool {
		for _, d = range r.sessions.List() {
			if d.Client.String() == p.LocalAddr().String() {
				return true
			}
		}
		return false
	})
	return d
}

// A client finds its session's id in the answer, whatever the answer is, and an operator finds the session by it.
func TestIDInAnswers(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Script: &wstest.Server{Serve: wstest.Echo}})
	r.Ready(1)
	p := r.Connect(wstest.UpgradeRequest("/v1/test"))
	answer := p.Response()
	id, ok := record.ParseID(answer.Header.Get("X-Wsbouncer-Session-Id"))
	if d := r.described(p); !ok || d.ID != id || d.State != "relaying" || d.Service != r.Service || d.Path != "/v1/test" {
		t.Errorf("the answer has %q; the session is %+v", answer.Header.Get("X-Wsbouncer-Session-Id"), d)
	}
	_, answer = r.Request(wstest.UpgradeRequest("/nothing"))
	refused, ok := record.ParseID(answer.Header.Get("X-Wsbouncer-Session-Id"))
	if answer.StatusCode != http.StatusNotFound || !ok || refused == id || refused.Process != id.Process {
		t.Errorf("%d, %q", answer.StatusCode, answer.Header.Get("X-Wsbouncer-Session-Id"))
	}
	if _, ok := r.sessions.Detail(refused); ok {
		t.Error("a refused client has a session")
	}
}

// What sessions are and what they have relayed can be seen at any time, and how they ended, too.
func TestDescriptions(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Queue: 9, Script: &wstest.Server{Serve: wstest.Echo}})
	p := r.Join()
	p.Ask("one")
	p.Ask("seven")
	d := r.described(p)
	if want := (meter.Relayed{FramesFromClients: 2, BytesFromClients: 8, FramesFromBackends: 2, BytesFromBackends: 8}); d.Relayed != want || d.Decided || d.Moves != 0 || d.Backend != r.Backend || d.Connection != 1 {
		t.Errorf("%+v; want relayed %+v", d, want)
	}
	detail, ok := r.sessions.Detail(d.ID)
	if !ok || detail.Profile != "echo" || detail.Server == nil || detail.Server.Sessions != 1 || detail.Server.State != "serving" ||
		!strings.Contains(detail.Server.Boundary, "messages") || len(detail.Before) != 0 {
		t.Errorf("detail: %+v, server %+v", detail, detail.Server)
	}
	first, second := r.Queued(), r.Queued()
	for place, p := range []*wstest.Peer{first, second} {
		d := r.described(p)
		if d.State != StateWaiting || d.Place != place+1 || d.Backend != nil || !d.Leased.IsZero() {
			t.Errorf("waiting: %+v; want place %d", d, place+1)
		}
		if detail, ok := r.sessions.Detail(d.ID); !ok || detail.Place != place+1 || detail.Waiting != 2 || time.Until(detail.Until) < time.Minute {
			t.Errorf("waiting: %+v", detail)
		}
	}
	p.CloseNormally()
	first.ExpectUpgrade()
	first.Ask("x")
	if d := r.described(second); d.Place != 1 {
		t.Errorf("the second has place %d now", d.Place)
	}
	next, _ := r.sessions.Detail(r.described(first).ID)
	if next.Server.Sessions != 2 || len(next.Before) != 1 || next.Before[0].ID != d.ID {
		t.Errorf("the next session of the connection: %+v", next)
	}
	ended, count := r.sessions.Ended(0)
	remembered, found := r.sessions.EndedSession(d.ID)
	if count != 1 || len(ended) != 1 || ended[0] != remembered || !found || remembered.Code != frame.NormalClosure || remembered.Service != r.Service {
		t.Errorf("ended: %+v, %d", ended, count)
	}
	if again, count := r.sessions.Ended(count); len(again) != 0 || count != 1 {
		t.Errorf("ended after that: %+v, %d", again, count)
	}
	if _, ok := r.sessions.Detail(d.ID); ok {
		t.Error("an ended session is shown as one that runs")
	}
	if _, ok := r.sessions.Detail(record.ID{Process: record.NewProcess(), Number: d.ID.Number}); ok {
		t.Error("a session of another process is found")
	}
}

// An operator ends a session, or the wait for one: the client is told why.
func TestKill(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Queue: 9, Script: &wstest.Server{Serve: wstest.Echo}})
	p, waiting := r.Join(), r.Queued()
	if !r.sessions.Kill(r.described(waiting).ID, "") {
		t.Error("the waiting client is not found")
	}
	if answer := waiting.Response(); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a waiting client got %d", answer.StatusCode)
	}
	id := r.described(p).ID
	if !r.sessions.Kill(id, "new model") {
		t.Error("the session is not found")
	}
	p.ExpectClose(frame.ServiceRestart, "ended by an operator: new model")
	if r.sessions.Kill(id, "again") {
		t.Error("a session was ended twice")
	}
	_ = p.Close()
	r.expectRecord(fate{"proxy", frame.ServiceRestart, "ended by an operator: new model", "returned"})
	if r.sessions.Kill(id, "") || r.sessions.Kill(record.ID{Process: record.NewProcess(), Number: id.Number}, "") {
		t.Error("a session that is over was ended")
	}
}

// An operator who ends a client's wait at the moment when it is over ends the session that begins.
func TestKillAtTheLastMoment(t *testing.T) {
	r := newRig(t, setup{Profile: "echo", Queue: 9, Script: &wstest.Server{Serve: wstest.Echo}})
	held := r.hold()
	p := r.Queued()
	id := r.described(p).ID
	// The loop hands the connection over, and waits before it begins the session.
	l, first, second := held.Stream().Home(), make(chan struct{}), make(chan struct{})
	l.Post(func() { <-first })
	held.ReturnUnused()
	l.Post(func() { <-second })
	close(first)
	wstest.Eventually(t, "the connection is handed over", func() bool { return r.Group.Queue().Totals.Served == 1 })
	killed := r.sessions.Kill(id, "")
	close(second)
	if !killed {
		t.Error("nothing to end")
	}
	if answer := p.Response(); answer.StatusCode == http.StatusSwitchingProtocols {
		p.ExpectClose(frame.ServiceRestart, "ended by an operator")
	} else if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %s", answer.Status)
	}
}

// Sessions that begin, end and move between loops at the same time are all seen, once each.
func TestListWhileSessionsMove(t *testing.T) {
	const stay = 8
	r := newRig(t, setup{Profile: "echo", Cap: stay + 4, Loops: 3, Queue: 100, Script: &wstest.Server{Serve: wstest.Echo}})
	var ids []record.ID
	for range stay {
		ids = append(ids, r.described(r.Join()).ID)
	}
	_, stop := r.mover()
	defer stop()
	quit := make(chan struct{})
	var guests sync.WaitGroup
	for range 3 {
		guests.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
				}
				p := r.Join()
				p.Ask("hello")
				p.CloseNormally()
			}
		})
	}
	for range 300 {
		seen := make(map[record.ID]int)
		for _, d := range r.sessions.List() {
			seen[d.ID]++
		}
		for _, id := range ids {
			if seen[id] != 1 {
				t.Errorf("%v is listed %d times", id, seen[id])
			}
		}
		if _, ok := r.sessions.Detail(ids[0]); !ok {
			t.Error("a session is not found")
		}
	}
	close(quit)
	guests.Wait()
}

// BenchmarkSessions lists sessions that one loop owns.
func BenchmarkSessions(b *testing.B) {
	const n = 256
	r := newRig(b, setup{Profile: "echo", Cap: n, Script: &wstest.Server{Serve: wstest.Echo}})
	r.Ready(n)
	for range n {
		r.Join()
	}
	b.ResetTimer()
	for range b.N {
		if got := len(r.sessions.List()); got != n {
			b.Fatal(got, "sessions")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/session")
}

// What is done again and again pauses between some sessions and the next.
func TestEachOver(t *testing.T) {
	r := newRig(t, setup{Script: &wstest.Server{Serve: wstest.Echo}})
	r.Join()
	many := slices.Repeat(r.sessions.All(), 2*atOnce+1)
	calls, seen := 0, []int{}
	begun := time.Now()
	r.sessions.eachOver(30*time.Millisecond, many, func(*Session) { calls++ }, func() { seen = append(seen, calls) })
	if want := []int{atOnce, 2 * atOnce, 2*atOnce + 1}; !slices.Equal(seen, want) {
		t.Errorf("pauses after %v calls; want %v", seen, want)
	}
	if took := time.Since(begun); took < 20*time.Millisecond {
		t.Errorf("it took %v", took)
	}
}
