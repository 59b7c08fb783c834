package peers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/fleet"
	"github.com/wsbouncer/wsbouncer/internal/operate/admin/client"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

const (
	fleetSecret = "secret-of-the-fleet"
	pausing     = "/api/v1/services/stt/pause"
)

// newSecured returns a fleet whose proxies have one token, and answer everything.
func newSecured(t *testing.T, names ...string) *rig {
	r := newRig(t, names...)
	for _, p := range r.proxies {
		p.token = fleetSecret
		p.answer(200, api.Outcome{Text: "done"})
		at := time.Now()
		p.peers.challenges = newChallenges(func() time.Time { return at }) // none ends while the machine stands still
	}
	return r
}

// pauseAll asks a proxy to pause a service in the whole fleet, and returns why others did not; empty if they did.
func (p *proxy) pauseAll() (why string) {
	p.rig.t.Helper()
	var o api.Outcome
	p.ask("POST", pausing+"?fleet=true", &o)
	for _, m := range o.Missing {
		why += m.String()
	}
	return why
}

// sent is a request as it arrived.
type sent struct {
	method, target string
	header         http.Header
	body           []byte
}

// record records the requests that a proxy gets from others.
func (p *proxy) record() *[]sent {
	all := new([]sent)
	p.seen = func(r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			p.rig.t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		*all = append(*all, sent{r.Method, r.RequestURI, r.Header.Clone(), body})
	}
	return all
}

// send sends a request to an address, and returns the status and what is wrong.
func (s *sent) send(t *testing.T, address string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), s.method, address+s.target, bytes.NewReader(s.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = s.header
	w, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, string(body)
}

// A proxy proves to others that it knows the token, and never sends it. It needs one challenge for many requests.
func TestProof(t *testing.T) {
	r := newSecured(t, "a", "b")
	a, b := r.proxies[0], r.proxies[1]
	arrived := b.record()
	for range 3 {
		if why := a.pauseAll(); why != "" {
			t.Fatal(why)
		}
	}
	if b.caller != "proxy a true false" || len(b.asked) != 3 || len(*arrived) != 4 {
		t.Errorf("b was asked %v by %s, with %d requests", b.asked, b.caller, len(*arrived))
	}
	for _, s := range *arrived {
		if text := fmt.Sprint(s.method, s.target, s.header, string(s.body)); strings.Contains(text, fleetSecret) {
			t.Errorf("the request has the token: %s", text)
		}
	}
	if first := (*arrived)[0]; first.method != "GET" || len(first.body) > 0 || strings.Contains(first.target, "stt") {
		t.Errorf("before b has shown that it is a proxy, it gets %+v", first)
	}
	b.token, b.reader = "another-token", fleetSecret
	if a.pauseAll(); b.caller != "proxy a false true" {
		t.Errorf("with the token of readers: %s", b.caller)
	}
}

// A request that others have overtaken, as when many clients come back at the same time, is carried out all the same, and once: also if so many have
// that the other proxy no longer knows whether it was made before.
func TestOvertaken(t *testing.T) {
	for _, c := range []struct {
		others uint64
		want   int // requests that b gets for the first one
	}{{65, 1}, {windowSize, 2}} {
		r := newSecured(t, "a", "b")
		a, b := r.proxies[0], r.proxies[1]
		if why := a.pauseAll(); why != "" { // a has a challenge
			t.Fatal(why)
		}
		arrived := 0
		b.seen = func(r *http.Request) {
			if arrived++; arrived > 1 {
				return
			}
			said, _ := proofOf(r)
			for n := range c.others { // by the clock, no time passes
				if !b.peers.challenges.use(said.nonce, string(a.id), said.count+n+1) {
					t.Errorf("the request %d after it is refused", n+1)
				}
			}
		}
		if why := a.pauseAll(); why != "" || len(b.asked) != 2 || arrived != c.want {
			t.Errorf("overtaken by %d: %s; b got %d requests, want %d, and was asked %v", c.others, why, arrived, c.want, b.asked)
		}
	}
}

// Requests that are refused at the same time share the challenge that the first of them has brought.
func TestSharedChallenge(t *testing.T) {
	refusal := func(nonce string) error {
		return &client.Error{Status: http.StatusUnauthorized, Challenge: scheme + " " + nonce}
	}
	p := &prover{token: fleetSecret}
	for _, c := range []struct{ brings, answered, want string }{
		{"one", "", "one"}, {"two", "", "one"}, {"three", "one", "three"}, {"four", "one", "three"},
	} {
		if ok := p.take(refusal(c.brings), c.answered); !ok || p.nonce != c.want {
			t.Errorf("%+v: %t, %s", c, ok, p.nonce)
		}
	}
}

// A recorded request is refused, and so is every other one that is made of it.
func TestReplay(t *testing.T) {
	r := newSecured(t, "a", "b", "c")
	a, b := r.proxies[0], r.proxies[1]
	arrived := b.record()
	if why := a.pauseAll(); why != "" {
		t.Fatal(why)
	}
	done := (*arrived)[len(*arrived)-1]
	for what, c := range map[string]struct {
		change func(*sent)
		says   string
	}{
		"the same": {func(*sent) {}, "was made before"},
		"method":   {func(s *sent) { s.method = "DELETE" }, "wrong token"},
		"path":     {func(s *sent) { s.target = strings.Replace(s.target, "pause", "resume", 1) }, "wrong token"},
		"query":    {func(s *sent) { s.target += "?x=1" }, "wrong token"},
		"body":     {func(s *sent) { s.body = []byte(`{"who":"mallory"}`) }, "wrong token"},
		"sender":   {func(s *sent) { s.header.Set(api.PeerHeader, string(r.proxies[2].id)) }, "is not of this process"},
		"count": {func(s *sent) {
			s.header.Set("Authorization", strings.Replace(s.header.Get("Authorization"), ".1.", ".2.", 1))
		}, "wrong token"},
		"half": {func(s *sent) { s.header.Set("Authorization", scheme+" a.b") }, "a proof is needed"},
	} {
		again := done
		again.header = done.header.Clone()
		c.change(&again)
		if status, text := again.send(t, b.server.URL); status != 401 || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d, %s; want %s", what, status, text, c.says)
		}
	}
	if len(b.asked) != 1 {
		t.Errorf("b was asked %v", b.asked)
	}
	again := done
	again.header = done.header.Clone()
	if status, text := again.send(t, r.proxies[2].server.URL); status != 421 {
		t.Errorf("sent to another proxy: %d, %s", status, text)
	}
	again.header.Set(api.ForHeader, string(r.proxies[2].id))
	if status, text := again.send(t, r.proxies[2].server.URL); status != 401 {
		t.Errorf("addressed to another proxy: %d, %s", status, text)
	}
}

// An attacker who has written an address to the ledger passes on what that gets, as it is or changed. No proxy takes it.
func TestRelay(t *testing.T) {
	r := newSecured(t, "a", "b")
	a, b := r.proxies[0], r.proxies[1]
	for _, c := range []struct {
		what   string
		id     fleet.ID // under which he is in the ledger
		to     *proxy   // to whom he passes it on
		change func(*http.Request, *proof)
		says   string
	}{
		{"under a name of his own", "e", b, nil, "for another proxy"},
		{"under a name of his own, addressed", "e", b, func(r *http.Request, _ *proof) { r.Header.Set(api.ForHeader, string(b.id)) }, "wrong token"},
		{"under a name of his own, all changed", "e", b, func(r *http.Request, said *proof) {
			r.Header.Set(api.ForHeader, string(b.id))
			said.address = b.server.URL
		}, "wrong token"},
		{"instead of b", b.id, b, nil, "is for a proxy at"},
		{"instead of b, with its address", b.id, b, func(_ *http.Request, said *proof) { said.address = b.server.URL }, "wrong token"},
		{"back to where it comes from", "e", a, func(r *http.Request, said *proof) {
			r.Header.Set(api.ForHeader, string(a.id))
			said.address = a.server.URL
		}, "wrong token"},
	} {
		between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if said, ok := proofOf(r); ok && said == nil { // the challenge comes from whom he wants to deceive
				r.Header.Set(api.ForHeader, string(c.to.id))
			} else if ok && c.change != nil {
				c.change(r, said)
				r.Header.Set("Authorization", said.String())
			}
			c.to.serve(w, r)
		}))
		own := r.members[1]
		r.members[1].ID, r.members[1].Address = c.id, between.URL
		asked := len(c.to.asked)
		if c.to == a {
			asked++ // by the test
		}
		if why := a.pauseAll(); !strings.Contains(why, c.says) || len(c.to.asked) != asked {
			t.Errorf("%s: %s; want %s; asked %v", c.what, why, c.says, c.to.asked[asked:])
		}
		r.members[1] = own
		between.Close()
	}
}

// A stranger who guesses a proxy's address gets the same answer whether it is right or not.
func TestGuessedAddress(t *testing.T) {
	r := newSecured(t, "a", "b")
	b := r.proxies[1]
	var answers []string
	for _, address := range []string{b.server.URL, "http://10.0.0.7:9090"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+pausing, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(api.PeerHeader, string(r.proxies[0].id))
		for said := (&proof{address: address, mac: []byte("guessed")}); said != nil; {
			request.Header.Set("Authorization", said.String())
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if nonce, again := strings.CutPrefix(response.Header.Get("WWW-Authenticate"), scheme+" "); again {
				said.nonce = nonce
				continue
			}
			answers = append(answers, response.Status+string(text))
			said = nil
		}
	}
	if answers[0] != answers[1] {
		t.Errorf("the right address: %s\nanother one: %s", answers[0], answers[1])
	}
}

// A proxy with another token is named, and what the others have done is shown.
func TestOtherToken(t *testing.T) {
	r := newSecured(t, "a", "b", "c")
	r.proxies[2].token = "another-token"
	why := r.proxies[0].pauseAll()
	if !strings.HasPrefix(why, "c: it refuses this proxy at ") || !strings.Contains(why, "wrong token for the admin API (the token is that of --fleet-token") || len(r.proxies[1].asked) != 1 {
		t.Errorf("got %s; b was asked %v", why, r.proxies[1].asked)
	}
}

// A proxy that was started again, or whose challenge is old, gives another one.
func TestNewChallenge(t *testing.T) {
	r := newSecured(t, "a", "b")
	a, b := r.proxies[0], r.proxies[1]
	for range 2 {
		if why := a.pauseAll(); why != "" {
			t.Fatal(why)
		}
		b.peers.challenges = newChallenges(time.Now)
	}
	if len(b.asked) != 2 {
		t.Errorf("b was asked %v", b.asked)
	}
}

// A request that changes something is held up until its sender has given up, since the proxy was stopped say. It is not carried out: an operator may
// have ordered something else meanwhile. A sender that still waits answers the new challenge.
func TestHeldUp(t *testing.T) {
	for _, c := range []struct {
		method, path string
		late         time.Duration
		want         int // requests that b gets, the one for a challenge included
	}{
		{"POST", pausing, actionLife - 1, 2},
		{"POST", pausing, actionLife, 3},
		{"DELETE", "/api/v1/sessions/x", actionLife, 3},
		{"GET", "/api/v1/sessions", actionLife, 2},
		{"GET", "/api/v1/sessions", nonceLife, 3},
	} {
		r := newSecured(t, "a", "b")
		a, b := r.proxies[0], r.proxies[1]
		a.fail(404, "not-found", "no such session")
		if c.method != "DELETE" {
			a.answer(200, api.Outcome{Text: "done"})
		}
		now := time.Now()
		b.peers.challenges = newChallenges(func() time.Time { return now })
		requests := 0
		b.seen = func(r *http.Request) {
			requests++
			if requests == 2 {
				now = now.Add(c.late)
			}
		}
		var answer json.RawMessage
		a.ask(c.method, c.path+"?fleet=true", &answer)
		if requests != c.want || len(b.asked) != 1 {
			t.Errorf("%s %s, %v late: b got %d requests, and carried out %v; want %d: %s", c.method, c.path, c.late, requests, b.asked, c.want, answer)
		}
	}
}

// Who answers without a challenge gets no request.
func TestNoChallenge(t *testing.T) {
	r := newSecured(t, "a")
	var bodies []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.Method+string(body))
		fmt.Fprint(w, `{"text":"done"}`)
	}))
	defer other.Close()
	r.members = append(r.members, fleet.Member{ID: "b", Name: "b", Address: other.URL, Host: "here"})
	if why := r.proxies[0].pauseAll(); !strings.Contains(why, "without asking for a proof") || fmt.Sprint(bodies) != "[GET]" {
		t.Errorf("got %s; it was sent %q", why, bodies)
	}
}

// A challenge is for one proxy and two minutes, and each count is used once. Many challenges cost no more memory than there is for them.
func TestChallenges(t *testing.T) {
	now := time.Now()
	c := newChallenges(func() time.Time { return now })
	nonce := c.issue("a")
	for _, use := range []struct {
		count uint64
		ok    bool
	}{
		{0, false},
		{1, true},
		{1, false},
		{3, true},
		{2, true},
		{2, false},
		{3, false},
		{windowSize + 6, true},
		{7, true},
		{6, false},
		{7, false},
		{windowSize + 5, true},
		{windowSize + 6, false},
		{windowSize + 8, true},
		{8, false},
		{9, true},
		{windowSize + 9, true},
		{windowSize + 9, false},
		{1 << 40, true},
		{windowSize + 7, false},
		{1<<40 - 1, true},
		{1<<40 - windowSize, false},
		{1<<40 - windowSize + 1, true},
	} {
		if got := c.use(nonce, "a", use.count); got != use.ok {
			t.Errorf("count %d: %t", use.count, got)
		}
	}
	if c.holds(nonce, "b", 1<<41, nonceLife) || c.use(nonce, "b", 1<<41) {
		t.Error("another proxy uses it")
	}
	if newChallenges(func() time.Time { return now }).holds(nonce, "a", 1, nonceLife) || c.holds("x"+nonce[1:], "a", 1, nonceLife) ||
		c.holds("", "a", 1, nonceLife) {
		t.Error("what was not made here is taken")
	}
	if c.holds(nonce, "a", 1<<40-windowSize, nonceLife) || !c.holds(nonce, "a", 1<<40-windowSize+1, nonceLife) {
		t.Error("it holds for a count of which nothing is known, or not for one in the window")
	}
	now = now.Add(nonceLife - 1)
	if !c.use(nonce, "a", 1<<42) {
		t.Error("it is no longer taken before two minutes have passed")
	}
	now = now.Add(1)
	if c.holds(nonce, "a", 1<<43, nonceLife) || c.use(nonce, "a", 1<<43) {
		t.Error("it is taken after two minutes")
	}
	latest := ""
	for range maxNonces { // with these, the one that has expired is forgotten
		latest = c.issue("a")
		if !c.use(latest, "a", 1) {
			t.Fatal("a new challenge is not taken")
		}
	}
	if len(c.used) != maxNonces {
		t.Errorf("%d are remembered", len(c.used))
	}
	more := c.issue("a")
	if !c.use(more, "a", 1) { // nothing was done with it
		t.Error("a new challenge is not taken, since there are too many")
	}
	if c.use(more, "a", 1) || c.use(more, "a", 2) || c.use(latest, "a", 1) || c.use(latest, "a", 2) || len(c.used) != 0 {
		t.Error("one that was forgotten is taken")
	}
	now = now.Add(1)
	if !c.use(c.issue("a"), "a", 1) {
		t.Error("after too many there are none")
	}
}

// Each part of a request, and the token, makes another proof; so does a part that takes over what is another's.
func TestStatement(t *testing.T) {
	base := statement{"nonce", 1, "GET", "/a?b", "from", "to", "http://c", []byte("body")}
	proofs := map[string]int{string(base.mac("token")): -1, string(base.mac("other")): -2}
	for i, change := range []func(*statement){
		func(s *statement) { s.nonce = "x" }, func(s *statement) { s.count = 2 }, func(s *statement) { s.method = "PUT" }, func(s *statement) { s.target = "/a?c" },
		func(s *statement) { s.from = "x" }, func(s *statement) { s.to = "x" }, func(s *statement) { s.address = "http://d" }, func(s *statement) { s.body = nil },
		func(s *statement) { s.from, s.to = "fromt", "o" }, func(s *statement) { s.method, s.target = "GET/a", "?b" },
	} {
		s := base
		change(&s)
		mac := string(s.mac("token"))
		if other, ok := proofs[mac]; ok {
			t.Errorf("change %d has the proof of %d", i, other)
		}
		proofs[mac] = i
	}
}
