package limits

import (
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Registry has everything that is limited in a process, apart from its services. Any goroutine may use it.
type Registry struct {
	// Static.
	process *Scope
	tenants *Table[string]
	keys    *Table[Holder] // whose limits are in the configuration
	holders *Table[Holder] // who bring their limits along

	audioUsed    atomic.Pointer[AudioUsed]
	limitsOfKeys atomic.Pointer[map[Holder]*Limits] // as they are in keys
	generation   atomic.Uint64                      // goes up with each change of limits
}

// Holder is who has limits: an API key, or the subject of a token.
type Holder struct {
	Method string // by which it is authenticated
	Tenant string
	Name   string // of the key, or of the subject
}

// ServiceScopes are the scopes of a service: its own, and those of its clients by address.
type ServiceScopes struct {
	service *Scope
	clients *Table[netip.Prefix]
}

// Visitor is who wants a session.
type Visitor struct {
	Service *ServiceScopes // nil for a service without limits
	Address netip.Addr     // of the client; invalid for unknown

	// What is known once the client is authenticated.
	Tenant string  // empty for none
	Holder Holder  // the zero value for none
	Own    *Limits // that its credential says; nil for none
}

// NewRegistry returns a registry without limits.
func NewRegistry() *Registry {
	nameOf := func(h Holder) string { return h.Name }
	r := &Registry{
		process: NewScope(Process, ""), tenants: NewTable(Tenant, func(name string) string { return name }),
		keys: NewTable(Key, nameOf), holders: NewTable(Key, nameOf),
	}
	r.limitsOfKeys.Store(new(map[Holder]*Limits))
	r.SetTenants(0, nil, nil)
	return r
}

// NewService returns the scopes of a service that has no limits yet.
func NewService(name string) *ServiceScopes {
	return &ServiceScopes{service: NewScope(Service, name), clients: NewTable(Client, NameOfAddress)}
}

// Generation changes with each change of limits. Sessions that began with an earlier one call [Registry.Join] to come under limits that
// are new.
func (r *Registry) Generation() uint64 { return r.generation.Load() }

// SetProcess changes the limits of the process. It returns whether they differ from those before, as the other methods do.
func (r *Registry) SetProcess(now Instant, l Limits) (changed bool) {
	return r.note(r.process.set(now, &l))
}

// SetTenants changes the limits of the tenants, by name, and those of each other tenant, nil for none.
func (r *Registry) SetTenants(now Instant, byName map[string]Limits, others *Limits) {
	if others == nil {
		others = new(Limits) // tenants are counted without limits, too
	}
	named := make(map[string]*Limits, len(byName))
	for name, l := range byName {
		named[name] = &l
	}
	r.note(r.tenants.SetLimits(now, func(name string) *Limits {
		if l := named[name]; l != nil {
			return l
		}
		return others
	}))
}

// SetKeys changes the limits of the API keys that have some.
func (r *Registry) SetKeys(now Instant, byKey map[Holder]*Limits) {
	r.keys.SetLimits(now, func(h Holder) *Limits { return byKey[h] })
	before := r.limitsOfKeys.Swap(&byKey)
	r.note(!maps.EqualFunc(*before, byKey, func(a, b *Limits) bool { return *a == *b }))
}

// SetService changes the limits of a service, and those of each address that its clients have.
func (r *Registry) SetService(now Instant, s *ServiceScopes, service, client Limits) {
	r.note(s.service.set(now, &service))
	limitsOf := func(netip.Prefix) *Limits { return &client }
	if client == (Limits{}) {
		limitsOf = func(netip.Prefix) *Limits { return nil }
	}
	r.note(s.clients.SetLimits(now, limitsOf))
}

func (r *Registry) note(changed bool) bool {
	if changed {
		r.generation.Add(1)
	}
	return changed
}

// Arrive takes a session's place in the scope of its client's address, before the client is authenticated. What was taken before a
// refusal is in the hold.
func (r *Registry) Arrive(now Instant, v *Visitor, h *Hold) *Refusal {
	return r.arrive(now, v, h, true)
}

func (r *Registry) arrive(now Instant, v *Visitor, h *Hold, check bool) *Refusal {
	a := AddressOf(v.Address)
	if v.Service == nil || !a.IsValid() || h.has(Client) {
		return nil
	}
	return h.take(v.Service.clients.enter(now, a, nil, check))
}

// Admit does the same in all other scopes, after the client was authenticated: of its key and tenant, its service and the process. What
// all share comes last, so that neither strangers nor a client over its own limits can use it up.
func (r *Registry) Admit(now Instant, v *Visitor, h *Hold) *Refusal { return r.admit(now, v, h, true) }

func (r *Registry) admit(now Instant, v *Visitor, h *Hold, check bool) *Refusal {
	if v.Holder != (Holder{}) && !h.has(Key) {
		if refusal := h.take(r.keys.enter(now, v.Holder, nil, check)); refusal != nil {
			return refusal
		}
	}
	if v.Own != nil && !h.has(Key) {
		if refusal := h.take(r.holders.enter(now, v.Holder, v.Own, check)); refusal != nil {
			return refusal
		}
	}
	if v.Tenant != "" && !h.has(Tenant) {
		if refusal := h.take(r.tenants.enter(now, v.Tenant, nil, check)); refusal != nil {
			return refusal
		}
	}
	if check {
		if left := r.AudioLeft(h); left != nil && left.Audio == 0 {
			return &Refusal{Scope: left.Cause.Scope, Limit: AudioQuota, Renews: left.Renews}
		}
	}
	if v.Service != nil {
		if refusal := h.enter(now, v.Service.service, check); refusal != nil {
			return refusal
		}
	}
	return h.enter(now, r.process, check)
}

// Join takes places for a session that runs in the scopes that have got limits since it began. It refuses nothing.
func (r *Registry) Join(now Instant, v *Visitor, h *Hold) {
	r.arrive(now, v, h, false)
	r.admit(now, v, h, false)
}

// Process returns the scope of the process.
func (r *Registry) Process() *Scope { return r.process }

// Tenants returns how many sessions each tenant has that has any.
func (r *Registry) Tenants() map[string]int { return r.tenants.Sessions() }

// Hold is a session's places. It has one owner at a time, except that any goroutine may release it. The zero value holds none.
type Hold struct {
	scopes   []*Scope
	released atomic.Bool
}

func (h *Hold) has(kind Kind) bool {
	return slices.ContainsFunc(h.scopes, func(s *Scope) bool { return s.kind == kind })
}

// enter takes a place in a scope that stays, unless that has no limits.
func (h *Hold) enter(now Instant, s *Scope, check bool) *Refusal {
	if h.has(s.kind) || *s.limits.Load() == (Limits{}) {
		return nil
	}
	if refusal := s.enter(now, check); refusal != nil {
		return refusal
	}
	return h.take(s, nil)
}

func (h *Hold) take(s *Scope, refusal *Refusal) *Refusal {
	if s != nil {
		h.scopes = append(h.scopes, s)
	}
	return refusal
}

// Empty reports whether nothing limits the session.
func (h *Hold) Empty() bool { return h == nil || len(h.scopes) == 0 }

// Release gives all places back. Only the first call of Release or Cancel does anything, and none on nil.
func (h *Hold) Release() { h.release(false) }

// Cancel is Release for a client that got no session, whoever refused it: it counts as a new session of its address only.
func (h *Hold) Cancel() { h.release(true) }

func (h *Hold) release(unused bool) {
	if h == nil || h.released.Swap(true) {
		return
	}
	for _, s := range h.scopes {
		if unused && s.kind != Client {
			s.begins.PutBack(s.limits.Load().SessionRate)
		}
		s.leave()
	}
}

// Rated reports whether a limit on messages or bytes a second applies to the session.
func (h *Hold) Rated() bool {
	return slices.ContainsFunc(h.scopes, func(s *Scope) bool {
		l := s.limits.Load()
		return !l.MessageRate.Unlimited() || !l.ByteRate.Unlimited()
	})
}

// Turn returns how many messages and bytes the session's client may send before the session pays for them.
func (h *Hold) Turn() (messages, bytes uint64) {
	messages, bytes = Rate{}.TurnMessages(), Rate{}.TurnBytes()
	for _, s := range h.scopes {
		l := s.limits.Load()
		messages, bytes = min(messages, l.MessageRate.TurnMessages()), min(bytes, l.ByteRate.TurnBytes())
	}
	return messages, bytes
}

// Cause is a limit of a scope.
type Cause struct {
	Scope *Scope // nil for that of the session's service
	Limit Limit
}

// Spend pays for what the session's client has sent. It returns for how long the client must not send, and because of which limit.
func (h *Hold) Spend(now Instant, messages, bytes uint64) (wait time.Duration, cause Cause) {
	for _, s := range h.scopes {
		if w, limit := s.spend(now, messages, bytes); w > wait {
			wait, cause = w, Cause{s, limit}
		}
	}
	return wait, cause
}

// strictest returns the least of a service's limit and those of the session's scopes, where 0 is none, and whose it is.
func strictest[N int64 | time.Duration](h *Hold, limit Limit, own N, of func(*Limits) N) (least N, cause Cause) {
	least, cause = own, Cause{Limit: limit}
	if h == nil {
		return least, cause
	}
	for _, s := range h.scopes {
		if n := of(s.limits.Load()); n > 0 && (least <= 0 || n < least) {
			least, cause = n, Cause{s, limit}
		}
	}
	return least, cause
}

// MaxMessage returns the strictest limit on messages, in bytes, with own the service's; 0 for none.
func (h *Hold) MaxMessage(own int64) (int64, Cause) {
	return strictest(h, MaxMessage, own, func(l *Limits) int64 { return l.MaxMessage })
}

// MaxSession returns the strictest limit on a session's duration, with own the service's; 0 for none.
func (h *Hold) MaxSession(own time.Duration) (time.Duration, Cause) {
	return strictest(h, MaxSession, own, func(l *Limits) time.Duration { return l.MaxSession })
}

// IdleTimeout returns the strictest limit on idleness, with own the service's; 0 for none.
func (h *Hold) IdleTimeout(own time.Duration) (time.Duration, Cause) {
	return strictest(h, IdleTimeout, own, func(l *Limits) time.Duration { return l.IdleTimeout })
}
