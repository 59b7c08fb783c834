package relay

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/access/auth"
	"github.com/wsbouncer/wsbouncer/internal/access/identity"
	"github.com/wsbouncer/wsbouncer/internal/servers/backend"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
	"github.com/wsbouncer/wsbouncer/internal/session/route"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

const withIDs = `
profiles:
  p:
    from: echo
    affinity:
      server: {message: {json: {type: created}}, id: session.id}
      client: {query: session, headers: X-Session, message: {json: {type: resume}}, id: session}`

// created is a message of a server that gives an id, which stands in JSON.
func created(id string) string { return `{"type":"created","session":{"id":"` + id + `"}}` }

func resumed(id string) string { return `{"type":"resume","session":"` + id + `"}` }

// newAffinityRig returns a rig with three servers that give ids: each answers a message with the same message. change may change the setup.
func newAffinityRig(t *testing.T, yaml string, change func(*setup)) *rig {
	t.Helper()
	o := setup{
		Cap: 3, Queue: 9, Loops: 2, Balance: pool.RoundRobin, Script: &wstest.Server{Serve: wstest.Echo},
		More:    []*wstest.Server{{Serve: wstest.Echo}, {Serve: wstest.Echo}},
		Backend: withYAML(t, yaml), Service: func(s *route.Service) { s.Affinity = route.NewAffinity() },
	}
	if change != nil {
		change(&o)
	}
	r := newRig(t, o)
	r.AllReady(1, r.Backends...)
	return r
}

// visit begins a session, exchanges messages in it, ends it, and returns which server served it at last, and what is said of its return.
func (r *rig) visit(query, header string, messages ...string) (server, returned string) {
	r.T.Helper()
	p := r.askFor(query, header)
	for _, m := range messages {
		p.Send(frame.Text, m)
		p.Expect(frame.Text, m)
	}
	p.CloseNormally()
	record := r.Record()
	if value, ok := record["affinity"]; ok {
		returned = value.String()
	}
	return record["backend"].String(), returned
}

// A client with an id comes to the server that has given it, whichever way it says it, and others are spread.
func TestAffinity(t *testing.T) {
	for _, id := range []struct{ json, plain string }{{"abc", "abc"}, {`a\"\\ö \ud83d\ude00&%+`, `a"\ö 😀&%+`}} {
		for name, again := range map[string]func() (query, header string, messages []string){
			"query": func() (string, string, []string) {
				return "?session=" + url.QueryEscape(id.plain), "X-A: b", []string{"x"}
			},
			"header":  func() (string, string, []string) { return "", "X-Session: " + id.plain, nil },
			"message": func() (string, string, []string) { return "?a=b", "X-A: b", []string{resumed(id.json), "x"} },
		} {
			t.Run(name, func(t *testing.T) {
				r := newAffinityRig(t, withIDs, nil)
				first, returned := r.visit("", "X-A: b", "hello", created(id.json), "bye")
				if returned != "" {
					t.Errorf("the first visit: %q", returned)
				}
				others := make(map[string]bool)
				const visits = 7
				for range visits {
					other, _ := r.visit("", "X-A: b", "hello")
					others[other] = true
					query, header, messages := again()
					if server, returned := r.visit(query, header, messages...); server != first || returned != "hit" {
						t.Errorf("came to %s: %q; want %s", server, returned, first)
					}
				}
				if len(others) < 2 || r.Service.Affinity.Counted(route.Hit) != visits {
					t.Errorf("others came to %v; %d hits", others, r.Service.Affinity.Counted(route.Hit))
				}
			})
		}
	}
}

// The first message stays whole and first when it goes to another server, in frames, with more behind it.
func TestAffinityKeepsOrder(t *testing.T) {
	r := newAffinityRig(t, withIDs, nil)
	first, _ := r.visit("", "X-A: b", created("a"))
	r.visit("", "X-A: b", "x") // the next client's turn is another server's
	p := r.askFor("")
	whole := resumed("a")
	p.SendBytes(wstest.ClientFrame(false, frame.Text, whole[:9]), wstest.ClientFrame(true, frame.Continuation, whole[9:]),
		wstest.ClientFrame(true, frame.Text, "2"), wstest.ClientFrame(true, frame.Binary, "3"))
	p.Expect(frame.Text, whole)
	p.Expect(frame.Text, "2")
	p.Expect(frame.Binary, "3")
	p.CloseNormally()
	if record := r.Record(); record["backend"].String() != first || record["affinity"].String() != "hit" {
		t.Errorf("came to %v: %v; want %s", record["backend"], record["affinity"], first)
	}
}

// A client whose server is gone, full, or drained is served by another one, at once. One whose id is not known is served by any.
func TestAffinityGone(t *testing.T) {
	for name, lose := range map[string]func(r *rig, b *backend.Backend){
		"drained": func(_ *rig, b *backend.Backend) { b.Pool().SetMode(pool.Draining) },
		"removed": func(r *rig, b *backend.Backend) { r.Group.Remove(b.Pool()) },
		"down":    func(_ *rig, b *backend.Backend) { b.Pool().SetUsable(false) },
		"full":    func(_ *rig, b *backend.Backend) { b.Pool().Set(pool.Settings{Cap: 3, Warm: 3, Weight: 1, Taken: 3}) },
	} {
		for _, byMessage := range []bool{false, true} {
			t.Run(fmt.Sprint(name, byMessage), func(t *testing.T) {
				r := newAffinityRig(t, withIDs, nil)
				query, messages := "?session=a", []string{"x"}
				if byMessage {
					query, messages = "", []string{resumed("a"), "x"}
				}
				if _, returned := r.visit(query, "X-A: b", messages...); returned != "miss" {
					t.Errorf("an unknown id: %q", returned)
				}
				first, _ := r.visit("", "X-A: b", created("a"))
				for _, b := range r.Backends {
					if b.Name() == first {
						lose(r, b)
					}
				}
				for range 3 {
					if server, returned := r.visit(query, "X-A: b", messages...); server == first || returned != "gone" {
						t.Errorf("came to %s: %q; the server of its id is %s", server, returned, first)
					}
				}
				if a := r.Service.Affinity; a.Counted(route.Gone) != 3 || a.Counted(route.Miss) != 1 || a.Counted(route.Hit) != 0 {
					t.Errorf("%d gone, %d misses, %d hits", a.Counted(route.Gone), a.Counted(route.Miss), a.Counted(route.Hit))
				}
			})
		}
	}
}

// An id is learned from the greeting, which the client gets when its session begins, and only once, from the first messages.
func TestAffinityLearns(t *testing.T) {
	greeting := wstest.ServerFrame(true, frame.Text, created("greeted"))
	const yaml = withIDs + "\n    greeting: {json: {type: created}}"
	r := newAffinityRig(t, yaml, func(o *setup) {
		for _, s := range append(o.More, o.Script) {
			s.Answer = wstest.Accept("", greeting...)
		}
		o.Cap = 1
	})
	p := r.askFor("")
	p.Expect(frame.Text, created("greeted"))
	p.Send(frame.Text, created("second"))
	p.Expect(frame.Text, created("second"))
	p.CloseNormally()
	r.Record()
	if n := r.Service.Affinity.Size(); n != 1 || r.Service.Affinity.Find(nil, "greeted") == nil {
		t.Errorf("%d ids", n)
	}
	t.Run("late", func(t *testing.T) {
		r := newAffinityRig(t, withIDs, nil)
		messages := make([]string, maxUnnamed)
		r.visit("", "X-A: b", append(messages, created("late"))...)
		r.visit("", "X-A: b", append(messages[1:], created("in time"))...)
		long := created(strings.Repeat("x", 1<<20))
		r.visit("", "X-A: b", long, created(strings.Repeat("x", 257)), created("after long ones"))
		a := r.Service.Affinity
		if a.Size() != 2 || a.Find(nil, "in time") == nil || a.Find(nil, "after long ones") == nil {
			t.Errorf("%d ids", a.Size())
		}
	})
}

// What a server says after it was full is not learned, nor what does not reach the client; the session's next server is.
func TestAffinityOfAServerThatTurnsAway(t *testing.T) {
	r := newAffinityRig(t, withIDs+"\n    busy: {json: {busy: true}}", func(o *setup) {
		o.Script = &wstest.Server{Serve: func(p *wstest.Peer) {
			if _, _, err := p.Next(); err == nil {
				_, _ = p.Write(p.Encode(true, frame.Text, []byte(`{"type":"created","busy":true,"session":{"id":"full"}}`)))
			}
			_, _, _ = p.Next()
		}}
	})
	for range 3 { // one of them is turned away
		r.visit("", "X-A: b", created("a"))
	}
	if a := r.Service.Affinity; a.Size() != 1 || a.Find(nil, "full") != nil {
		t.Errorf("%d ids", a.Size())
	}
}

// A session whose first server turns it away before the client has said anything still goes by the client's first message.
func TestAffinityOfAServerThatTurnsAwayAtOnce(t *testing.T) {
	turn := make(chan struct{})
	r := newAffinityRig(t, withIDs+"\n    busy: {close: 4005}", func(o *setup) {
		o.Cap = 1
		o.Script = &wstest.Server{Serve: func(p *wstest.Peer) {
			over := make(chan struct{})
			defer close(over)
			go func() {
				select {
				case <-turn:
					_, _ = p.Write(p.Encode(true, frame.Close, frame.ClosePayload(4005, "full")))
				case <-over:
				}
			}()
			wstest.Echo(p)
		}}
	})
	turns, first, id := r.Backends[0].Name(), "", ""
	for i := 0; first == "" || first == turns; i++ {
		id = fmt.Sprint(i)
		first, _ = r.visit("", "X-A: b", created(id))
	}
	on := func() (b *backend.Backend) {
		r.on(func(s *Session) {
			if s.leg.conn != nil {
				b = s.leg.conn.Backend()
			}
		})
		return b
	}
	p := r.askFor("", "X-A: b")
	for on() != r.Backends[0] {
		p.CloseNormally()
		r.Record()
		p = r.askFor("", "X-A: b")
	}
	turn <- struct{}{}
	wstest.Eventually(t, "another server has it", func() bool { b := on(); return b != nil && b != r.Backends[0] })
	p.Send(frame.Text, resumed(id))
	p.Expect(frame.Text, resumed(id))
	p.CloseNormally()
	if record := r.Record(); record["backend"].String() != first || record["affinity"].String() != "hit" {
		t.Errorf("%v; want %s", record, first)
	}
}

// With failover, a session's first message leads to another server as well.
func TestAffinityWithFailover(t *testing.T) {
	const yaml = withIDs + `
    failover: {verdict: full, audio: {messages: {opcode: binary}, encoding: s16le, rate: 16000}, answered: {messages: {opcode: binary}, by: count}}`
	r := newAffinityRig(t, yaml, func(o *setup) {
		service := o.Service
		o.Service = func(s *route.Service) {
			service(s)
			s.Failover, s.ReplayWindow = true, wstest.Timeout
		}
	})
	first, _ := r.visit("", "X-A: b", created("a"))
	for range 4 {
		r.visit("", "X-A: b", "x")
		if server, returned := r.visit("", "X-A: b", resumed("a"), "y"); server != first || returned != "hit" {
			t.Errorf("came to %s: %q; want %s", server, returned, first)
		}
	}
}

// tenantsByCredential is a method for which the credential is the name of the tenant.
type tenantsByCredential struct{}

func (tenantsByCredential) Name() string { return identity.MethodExternal }

func (tenantsByCredential) Authenticate(_ context.Context, a *auth.Attempt) (*identity.Identity, error) {
	return &identity.Identity{Tenant: a.Credential, Method: identity.MethodExternal}, nil
}

// An id of one tenant leads no client of another one.
func TestAffinityOfTenants(t *testing.T) {
	r := newAffinityRig(t, withIDs, func(o *setup) {
		service := o.Service
		o.Service = func(s *route.Service) {
			service(s)
			s.Auth = policyOf(t, "header", tenantsByCredential{})
			s.Auth.EndUnauthorized = false
		}
	})
	first, _ := r.visit("", "Authorization: Bearer one", created("a"))
	for tenant, want := range map[string]string{"one": "hit", "two": "miss"} {
		if server, returned := r.visit("?session=a", "Authorization: Bearer "+tenant, "x"); returned != want || want == "hit" && server != first {
			t.Errorf("tenant %s came to %s: %q", tenant, server, returned)
		}
		if _, returned := r.visit("", "Authorization: Bearer "+tenant, resumed("a")); returned != want {
			t.Errorf("tenant %s: %q", tenant, returned)
		}
	}
}

// Messages that look like ids, and are none, pass as they are.
func TestAffinityOfNoID(t *testing.T) {
	r := newAffinityRig(t, withIDs, nil)
	r.visit("", "X-A: b", created("a"))
	for _, message := range []string{
		resumed(strings.Repeat("x", 1<<20)), resumed(strings.Repeat(`\u0078`, 257)), resumed(""), resumed(`\ud83d`), `{"type":"resume","session":7}`,
		`{"type":"resume","session":"b","session":"a"}`, `{"type":"resume","session":"a"`, resumed("a")[:9],
	} {
		if _, returned := r.visit("?session=", "X-A: b", message, resumed("a"), created("a")); returned != "" {
			t.Errorf("%.60s: %q", message, returned)
		}
	}
}

// A client that gets no session does not keep its id from being forgotten, nor does one that leaves or whose session moves.
func TestAffinityForgets(t *testing.T) {
	const yaml = withIDs + "\n      for: 1ms"
	r := newAffinityRig(t, yaml, func(o *setup) { o.Cap, o.Queue, o.More = 1, 0, o.More[:1] })
	begun := r.askFor("")
	begun.Send(frame.Text, created("a"))
	begun.Expect(frame.Text, created("a"))
	other := r.askFor("?session=a") // of the only place that is left
	r.Connect(wstest.UpgradeRequest("/v1/test?session=a")).Response()
	a := r.Service.Affinity
	if n := a.Find(nil, "a"); n == nil {
		t.Error("the id of a session that lasts is forgotten")
	} else {
		a.End(n)
	}
	other.Reset()
	r.Record()
	wstest.Eventually(t, "the other server has room", func() bool { return r.Backends[0].Stats().Idle+r.Backends[1].Stats().Idle > 0 })
	begun.Send(frame.Text, "x")
	begun.Expect(frame.Text, "x")
	if server, returned := r.visit("", "X-A: b", resumed("a"), "x"); returned != "gone" {
		t.Errorf("came to %s: %q", server, returned)
	}
	begun.CloseNormally()
	wstest.Eventually(t, "the id is forgotten", func() bool {
		n := a.Find(nil, "a")
		a.End(n)
		return n == nil
	})
}
