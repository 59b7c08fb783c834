package limits

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever happens to sessions and limits, each scope counts the sessions that are in it, no more begin than its limit allows, and in
// the end nothing is left.
func TestRegistry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRegistry()
		services := []*ServiceScopes{NewService("a"), NewService("b")}
		now := Instant(0)
		limits := func(name string) Limits {
			l := Limits{Sessions: rapid.IntRange(0, 3).Draw(t, name)}
			if n := rapid.Int64Range(-10, 10).Draw(t, name+" rate"); n > 0 {
				l.SessionRate = Rate{n, time.Second}
			}
			return l
		}
		var held []*Hold
		var visitors []Visitor
		inside := func(same func(v *Visitor) bool, kind Kind) (n int) {
			for i := range held {
				if same(&visitors[i]) && held[i].has(kind) {
					n++
				}
			}
			return n
		}
		check := func() {
			for i := range held {
				v := &visitors[i]
				for _, s := range held[i].scopes {
					want := inside(func(other *Visitor) bool {
						switch s.kind {
						case Process:
							return true
						case Service:
							return other.Service == v.Service
						case Client:
							return other.Service == v.Service && other.Address == v.Address
						case Key:
							return other.Holder == v.Holder
						}
						return other.Tenant == v.Tenant
					}, s.kind)
					if s.Sessions() != want {
						t.Fatalf("%v %q has %d sessions, in truth %d", s.kind, s.name, s.Sessions(), want)
					}
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				v := Visitor{Service: rapid.SampledFrom(services).Draw(t, "service"), Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(1, 3).Draw(t, "address"))})}
				var h Hold
				refusal := r.Arrive(now, &v, &h)
				if refusal == nil {
					if rapid.Bool().Draw(t, "with a key") {
						v.Tenant = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "tenant")
						v.Holder = Holder{"keys", v.Tenant, "k"}
						if rapid.Bool().Draw(t, "a token") {
							v.Holder.Method, v.Own = "jwt", &Limits{Sessions: 2}
						}
					}
					refusal = r.Admit(now, &v, &h)
				}
				if refusal != nil {
					if l := refusal.Scope.Limits(); refusal.Limit == Sessions && refusal.Scope.Sessions() < l.Sessions {
						t.Fatalf("refused with %d of %d sessions", refusal.Scope.Sessions(), l.Sessions)
					}
					h.Release()
					return
				}
				for _, s := range h.scopes {
					if l := s.Limits(); l.Sessions > 0 && s.Sessions() > l.Sessions {
						t.Fatalf("%v %q has %d of %d sessions", s.kind, s.name, s.Sessions(), l.Sessions)
					}
				}
				held, visitors = append(held, &h), append(visitors, v)
			},
			"end": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				held[i].Release()
				held[i].Release() // does nothing
				held, visitors = append(held[:i:i], held[i+1:]...), append(visitors[:i:i], visitors[i+1:]...)
			},
			"join": func(*rapid.T) {
				for i := range held {
					r.Join(now, &visitors[i], held[i])
				}
			},
			"time":    func(t *rapid.T) { now += Instant(rapid.Int64Range(0, int64(time.Second)).Draw(t, "time")) },
			"process": func(*rapid.T) { r.SetProcess(now, limits("process")) },
			"service": func(t *rapid.T) {
				r.SetService(now, rapid.SampledFrom(services).Draw(t, "service"), limits("of service"), limits("of client"))
			},
			"keys": func(t *rapid.T) {
				l := limits("of key")
				r.SetKeys(now, map[Holder]*Limits{{"keys", rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tenant"), "k"}: &l})
			},
			"tenants": func(*rapid.T) { r.SetTenants(now, map[string]Limits{"x": limits("x")}, nil) },
			"":        func(*rapid.T) { check() },
		})
		for _, h := range held {
			h.Release()
		}
		now += Instant(time.Hour)
		for _, s := range services {
			if s.service.Sessions() != 0 {
				t.Fatalf("%d sessions are left in a service", s.service.Sessions())
			}
			for range 4 {
				s.clients.mu.Lock()
				s.clients.tidy(now)
				s.clients.mu.Unlock()
			}
			if s.clients.Len() != 0 || s.clients.empty.Len() != 0 {
				t.Fatalf("%d clients are left", s.clients.Len())
			}
		}
		if r.process.Sessions() != 0 || len(r.Tenants()) != 0 || len(r.keys.Sessions())+len(r.holders.Sessions()) != 0 {
			t.Fatalf("left: %d sessions, tenants %v, keys %v", r.process.Sessions(), r.Tenants(), r.keys.Sessions())
		}
	})
}

// A flood of addresses takes bounded memory, and harms no client that has sessions. After it, its memory is soon free.
func TestFloodOfAddresses(t *testing.T) {
	r, s := NewRegistry(), NewService("stt")
	r.SetService(0, s, Limits{}, Limits{Sessions: 1, SessionRate: Rate{1, time.Minute}})
	s.clients.maxEmpty = 1000
	now := Instant(0)
	enter := func(address netip.Addr) (*Hold, *Refusal) {
		h := new(Hold)
		return h, r.Arrive(now, &Visitor{Service: s, Address: address}, h)
	}
	lasting, refusal := enter(netip.MustParseAddr("192.0.2.1"))
	if refusal != nil {
		t.Fatal(refusal)
	}
	for i := range 20_000 {
		now += Instant(time.Millisecond)
		h, refusal := enter(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
		if refusal != nil {
			t.Fatal(refusal)
		}
		h.Release()
		if n := s.clients.Len(); n > 1001 {
			t.Fatalf("%d scopes are kept", n)
		}
	}
	if _, refusal := enter(netip.MustParseAddr("192.0.2.1")); refusal == nil || refusal.Limit != Sessions {
		t.Errorf("the one with a session was forgotten: %v", refusal)
	}
	if _, refusal := enter(netip.MustParseAddr("10.0.78.31")); refusal == nil || refusal.Limit != SessionRate || refusal.Wait.Round(time.Second) != time.Minute {
		t.Errorf("the last was forgotten: %+v", refusal)
	}
	now += Instant(time.Hour)
	for range 300 {
		h, _ := enter(netip.MustParseAddr("192.0.2.2"))
		h.Release()
	}
	if n := s.clients.Len(); n != 2 {
		t.Errorf("%d scopes are left", n)
	}
	lasting.Release()
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := NameOfAddress(AddressOf(netip.MustParseAddr(text))); got != want {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
	}
	if AddressOf(netip.Addr{}).IsValid() {
		t.Error("no address is one")
	}
}

// A refusal names the limit, and what was taken before it is given back.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		set  func(*Registry, *ServiceScopes)
		own  int
		want string
	}{
		{func(r *Registry, _ *ServiceScopes) { r.SetProcess(0, Limits{Sessions: 1}) }, 0, `process "" session-limit 0s`},
		{func(r *Registry, s *ServiceScopes) {
			r.SetService(0, s, Limits{SessionRate: Rate{1, time.Minute}}, Limits{})
		}, 0, `service "stt" session-rate 1m0s`},
		{func(r *Registry, s *ServiceScopes) { r.SetService(0, s, Limits{}, Limits{Sessions: 1}) }, 0, `client "192.0.2.0" session-limit 0s`},
		{func(r *Registry, _ *ServiceScopes) { r.SetTenants(0, nil, &Limits{Sessions: 1}) }, 0, `tenant "acme" session-limit 0s`},
		{func(r *Registry, _ *ServiceScopes) {
			r.SetTenants(0, map[string]Limits{"acme": {SessionRate: Rate{1, time.Hour}}}, &Limits{Sessions: 9})
		}, 0, `tenant "acme" session-rate 1h0m0s`},
		{func(*Registry, *ServiceScopes) {}, 1, `key "k1" session-limit 0s`},
	} {
		r, s := NewRegistry(), NewService("stt")
		c.set(r, s)
		v := &Visitor{
			Service: s, Address: netip.MustParseAddr("192.0.2.0"), Tenant: "acme", Holder: Holder{"keys", "acme", "k1"}, Own: &Limits{Sessions: c.own},
		}
		var first, second Hold
		enter := func(h *Hold) *Refusal {
			if refusal := r.Arrive(0, v, h); refusal != nil {
				return refusal
			}
			return r.Admit(0, v, h)
		}
		if refusal := enter(&first); refusal != nil {
			t.Fatal(refusal)
		}
		refusal := enter(&second)
		if refusal == nil {
			t.Errorf("no client is refused; want %s", c.want)
			continue
		}
		if got := fmt.Sprintf("%v %q %v %v", refusal.Scope.Kind(), refusal.Scope.Name(), refusal.Limit, refusal.Wait); got != c.want {
			t.Errorf("%s; want %s", got, c.want)
		}
		second.Release()
		first.Release()
		if n := len(r.Tenants()) + len(r.keys.Sessions()) + len(r.holders.Sessions()) + len(s.clients.Sessions()) + r.process.Sessions() + s.service.Sessions(); n != 0 {
			t.Errorf("%s: %d places are left", c.want, n)
		}
	}
}

// A client that is refused uses up no new sessions, neither of others nor of its own tenant.
func TestRefusedClientsUseUpNothing(t *testing.T) {
	one := Limits{SessionRate: Rate{1, time.Minute}}
	for name, c := range map[string]struct{ greedy, process Limits }{
		"audio quota": {Limits{SessionRate: one.SessionRate, AudioQuota: Quota{Audio: time.Hour}}, Limits{}},
		"process":     {one, Limits{Sessions: 1}},
	} {
		r, s := NewRegistry(), NewService("stt")
		r.SetService(0, s, one, Limits{})
		r.SetTenants(0, map[string]Limits{"greedy": c.greedy, "acme": one}, nil)
		r.SetAudioUsed(func(Kind, string, Quota) (time.Duration, time.Time) { return time.Hour, time.Unix(1e9, 0) })
		r.SetProcess(0, c.process)
		r.process.sessions.Store(1)
		for range 3 {
			h := new(Hold)
			if refusal := r.Admit(1, &Visitor{Service: s, Tenant: "greedy"}, h); refusal == nil || refusal.Limit == SessionRate {
				t.Errorf("%s: %+v", name, refusal)
			}
			h.Cancel()
		}
		r.SetProcess(1, Limits{})
		r.SetTenants(1, map[string]Limits{"greedy": one, "acme": one}, nil)
		for _, v := range []Visitor{{Service: s, Tenant: "acme"}, {Tenant: "greedy"}} {
			if refusal := r.Admit(1, &v, new(Hold)); refusal != nil {
				t.Errorf("%s: the first session of %s is refused by the %v of the %v", name, v.Tenant, refusal.Limit, refusal.Scope.Kind())
			}
		}
	}
}

func TestStrictest(t *testing.T) {
	var h Hold
	tenant, key := NewScope(Tenant, "acme"), NewScope(Key, "k")
	tenant.SetLimits(0, &Limits{MaxMessage: 500, MaxSession: time.Hour})
	key.SetLimits(0, &Limits{MaxMessage: 700, MaxSession: time.Minute})
	h.take(tenant, nil)
	h.take(key, nil)
	if n, by := h.MaxMessage(600); n != 500 || by.Scope != tenant {
		t.Errorf("%d by %v", n, by)
	}
	if n, by := h.MaxMessage(100); n != 100 || by.Scope != nil {
		t.Errorf("%d by %v", n, by)
	}
	if d, by := h.MaxSession(0); d != time.Minute || by.Scope != key {
		t.Errorf("%v by %v", d, by)
	}
	if d, by := h.IdleTimeout(0); d != 0 || by.Scope != nil {
		t.Errorf("%v by %v", d, by)
	}
	if d, _ := (*Hold)(nil).IdleTimeout(time.Second); d != time.Second {
		t.Errorf("%v", d)
	}
}
