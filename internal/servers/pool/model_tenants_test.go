package pool

import (
	"math"
	"slices"

	"pgregory.net/rapid"
)

// modelTenants is what the model knows of the tenants. How many connections each uses, and how many of its clients wait, is counted
// each time.
type modelTenants struct {
	settings      TenantSettings
	virtual       float64            // time
	began, served map[string]float64 // when the tenant's clients began to wait, and when one was last served
}

var modelTenantNames = []string{"", "x", "y", "z"}

func (m *model) tenantName(t *rapid.T) string {
	if !m.hasTenants {
		return ""
	}
	return rapid.SampledFrom(modelTenantNames).Draw(t, "tenant")
}

// setTenants changes shares and guarantees. All shares are powers of two, so that their sums are exact.
func (m *model) setTenants(t *rapid.T) {
	if !m.hasTenants {
		t.Skip("no tenants")
	}
	shares := rapid.MapOf(rapid.SampledFrom(modelTenantNames), rapid.SampledFrom([]float64{0.25, 0.5, 1, 2, 8}))
	m.tenants.settings = TenantSettings{
		Shares: shares.Draw(t, "shares"), OtherShare: rapid.SampledFrom([]float64{0, 0.5, 4}).Draw(t, "other"),
		Guaranteed: rapid.MapOf(rapid.SampledFrom(modelTenantNames[1:]), rapid.IntRange(0, 6)).Draw(t, "guaranteed"),
	}
	given := m.tenants.settings
	m.group.SetTenants(&given)
	m.serve(t)
}

func (m *model) share(tenant string) float64 {
	s := m.tenants.settings
	switch share, ok := s.Shares[tenant]; {
	case ok:
		return share
	case s.OtherShare > 0:
		return s.OtherShare
	}
	return 1
}

func (m *model) inUse(tenant string) (n int) {
	for _, p := range m.all {
		for _, s := range p.slots {
			if s.tenant == tenant && (s.state == Leased || s.state == Resetting) {
				n++
			}
		}
	}
	return n
}

func (m *model) waitingOf(tenant string) (n int) {
	for _, w := range m.waiting {
		if w.waiter.Tenant == tenant {
			n++
		}
	}
	return n
}

// room returns the places of the backends that work, and how many of them no session uses.
func (m *model) room() (all, free int) {
	for _, p := range m.pools {
		if p.mode == Enabled && p.usable && p.settings.Weight > 0 {
			all += p.cap()
			free += max(0, p.cap()-p.count(Leased, Resetting))
		}
	}
	return all, free
}

func (m *model) promised() (sum int) {
	for _, n := range m.tenants.settings.Guaranteed {
		sum += n
	}
	return sum
}

// guarantee returns how many places are guaranteed to a tenant at present.
func (m *model) guarantee(tenant string) int {
	all, _ := m.room()
	promised := m.promised()
	n := m.tenants.settings.Guaranteed[tenant]
	if promised > all {
		n = n * all / promised
	}
	return n
}

func (m *model) free() int {
	_, free := m.room()
	return free
}

// open returns how many free places anybody may use.
func (m *model) open() int {
	_, free := m.room()
	for _, tenant := range modelTenantNames {
		free -= max(0, m.guarantee(tenant)-m.inUse(tenant))
	}
	return free
}

// vacant returns how many places no session uses that the tenant's may use, among them all of backends to which no dial has ended.
func (m *model) vacant(tenant string) (n int) {
	if m.paused {
		return 0
	}
	for _, p := range m.pools {
		switch {
		case p.mode == Enabled && p.settings.Weight > 0 && p.totals.Dialed+p.totals.DialFailed+p.totals.Refused == 0:
			n += p.size()
		case p.leasable():
			n += p.cap() - p.count(Leased, Resetting)
		}
	}
	for _, other := range modelTenantNames {
		if other != tenant {
			n -= max(0, m.guarantee(other)-m.inUse(other))
		}
	}
	return max(0, n)
}

// entitled: the tenant may use another place.
func (m *model) entitled(tenant string) bool {
	return m.promised() == 0 || m.inUse(tenant) < m.guarantee(tenant) || m.open() > 0
}

// precedes tells which of two clients is served first when their tenants use these numbers of connections.
func (m *model) precedes(a, b *modelClient, inUse map[string]int) bool {
	rank := func(w *modelClient) []float64 {
		name := w.waiter.Tenant
		used := inUse[name]
		key, due := float64(used+1)/m.share(name), math.MaxFloat64
		if used == 0 {
			due = max(m.tenants.began[name], m.tenants.served[name]) + 1/m.share(name)
		}
		switch {
		case used < m.guarantee(name):
			return []float64{0, key, due}
		case due <= m.tenants.virtual:
			return []float64{1, due, due}
		}
		return []float64{2, key, due}
	}
	if order := slices.Compare(rank(a), rank(b)); order != 0 && a.waiter.Tenant != b.waiter.Tenant {
		return order < 0
	}
	return slices.Index(m.waiting, a) < slices.Index(m.waiting, b)
}

func (m *model) used() map[string]int {
	used := make(map[string]int)
	for _, name := range modelTenantNames {
		used[name] = m.inUse(name)
	}
	return used
}

// inOrder returns the clients in the order in which they would be served, one after the other, without those for whom no place is left.
func (m *model) inOrder() []*modelClient { return m.inOrderOf(m.open()) }

// inOrderOf returns them if open places are not guaranteed to any tenant.
func (m *model) inOrderOf(open int) (order []*modelClient) {
	used := m.used()
	left := slices.Clone(m.waiting)
	for len(left) > 0 {
		next := left[0]
		for _, w := range left[1:] {
			if m.precedes(w, next, used) {
				next = w
			}
		}
		name := next.waiter.Tenant
		if used[name] >= m.guarantee(name) && m.promised() > 0 {
			if open <= 0 {
				left = slices.DeleteFunc(left, func(w *modelClient) bool { return w.waiter.Tenant == name })
				continue
			}
			open--
		}
		order = append(order, next)
		left = slices.DeleteFunc(left, func(w *modelClient) bool { return w == next })
		used[name]++
	}
	return order
}

// servable returns the client that is served next of those for whom there is an idle connection.
func (m *model) servable() (next *modelClient) {
	used := m.used()
	for _, w := range m.waiting {
		if len(m.candidates(w.waiter.Variant)) > 0 && m.entitled(w.waiter.Tenant) && (next == nil || m.precedes(w, next, used)) {
			next = w
		}
	}
	return next
}

// mustWait: a client who comes now gets nothing at once.
func (m *model) mustWait(w *Waiter[int]) bool {
	if !m.entitled(w.Tenant) {
		return true
	}
	own := slices.ContainsFunc(m.waiting, func(other *modelClient) bool {
		return other.waiter.Variant == w.Variant && other.waiter.Tenant == w.Tenant
	})
	return own || m.waits(w.Variant) && m.inUse(w.Tenant) >= m.guarantee(w.Tenant)
}

// took notes that a client of the tenant was served without having waited.
func (m *model) took(name string) { m.tenants.served[name] = m.tenants.virtual + 1/m.share(name) }

// advance notes that a client of the tenant, which is still among those who wait, was served.
func (m *model) advance(name string) {
	shares := 0.0
	for _, waiting := range modelTenantNames {
		if m.waitingOf(waiting) > 0 {
			shares += m.share(waiting)
		}
	}
	due := max(m.tenants.began[name], m.tenants.served[name]) + 1/m.share(name)
	m.tenants.virtual += 1 / shares
	m.tenants.served[name] = m.tenants.virtual
	if m.inUse(name) == 1 {
		m.tenants.served[name] = min(max(due, m.tenants.virtual-1/m.share(name)), m.tenants.virtual+1/m.share(name))
	}
}

// makesRoom sees whether a client of another tenant lost its place in the full queue, and that it should.
func (m *model) makesRoom(t *rapid.T, tenant string) bool {
	var most *modelClient // the last client of the tenant with the most
	for _, w := range m.waiting {
		if most == nil || m.perShare(w, 0) >= m.perShare(most, 0) {
			most = w
		}
	}
	evicted := slices.DeleteFunc(slices.Clone(m.waiting), func(w *modelClient) bool { return w.waiter.Refused() == nil })
	if most == nil {
		return false
	}
	name := most.waiter.Tenant
	entitled := m.inUse(tenant)+m.waitingOf(tenant) < m.guarantee(tenant)
	less := float64(m.waitingOf(tenant)+1)/m.share(tenant) < m.perShare(most, 0)
	var last *modelClient // of its clients that may be evicted
	for _, w := range m.waiting {
		if w.waiter.Tenant == name && !w.waiter.Begun {
			last = w
		}
	}
	if name == tenant || !entitled && !less || last == nil {
		if len(evicted) > 0 {
			t.Fatalf("a client of %q lost its place for one of %q", evicted[0].waiter.Tenant, tenant)
		}
		return false
	}
	if len(evicted) != 1 || evicted[0] != last || last.waiter.Refused() != ErrEvicted {
		t.Fatalf("%d clients lost their place; want the last of %q to lose it for %q", len(evicted), name, tenant)
	}
	if _, handed := <-last.waiter.Ready(); handed {
		t.Fatal("a client lost its place and got a connection")
	}
	if _, leased := m.group.Leave(last.waiter, LeftEarly); leased {
		t.Fatal("a client that lost its place left with a connection")
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(w *modelClient) bool { return w == last })
	m.queue.Evicted++
	return true
}

// perShare returns how many clients of its tenant wait, for the tenant's share.
func (m *model) perShare(w *modelClient, more int) float64 {
	return float64(m.waitingOf(w.waiter.Tenant)+more) / m.share(w.waiter.Tenant)
}

// checkTenants: the group counts what the model finds, keeps nothing of tenants that it does not need, and its heaps are in order.
func (m *model) checkTenants(t *rapid.T) {
	all, totals := m.group.Tenants()
	m.checkTotals(t, all, totals)
	sum := totals.Leased
	seen := make(map[string]bool)
	for _, s := range all {
		seen[s.Name] = true
		sum += s.Totals.Leased
		want := TenantStats{
			Name: s.Name, Share: m.share(s.Name), Guaranteed: m.guarantee(s.Name), Promised: m.tenants.settings.Guaranteed[s.Name],
			InUse: m.inUse(s.Name), Waiting: m.waitingOf(s.Name), Totals: s.Totals,
		}
		if s != want {
			t.Fatalf("tenant %+v;\nwant   %+v", s, want)
		}
		if _, named := m.tenants.settings.Shares[s.Name]; !named && s.Name != "" && s.InUse+s.Waiting+s.Promised == 0 {
			t.Fatalf("a tenant is remembered without need: %+v", s)
		}
	}
	for _, name := range modelTenantNames {
		if !seen[name] && m.inUse(name)+m.waitingOf(name) > 0 {
			t.Fatalf("tenant %q is not known", name)
		}
		if !seen[name] {
			delete(m.tenants.served, name)
		}
	}
	if sum != m.leased {
		t.Fatalf("%d leases of all tenants; want %d", sum, m.leased)
	}
	if guaranteed, _ := m.room(); m.sumOfGuarantees() > guaranteed {
		t.Fatalf("%d places are guaranteed, and there are %d", m.sumOfGuarantees(), guaranteed)
	}
	checkHeap(t, &m.group.queue.order)
	checkHeap(t, &m.group.queue.fullest)
	checkHeap(t, &m.group.queue.deadlines)
	checkHeap(t, &m.group.queue.base.tenants)
	for _, l := range m.group.queue.variants {
		checkHeap(t, &l.tenants)
		if len(l.tenants.items) == 0 {
			t.Fatal("a queue without clients is kept")
		}
	}
}

func (m *model) sumOfGuarantees() (sum int) {
	for _, name := range modelTenantNames {
		sum += m.guarantee(name)
	}
	return sum
}

// checkTotals: what is counted of each tenant adds up to what is counted of the queue.
func (m *model) checkTotals(t *rapid.T, all []TenantStats, sum TenantTotals) {
	for _, s := range all {
		sum.add(&s.Totals)
	}
	if sum.Queued != m.queue.Queued || sum.TimedOut != m.queue.TimedOut || sum.Full != m.queue.Full || sum.Evicted != m.queue.Evicted {
		t.Fatalf("all tenants: %+v; the queue: %+v", sum, m.queue)
	}
}

func checkHeap[T any](t *rapid.T, h *heap[T]) {
	for i, item := range h.items {
		if *h.index(item) != i || i > 0 && h.before(item, h.items[(i-1)/2]) {
			t.Fatalf("item %d of a heap is out of order", i)
		}
	}
}

// checkPlaces: the clients have places in the order in which they would be served if there were room.
func (m *model) checkPlaces(t *rapid.T) {
	var clients []Client
	for _, w := range slices.Backward(m.waiting) { // in any order
		clients = append(clients, Client{w.waiter.Tenant, w.waiter.Ticket()})
	}
	places := m.group.Standings().Places(clients)
	for i, w := range m.inOrderOf(len(clients)) {
		if got := places[slices.Index(clients, Client{w.waiter.Tenant, w.waiter.Ticket()})]; got != i+1 {
			t.Fatalf("a client of %q has place %d; want %d", w.waiter.Tenant, got, i+1)
		}
	}
}
