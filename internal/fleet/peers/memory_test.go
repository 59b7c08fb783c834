package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// What is too much for one request, or for all at a time, is left out, and the answer says so. The memory is free again afterwards.
func TestMemory(t *testing.T) {
	const part = 100 << 10 // of each proxy's answer
	r := newRig(t, "a", "b")
	for _, p := range r.proxies {
		p.answer(200, api.SessionList{Sessions: []api.Session{{ID: p.name + "-1", Subject: strings.Repeat("x", part)}}, Matched: 1, Total: 1})
	}
	a := r.proxies[0]
	for _, c := range []struct {
		request, process int64
		there            int
	}{
		{maxRequest, maxProcess, 2},
		{part, part, 2}, // 64 KiB do not count
		{part - freeBytes, maxProcess, 1},
		{maxRequest, part - freeBytes, 1},
	} {
		a.peers.request, a.peers.memory = c.request, newMemory(c.process)
		var l api.SessionList
		a.ask("GET", "/api/v1/sessions?fleet=true", &l)
		if len(l.Sessions) != c.there || len(l.Missing) != 2-c.there {
			t.Errorf("%+v: %d sessions, missing %+v", c, len(l.Sessions), l.Missing)
		}
		for _, m := range l.Missing {
			if !strings.HasPrefix(m.Why, "its answer is left out") || !strings.HasSuffix(m.Why, "its sessions are not known") {
				t.Errorf("%+v: %s", c, m.Why)
			}
		}
		wstest.Eventually(t, fmt.Sprintf("%+v: the memory is free again", c), func() bool { // the handler frees it when it has answered
			return a.peers.memory.left.Load() == c.process
		})
	}
}

// The answers to one request share its memory, and all requests share that of the process.
func TestCharge(t *testing.T) {
	request, process := newMemory(100), newMemory(150)
	first, second := charge{request: request, process: process}, charge{request: request, process: process}
	other := charge{request: newMemory(100), process: process}
	for _, c := range []struct {
		what *charge
		n    int
		ok   bool
	}{
		{&first, freeBytes, true}, {&first, 80, true}, {&second, freeBytes + 30, false}, {&other, freeBytes + 70, true}, {&other, 1, false},
	} {
		if err := c.what.take(t.Context(), c.n); (err == nil) != c.ok {
			t.Errorf("taking %d: %v; left are %d and %d", c.n, err, request.left.Load(), process.left.Load())
		}
	}
	first.release()
	if err := second.take(t.Context(), 0); err != nil {
		t.Error(err)
	}
	second.release()
	other.release()
	other.release()
	if request.left.Load() != 100 || process.left.Load() != 150 {
		t.Errorf("left are %d and %d", request.left.Load(), process.left.Load())
	}
}

// Large answers are read one after the other, so that those have room that fit.
func TestLargeAnswers(t *testing.T) {
	large, all := make(chan struct{}, 1), newMemory(maxRequest)
	first, second := charge{request: all, process: all, large: large}, charge{request: all, process: all, large: large}
	if err := first.take(t.Context(), largeBytes+1); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := second.take(t.Context(), largeBytes); err != nil {
		t.Error(err)
	}
	if err := second.take(ended, 1); !errors.Is(err, errMemory) {
		t.Errorf("while another one is read: %v", err)
	}
	first.done()
	if err := second.take(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

// A small answer that would be large when it is decoded is left out, too.
func TestSmallAnswers(t *testing.T) {
	r := newRig(t, "a", "b")
	a := r.proxies[0]
	a.answer(200, api.SessionList{})
	r.proxies[1].own = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"sessions":[%s{}]}`, strings.Repeat("{},", maxRequest/perObject))
	}
	var l api.SessionList
	a.ask("GET", "/api/v1/sessions?fleet=true", &l)
	if len(l.Sessions) != 0 || len(l.Missing) != 1 || !strings.Contains(l.Missing[0].Why, "its answer is left out") {
		t.Errorf("%d sessions, missing %+v", len(l.Sessions), l.Missing)
	}
}

// What came of an action is always known, and an error says no more than an error needs.
func TestAnswersWithoutMemory(t *testing.T) {
	r := newRig(t, "a", "b", "c")
	a := r.proxies[0]
	a.peers.memory = newMemory(0)
	for _, p := range r.proxies {
		p.answer(200, api.Outcome{Text: "done"})
	}
	if why := a.pauseAll(); why != "" {
		t.Error(why)
	}
	a.peers.memory = newMemory(maxProcess)
	r.proxies[1].fail(409, api.KindState, strings.Repeat("x", maxError))
	if why := a.pauseAll(); !strings.Contains(why, "error of more than 65536 bytes") {
		t.Errorf("%.200s", why)
	}
}

// Statistics are summed as they arrive, and take no memory afterwards, unless they list something new.
func TestStatsAreNotKept(t *testing.T) {
	all := begin(proxyStats{"a", stats("1", 1, true)})
	before := size(all)
	join(all, proxyStats{"b", stats("1", 1, true)})
	if size(all) != before {
		t.Errorf("the same lists have %d entries, and %d before", size(all), before)
	}
	other := stats("1", 1, true)
	other.Backends[0].Name = "gpu-2"
	if join(all, proxyStats{"c", other}); size(all) != before+1 {
		t.Errorf("with another backend, the lists have %d entries, and %d before", size(all), before)
	}
}
